/*
 * traced.c - events that any hook may emit; only reached while tracing is on.
 */
#include "traced.h"

uint32_t traced_duration(uint64_t began_ns)
{
	uint64_t ns = guest_clock_ns() - began_ns;

	return ns > UINT32_MAX ? UINT32_MAX : ns;
}

CUresult traced_call(enum call call, CUresult result, uint64_t began_ns)
{
	struct event_call event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .result = result,
		.duration_ns = traced_duration(began_ns),
	};

	trace_define_api(guest.key, call);
	trace_call(&event);
	return result;
}

uint32_t traced_correlation(void)
{
	return __atomic_add_fetch(&guest.correlation, 1, __ATOMIC_RELAXED);
}

uint8_t traced_device(void)
{
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);

	return device < 0 ? UINT8_MAX : device;
}
