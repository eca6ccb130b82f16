/*
 * slots_read.h - slots of running processes, of this user and of all others whose files can be read.
 *
 * Everything in a slots file is hostile: its owner may write what he likes, and cut it while we read.
 * So it is copied out with pread, and no size, count or text in it is believed.
 */
#ifndef SLOTS_READ_H
#define SLOTS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ledger_read.h"

struct slots_entry {
	struct slot slot; /* its texts end */
	uint32_t number;
	enum ledger_owner owner;
};

struct slots_file {
	char *path;
	char *folder;
	uint32_t uid; /* that the file belongs to, whatever it says */
	bool own;
	struct slots_header header; /* device_count fits; what stands beyond is empty */
	struct slots_entry *entries; /* taken ones only */
	size_t count;
};

struct slots_list {
	struct slots_file *files;
	size_t count;
	struct slots_seen {
		dev_t device;
		ino_t inode;
	} *seen; /* readable or not: a folder may be found by two names */
	size_t seen_count;
	size_t unreadable;
	char why[256]; /* of the last unreadable one */
};

/* One file. False: why is one sentence. */
bool slots_file_open(struct slots_file *file, const char *path, char *why, size_t why_bytes);
void slots_file_close(struct slots_file *file);

/* Another version of cuward made this file, and somebody who lives has a slot in it. */
bool slots_file_is_foreign(const char *path);

/* The own folder's, and every other one in the usual places; where CUWARD_DIR names one, only that. */
void slots_list_open(struct slots_list *list);
void slots_list_close(struct slots_list *list);

/* The sum, or the largest number there is: sums of what others wrote never wrap. */
uint64_t slots_add(uint64_t a, uint64_t b);

#endif
