/*
 * hook_sync.c - calls that wait for the GPU.
 */
#include "blocked.h"
#include "gputime.h"
#include "pool.h"
#include "traced.h"

static __attribute__((noinline)) CUresult traced_sync(enum call call, CUresult result,
	uint64_t began_ns, uint64_t handle)
{
	struct event_sync event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .device = traced_device(),
		.result = result, .duration_ns = guest_clock_ns() - began_ns, .handle = handle,
	};

	trace_define_api(guest.key, call);
	trace_sync(&event);
	return result;
}

/* Pools give memory back when somebody waits; where that is charged, look. */
#define SYNC(name, handle) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result; \
\
		blocked_open(CALL_##name); \
		cw_result = real.name ARGS_##name; \
		blocked_close(); \
		if (unlikely(guest.policy.pools_reserved)) \
			pool_look_everywhere(); \
		if (unlikely(cw_began_ns)) \
			gputime_look(); \
		return unlikely(cw_began_ns) ? \
			traced_sync(CALL_##name, cw_result, cw_began_ns, handle) : cw_result; \
	}

SYNC(cuCtxSynchronize, 0)
SYNC(cuCtxSynchronize_v2, (uint64_t)ctx)
SYNC(cuStreamSynchronize, traced_stream(hStream, false))
SYNC(cuStreamSynchronize_ptsz, traced_stream(hStream, true))
SYNC(cuEventSynchronize, (uint64_t)hEvent)
