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
#include <stdint.h>

#include "cuward/events.h"
#include "cuward/ledger.h"

/*
 * What shim and provider must agree on; the two may come from different builds. Sizes of the events
 * catch nearly every change of the table.
 */
#define F(type, name)
#define X(event, fields) +(EVENT_##event + 1) * sizeof(struct event_##event)
enum { TRACE_LAYOUT = 1 + (0 CUWARD_EVENTS(X, F)) };
#undef X
#undef F

/* One function an event; the provider fills it in. */
struct trace_ops {
#define F(type, name)
#define X(event, fields) void (*event)(const struct event_##event *);
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	bool (*enabled)(void); /* does a session record our events now? */
};

/* The provider's only export. False: it was built with another layout. */
typedef bool trace_provider(struct trace_ops *ops, unsigned layout);
#define TRACE_PROVIDER "cuward_trace_provider"

extern bool trace_on __attribute__((visibility("hidden")));
extern uint32_t trace_number; /* of the trace that began last in this process, from 1 */
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

/* Bit `api` is set once this process image has named that call. */
#define TRACE_CALLS_MAX 1024
extern uint64_t trace_named[TRACE_CALLS_MAX / 64];
void trace_name_call(uint32_t process, uint16_t api);

/* Name a call before the first event that carries its number; later ones cost a bit test. */
static inline void trace_define_api(uint32_t process, uint16_t api)
{
	uint64_t word = __atomic_load_n(&trace_named[api % TRACE_CALLS_MAX / 64], __ATOMIC_ACQUIRE);

	if (__builtin_expect(trace_on, 0) && !(word >> api % 64 & 1))
		trace_name_call(process, api);
}

/*
 * Load the provider from `folder` (where libcuward.so lies) and tell whether a session records.
 * Returns TRACE_REGISTERED or TRACE_FAILED, with one sentence in why. Sets trace_on on success.
 * Called on a thread inside a CUDA call, no lock of ours held, one thread at a time; once a process
 * image, again in a forked child, and again when a session was started later.
 */
enum trace_state trace_start(const char *folder, char *why, unsigned why_bytes);

/* The parts of it. Load the provider, if it is not there yet. False: why says why. */
bool trace_load(const char *folder, char *why, unsigned why_bytes);
bool trace_is_loaded(void);
/* So long the load waits for the daemon at most. */
uint64_t trace_patience_ns(void);
/* A new trace, if a session records by now: trace_on, and all that can be defined is undefined. */
bool trace_begin(void);
/* Where liblttng-ust is to look for its daemon when it is loaded; "": where it looks anyway. */
void trace_use_home(const char *home);

/* Stop emitting (final handler, forked child): trace_on becomes false. Async-signal-safe. */
void trace_stop(void);

#endif
