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
 * What a thread launched last is told to whoever asks why it waits: one store, and for launches only. A
 * launch has a row here, which says where among its arguments the function stands.
 */
#define NOTE(launch) cw_counts->launched = (uint64_t)(launch)
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

/* The names in the bodies carry a prefix: parameters of driver calls are called anything. */

/* Where the frame of a bare call begins, for its odd half, which is not jumped to. */
static __thread const void *bare_frame;

/*
 * The first call of a thread or of a forked child, a call of the driver inside one of ours, or
 * cuward switched off. Apart from the entry, so that its arguments stay where they are there.
 */
#define X(name, params, args) \
	static __attribute__((noinline, cold)) CUresult odd_##name params \
	{ \
		CUresult cw_result; \
\
		if (guest_nested(call_is_bare(CALL_##name) ? bare_frame : __builtin_dwarf_cfa()) || \
			!guest_enter()) \
			return real.name args; \
		cw_result = name args; \
		if (call_is_bare(CALL_##name) && !thread_idle()) \
			guest_thread()->call = 0; \
		return cw_result; \
	}
DRIVER_CALLS(X)
#undef X

/* A thread whose call is none of ours to note. */
static struct thread nobody;

/* Counted, and whoever asks why nothing happens sees that the thread is in there. */
#define BEGIN(name, args) \
	cw_counts = cw_thread->counts; \
	cw_counts->calls[CALL_##name].count++; \
	__atomic_store_n(&cw_counts->in_call, CALL_##name + 1u, __ATOMIC_RELAXED); \
	NOTER(name) args

/* In a child that was forked in the call, by a handler, there is nothing left to note anything in. */
#define END(name) \
	cw_counts = cw_thread->counts; \
	if (unlikely(!cw_counts)) \
		return cw_result; \
	__atomic_store_n(&cw_counts->in_call, 0, __ATOMIC_RELAXED); \
	if (unlikely(cw_result != CUDA_SUCCESS)) \
		cw_counts->calls[CALL_##name].errors++

/*
 * A bare call has no guard, does not allocate, so that nobody asks who called, and goes to its hook only
 * while somebody asks for that: this pays for the copies of its arguments, which most of them have on
 * the stack. It is called in one place, so that they are not kept in registers until then.
 */
#define X(name, params, args) \
	CUresult name params \
	{ \
		struct thread *cw_thread = guest_thread(); \
		CUresult(*cw_next) params = odd_##name; \
		struct ledger_thread *cw_counts; \
		CUresult cw_result; \
\
		if (call_is_bare(CALL_##name)) { \
			if (likely(cw_thread && cw_thread->call == THREAD_IDLE)) { \
				BEGIN(name, args); \
				cw_next = attention_wanted() ? on_##name : real.name; \
			} else { \
				cw_thread = &nobody; \
				bare_frame = __builtin_dwarf_cfa(); \
			} \
			cw_result = cw_next args; \
			END(name); \
			return cw_result; \
		} \
		if (unlikely(!cw_thread || cw_thread->call != THREAD_IDLE)) \
			return odd_##name args; \
		cw_thread->caller = __builtin_return_address(0); \
		cw_thread->frame = __builtin_frame_address(0); \
		cw_thread->call = THREAD_CALL(CALL_##name); \
		BEGIN(name, args); \
		cw_result = on_##name args; \
		END(name); \
		cw_thread->call = thread_idle(); \
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
