/*
 * trace.h - events out of the guest, as plain functions; the only door to LTTng.
 *
 * The provider library is loaded by trace_start(), at the first CUDA call, only when tracing is
 * on. Until then, and whenever no session listens, each trace_*() is one predicted branch. Hooks
 * test trace_on themselves before they read a clock.
 */
#ifndef CUWARD_TRACE_H
#define CUWARD_TRACE_H

#include <stdbool.h>

#include "cuward/events.h"
#include "cuward/ledger.h"

/* One function an event; the provider fills it in. */
struct trace_ops {
#define F(type, name)
#define X(event, fields) void (*event)(const struct event_##event *);
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	bool (*enabled)(void); /* does a session record our events now? */
};

extern bool trace_on;
extern struct trace_ops trace_ops;

/* void trace_alloc(const struct event_alloc *), and so on for each event. */
#define F(type, name)
#define X(event, fields) \
	static inline void trace_##event(const struct event_##event *e) \
	{ \
		if (__builtin_expect(trace_on, 0)) \
			trace_ops.event(e); \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

/*
 * Load the provider from `folder` (where libcuward.so lies) and tell whether a session records.
 * Returns TRACE_REGISTERED or TRACE_FAILED, with one sentence in why. Sets trace_on on success.
 * Called once a process image, on a thread inside a CUDA call, no lock of ours held.
 */
enum trace_state trace_start(const char *folder, char *why, unsigned why_bytes);

/* Stop emitting (final handler, forked child): trace_on becomes false. Async-signal-safe. */
void trace_stop(void);

#endif
