/*
 * trace_show.h - the state of a machine's trace, for people and as JSON.
 */
#ifndef TRACE_SHOW_H
#define TRACE_SHOW_H

#include "box_trace.h"

/* A trace that is on: where, who is in it, what is lost. EXIT_FOUND: something is, or is not in it. */
int trace_show(FILE *out, const struct box_trace *trace, bool json);

/* One that ended. */
void trace_show_end(FILE *out, const struct box_trace *trace, bool json);

#endif
