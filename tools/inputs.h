/*
 * inputs.h - the TRACE arguments of a command as one stream of events: LTTng traces, folders of
 * them, and files of events as text.
 */
#ifndef INPUTS_H
#define INPUTS_H

#include "event.h"

/* Exit status of what cannot be read at all, or holds nothing; each with a sentence on stderr. */
enum {
	INPUT_NO_EVENTS = EXIT_FOUND,      /* a trace without a single event */
	INPUT_NOT_A_TRACE = EXIT_USAGE,    /* something else, or nothing at all */
	INPUT_EMPTY = EXIT_UNAVAILABLE,    /* an empty folder */
	INPUT_FORBIDDEN = EXIT_NO_PERMISSION,
	INPUT_FOREIGN = 5,                 /* a trace of other programs only */
};

/* Sentences on stderr. */
extern const struct trace_log inputs_standard_error;

/* range may be NULL. NULL: *status is the exit status, and the log was told why. */
struct event_source *inputs_open(char *const *paths, unsigned count,
	const struct event_range *range, const struct trace_log *log, int *status);

/* After the last event: 0, or why there was none. */
int inputs_verdict(struct event_source *source, const char *name);

#endif
