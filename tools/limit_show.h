/*
 * limit_show.h - every limit that concerns a process, where each comes from, and which binds.
 */
#ifndef LIMIT_SHOW_H
#define LIMIT_SHOW_H

#include <stdio.h>

#include "box.h"

/* Of these processes, as a table or as JSON. */
void limit_show(FILE *out, const struct box *box, struct box_process *const *processes, size_t count,
	bool json);

/* What would concern a process that was started here: the environment and the policy files. */
int limit_show_here(FILE *out, const struct box *box, bool json);

#endif
