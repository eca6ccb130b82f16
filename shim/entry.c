/*
 * entry.c - the exported cu* functions, and what they do where no policy says otherwise.
 *
 * One call: the entry counts it on its thread and notes who called; on_<name> decides. A policy is
 * an ordinary function on_<name> in some hook_*.c, which the linker prefers over the weak
 * default here. A call that the driver makes while it is in one of ours goes straight through.
 */
#include "calls.h"
#include "driver.h"
#include "guest.h"
#include "quiet.h"
#include "traced.h"

/*
 * A launch has arguments on the stack, and calling on would copy them all: it is jumped to, without a
 * guard, errors uncounted, and its hook is only asked while tracing. call_jumps() is a constant.
 */

/*
 * What a thread launched last is told to whoever asks why it waits: one store, and for launches only. A
 * launch has a row here, which says where among its arguments the function stands.
 */
#define NOTE(launch) cw_thread->counts->launched = (uint64_t)(launch)
#define NOTE_FIRST(f, ...) NOTE(f)
#define NOTE_SECOND(config, f, ...) NOTE(f)
#define NOTE_GRAPH(...) NOTE(LAUNCHED_GRAPH)
#define NOTE_NOTHING(...) (void)0
#define NOTES_cuLaunchKernel ~, NOTE_FIRST
#define NOTES_cuLaunchKernel_ptsz ~, NOTE_FIRST
#define NOTES_cuLaunchCooperativeKernel ~, NOTE_FIRST
#define NOTES_cuLaunchCooperativeKernel_ptsz ~, NOTE_FIRST
#define NOTES_cuLaunchKernelEx ~, NOTE_SECOND
#define NOTES_cuLaunchKernelEx_ptsz ~, NOTE_SECOND
#define NOTES_cuLaunch ~, NOTE_FIRST
#define NOTES_cuLaunchGrid ~, NOTE_FIRST
#define NOTES_cuLaunchGridAsync ~, NOTE_FIRST
#define NOTES_cuGraphLaunch ~, NOTE_GRAPH
#define NOTES_cuGraphLaunch_ptsz ~, NOTE_GRAPH
/* The second word of the row, where there is one. */
#define NOTER(name) NOTER_OF(NOTES_##name, NOTE_NOTHING, ~)
#define NOTER_OF(...) NOTER_OF_THESE(__VA_ARGS__)
#define NOTER_OF_THESE(row, noter, ...) noter

/* Whoever asks why nothing happens sees in which call a thread is, whether it waits or works there. */
#define NOTE_IN(call, value) \
	if (!call_unmarked(call)) \
		__atomic_store_n(&cw_thread->counts->in_call, value, __ATOMIC_RELAXED)

/* The names in the bodies carry a prefix: parameters of driver calls are called anything. */

/* A call that is jumped to leaves nothing behind: it may be the last before a fork. True: traced. */
static bool jumped_to(enum call call)
{
	struct thread *thread = guest_thread();

	thread->counts->calls[call].count++;
	thread->call = thread_idle();
	return trace_on;
}

/*
 * The first call of a thread or of a forked child, a call of the driver inside one of ours, or
 * cuward switched off. Apart from the entry, so that its arguments stay where they are there.
 */
#define X(name, params, args) \
	static __attribute__((noinline, cold)) CUresult odd_##name params \
	{ \
		if (guest_nested(__builtin_dwarf_cfa()) || !guest_enter()) \
			return real.name args; \
		if (call_jumps(CALL_##name) && !kernel_wipes) \
			return (jumped_to(CALL_##name) ? on_##name : real.name) args; \
		return name args; \
	}
DRIVER_CALLS(X)
#undef X

#define X(name, params, args) \
	CUresult name params \
	{ \
		struct thread *cw_thread = guest_thread(); \
		CUresult cw_result; \
\
		if (call_jumps(CALL_##name)) { \
			CUresult(*cw_next) params = odd_##name; \
\
			if (likely(cw_thread && cw_thread->call == THREAD_IDLE)) { \
				cw_thread->counts->calls[CALL_##name].count++; \
				NOTER(name) args; \
				cw_next = attention_wanted() ? on_##name : real.name; \
			} \
			return cw_next args; \
		} \
		if (unlikely(!cw_thread || cw_thread->call != THREAD_IDLE)) \
			return odd_##name args; \
		cw_thread->caller = __builtin_return_address(0); \
		cw_thread->frame = __builtin_frame_address(0); \
		cw_thread->call = THREAD_CALL(CALL_##name); \
		cw_thread->counts->calls[CALL_##name].count++; \
		NOTE_IN(CALL_##name, CALL_##name + 1u); \
		NOTER(name) args; \
		cw_result = on_##name args; \
		NOTE_IN(CALL_##name, 0u); \
		cw_thread->call = thread_idle(); \
		if (unlikely(cw_result != CUDA_SUCCESS)) \
			cw_thread->counts->calls[CALL_##name].errors++; \
		return cw_result; \
	}
DRIVER_CALLS(X)
#undef X

/* ---- the defaults ---- */

#define X(name, params, args) \
	static __attribute__((noinline)) CUresult traced_##name params \
	{ \
		uint64_t cw_began_ns; \
\
		if (!attend_slow()) \
			return real.name args; \
		cw_began_ns = guest_clock_ns(); \
		return traced_call(CALL_##name, real.name args, cw_began_ns); \
	} \
	__attribute__((weak)) CUresult on_##name params \
	{ \
		CUresult(*cw_next) params = real.name; \
\
		if (attention_wanted() && !quiet_call(CALL_##name)) \
			cw_next = traced_##name; \
		return cw_next args; \
	}
DRIVER_CALLS(X)
#undef X
