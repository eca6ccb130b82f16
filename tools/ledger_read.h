/*
 * ledger_read.h - ledgers of other processes, read without trusting a byte of them.
 */
#ifndef LEDGER_READ_H
#define LEDGER_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "report.h"

struct ledger_file {
	struct ledger_view view; /* its header is checked, its counts fit what was read */
	char *path;
	bool cut; /* the file is shorter than its counts say */

	/* the copies behind view */
	struct ledger_header *header;
	struct ledger_thread *threads;
	char *sites;
	struct ledger_growth *growth;
	struct ledger_record *records;
};

/* Read one. False: why is one sentence, nothing is left behind. */
bool ledger_open(struct ledger_file *file, const char *path, char *why, size_t why_bytes);
void ledger_close(struct ledger_file *file);

struct ledger_list {
	struct ledger_file *files; /* by start of the image */
	size_t count;
	size_t lost; /* processes that had no room for one */
	size_t unreadable;
	char why[256]; /* of the last unreadable one */
};

/* All ledgers of a job and of the jobs nested in it; "" for all jobs there are. */
void ledger_list_open(struct ledger_list *list, const char *dir, const char *job);
void ledger_list_close(struct ledger_list *list);

enum ledger_owner {
	OWNER_DEAD,
	OWNER_ALIVE,
	OWNER_UNKNOWN, /* it has no slot, and /proc does not tell */
};

/* Does the image that wrote this ledger live? Asks the kernel, not the ledger. */
enum ledger_owner ledger_owner(const struct ledger_file *file, const char *dir);

/* The pid namespace as ledgers name it, 0 unknown. */
uint32_t ledger_own_pid_ns(void);

/* Is b a later image of the process that a is an image of? */
bool ledger_is_later_image(const struct ledger_file *a, const struct ledger_file *b);

#endif
