/*
 * provider.c - libcuward-lttng.so: the LTTng-UST provider `cuward` behind one exported function.
 *
 * The shim loads this library only while tracing is on, because liblttng-ust starts two threads and
 * waits for the session daemon in its constructor.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "events_tp.h"

#include "trace.h"

#define F(type, name)
#define X(event, fields) \
	static void emit_##event(const struct event_##event *e) \
	{ \
		lttng_ust_tracepoint(cuward, event, e); \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

/* Any event will do: a session that records only cuward:alloc is a session that listens. */
static bool enabled(void)
{
#define F(type, name)
#define X(event, fields) || lttng_ust_tracepoint_enabled(cuward, event)
	return false CUWARD_EVENTS(X, F);
#undef X
#undef F
}

__attribute__((visibility("default"))) trace_provider cuward_trace_provider;

bool cuward_trace_provider(struct trace_ops *ops, unsigned layout)
{
	if (layout != TRACE_LAYOUT)
		return false;
	*ops = (struct trace_ops){
#define F(type, name)
#define X(event, fields) .event = emit_##event,
		CUWARD_EVENTS(X, F)
#undef X
#undef F
		.enabled = enabled,
	};
	return true;
}
