/*
 * hook_sync.c - calls that wait for the GPU.
 */
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

/* Whoever asks why nothing happens sees that we wait here, and since when. */
static void wait_open(enum call call)
{
	struct ledger_thread *counts = guest_thread()->counts;
	uint64_t now = guest_realtime_ns();

	counts->sync_call = call;
	__atomic_store_n(&counts->sync_since_ns, now, __ATOMIC_RELEASE);
	guest_active(now);
}

static void wait_close(void)
{
	__atomic_store_n(&guest_thread()->counts->sync_since_ns, 0, __ATOMIC_RELEASE);
	guest_active(guest_realtime_ns());
}

/* Pools give memory back when somebody waits; where that is charged, look. */
#define SYNC(name, handle) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result; \
\
		wait_open(CALL_##name); \
		cw_result = real.name ARGS_##name; \
		wait_close(); \
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
