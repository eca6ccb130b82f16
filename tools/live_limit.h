/*
 * live_limit.h - changing the limits of running processes, through their slots.
 */
#ifndef LIVE_LIMIT_H
#define LIVE_LIMIT_H

#include "box.h"
#include "limit.h"

/* Which of a process's limits. */
enum live_scope { LIVE_PROCESS, LIVE_JOB, LIVE_USER };

/* One value a word of its slot; 0 leaves the word alone unless clear. */
struct live_change {
	uint64_t bytes[SLOT_DEVICES];
	bool clear; /* all of them say nothing again */
};

/* What a limit means for this process, whose ledger tells its GPUs, else its slot. False: why. */
bool live_resolve(struct live_change *change, const struct box_process *process,
	const struct limit *limit, char *why, size_t why_bytes);

/* Make it so. 0, or -errno: -ESRCH where it is gone by now. */
int live_write(const struct box_process *process, enum live_scope scope,
	const struct live_change *change);

#endif
