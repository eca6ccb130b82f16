/*
 * events_tp.h - the tracepoints, made from the table in cuward/events.h.
 *
 * LTTng includes this file again and again with other meanings for its macros; the table only ever
 * expands to them, so it serves every pass. Fields are taken straight from the event's struct.
 */
#ifndef CUWARD_PROVIDER
#define CUWARD_PROVIDER cuward
#endif

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER CUWARD_PROVIDER

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./events_tp.h"

#if !defined(CUWARD_EVENTS_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)

#include <lttng/tracepoint.h>

#include "cuward/events.h"

#ifndef CUWARD_EVENTS_TP_H
#define CUWARD_EVENTS_TP_H

/* So that `lttng enable-event --loglevel` can leave out the frequent ones; a row for each event. */
enum event_level {
	LEVEL_process = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_process_end = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_device = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_thread = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_api = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_function = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_stream_number = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_site = LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE,
	LEVEL_denied = LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING,
	LEVEL_leak = LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING,
	LEVEL_lost = LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING,
	LEVEL_context = LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO,
	LEVEL_stream = LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO,
	LEVEL_alloc = LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO,
	LEVEL_held = LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO,
	LEVEL_free = LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO,
	LEVEL_launch = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_copy = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_sync = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_launched = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_gpu = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_untimed = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM,
	LEVEL_call = LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION,
};

#define TP_u8(name) lttng_ust_field_integer(uint8_t, name, e->name)
#define TP_u16(name) lttng_ust_field_integer(uint16_t, name, e->name)
#define TP_u32(name) lttng_ust_field_integer(uint32_t, name, e->name)
#define TP_u64(name) lttng_ust_field_integer(uint64_t, name, e->name)
#define TP_i32(name) lttng_ust_field_integer(int32_t, name, e->name)
#define TP_x64(name) lttng_ust_field_integer_hex(uint64_t, name, e->name)
#define TP_str(name) lttng_ust_field_string(name, e->name ? e->name : "")

#endif

/* One more step, for the name of the provider to be what it stands for. */
#define TP_EVENT(provider, event, ...) \
	LTTNG_UST_TRACEPOINT_EVENT(provider, event, \
		LTTNG_UST_TP_ARGS(const struct event_##event *, e), LTTNG_UST_TP_FIELDS(__VA_ARGS__)) \
	LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, event, LEVEL_##event)

#define F(type, name) TP_##type(name)
#define X(event, fields) TP_EVENT(CUWARD_PROVIDER, event, fields)
CUWARD_EVENTS(X, F)
#undef X
#undef F
#undef TP_EVENT

#endif

#include <lttng/tracepoint-event.h>
