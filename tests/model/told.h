/*
 * told.h - what the shim told a trace provider that only remembers; told.c is that provider.
 */
#ifndef TOLD_H
#define TOLD_H

#include "trace.h"

enum told_event {
#define F(type, name)
#define X(event, fields) TOLD_##event,
	CUWARD_EVENTS(X, F)
#undef X
#undef F
};

struct told_entry {
	enum told_event event;
	union {
#define F(type, name)
#define X(event, fields) struct event_##event event;
		CUWARD_EVENTS(X, F)
#undef X
#undef F
	};
};

#define TOLD_MAX 64

/* Exported as `told`. */
struct told {
	unsigned count; /* since somebody set it to 0; entries beyond the table are only counted */
	struct told_entry entries[TOLD_MAX];
	const char *calls[TRACE_CALLS_MAX]; /* names, by number */
};

#endif
