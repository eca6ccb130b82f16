/*
 * limit_show.h - every limit that concerns a process, where each comes from, and which binds.
 */
#ifndef LIMIT_SHOW_H
#define LIMIT_SHOW_H

#include <stdio.h>

#include "box.h"
#include "limit.h"

/* Of these processes, as a table or as JSON. */
void limit_show(FILE *out, const struct box *box, struct box_process *const *processes, size_t count,
	bool json);

/* A limit that a process would be started with; a NULL text is none. */
struct limit_asked {
	const char *scope;  /* "process", "job" */
	const char *text;
	const char *source; /* "CUWARD_MEMORY", "command line" */
};

/*
 * What would concern a process that is started here on these GPUs: both of these, and the policy
 * files. False: something cannot be understood, and that was said.
 */
bool limit_here(FILE *out, const struct limit_asked asked[2], const struct limit_device *devices,
	unsigned count, bool json);

#endif
