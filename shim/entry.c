/*
 * entry.c - the exported cu* functions, and what they do where no policy says otherwise.
 *
 * One call: the entry counts it on its thread and notes who called; on_<name> decides. A policy is
 * an ordinary function on_<name> in some hook_*.c, which the linker prefers over the weak
 * default here. A call that the driver makes while it is in one of ours goes straight through.
 */
#include "driver.h"
#include "guest.h"
#include "quiet.h"
#include "traced.h"

/* The names in the bodies carry a prefix: parameters of driver calls are called anything. */

#define X(name, params, args) \
	CUresult name params \
	{ \
		struct thread *cw_thread = guest_thread(); \
		CUresult cw_result; \
\
		if (unlikely(!cw_thread || cw_thread->call)) \
			return real.name args; \
		cw_thread->call = CALL_##name + 1; \
		cw_thread->caller = __builtin_return_address(0); \
		cw_thread->counts->calls[CALL_##name].count++; \
		cw_result = on_##name args; \
		cw_thread->call = 0; \
		if (unlikely(cw_result != CUDA_SUCCESS)) \
			cw_thread->counts->calls[CALL_##name].errors++; \
		return cw_result; \
	}
DRIVER_CALLS(X)
#undef X

/* ---- the defaults ---- */

#define X(name, params, args) \
	__attribute__((weak)) CUresult on_##name params \
	{ \
		uint64_t cw_began_ns; \
\
		if (likely(!trace_on) || quiet_call(CALL_##name)) \
			return real.name args; \
		cw_began_ns = guest_clock_ns(); \
		return traced_call(CALL_##name, real.name args, cw_began_ns); \
	}
DRIVER_CALLS(X)
#undef X
