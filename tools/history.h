/*
 * history.h - processes that have ended: a file that `cuward run` appends to, and JSON reports.
 *
 * A line of the history is an element of a report's `processes` with the long parts left out, so one
 * parser reads both.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/ledger.h"

#define HISTORY_UNKNOWN (UINT64_MAX - 1) /* as BYTES_UNKNOWN */

struct history_device {
	char uuid[48];
	uint64_t total_bytes;
	uint64_t limit_bytes; /* the lowest; BYTES_NONE */
	char limit_scope[16], limit_source[48];
	uint64_t peak_bytes;
	uint64_t overhead_peak_bytes; /* HISTORY_UNKNOWN */
	uint64_t untracked_bytes;     /* HISTORY_UNKNOWN */
	uint64_t denied, denied_bytes;
	uint64_t wanted_bytes; /* used and asked for at a refusal, at most; 0: none was refused */
};

struct history_entry {
	char *host, *user, *command, *job;
	char *batch;  /* label of this name, NULL */
	char *file;   /* it was read from */
	uint64_t pid, pid_ns, image;
	uint64_t start_ns, end_ns; /* CLOCK_REALTIME, 0 unknown */
	char ended[16];
	int64_t status;
	uint64_t leaked_bytes;
	uint64_t pool_reserved; /* times the finding of this name was made */
	struct history_device devices[SLOT_DEVICES];
	unsigned device_count;
};

struct history {
	struct history_entry *entries; /* each process image once */
	size_t count, capacity;
	void *seen;
	unsigned unreadable; /* files and lines */
	char why[300];       /* of the last one */
};

/* A report, a history, or a folder with reports. */
void history_add(struct history *history, const char *path);
void history_free(struct history *history);

/*
 * Where the history is: `setting` is a file, 1 for the usual place ($XDG_STATE_HOME/cuward/
 * history.jsonl), NULL, "" or 0 for none. False: none.
 */
bool history_file(char path[PATH_MAX], const char *setting);

/* One more line, for an element of `processes`. 0 or -errno. */
int history_append(const char *path, const json_t *process);

#endif
