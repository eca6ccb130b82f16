/*
 * stack.c - the return addresses on the calling thread's stack.
 *
 * A frame pointer may be anything in a program that does not keep them, so nothing is read that does not
 * lie between the frame of our entry and the end of this thread's stack. On any other stack, of a
 * signal handler or of a coroutine, the direct caller is all there is.
 */
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <unwind.h>

#include "lock.h"
#include "lookup.h"

/* The stack this thread was started on; high 0: not asked yet, low > high: not known. */
static __thread struct {
	uintptr_t low;
	uintptr_t high;
} bounds;

static __attribute__((noinline)) void find_bounds(void)
{
	pthread_attr_t attributes;
	int saved = errno;
	size_t bytes;
	void *low;

	bounds.low = UINTPTR_MAX;
	bounds.high = 1;
	if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
		if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
			bounds.low = (uintptr_t)low;
			bounds.high = (uintptr_t)low + bytes;
		}
		pthread_attr_destroy(&attributes);
	}
	errno = saved;
}

static inline bool is_code(uintptr_t address)
{
	return address >= 4096 && address < 1ull << 56 &&
		(address < bounds.low || address >= bounds.high);
}

/* ---- where frame pointers lead nowhere: the unwinder of the program ---- */

struct unwound {
	uint64_t *addresses;
	unsigned count;
	const void *caller;
};

static _Unwind_Reason_Code (*unwind)(_Unwind_Trace_Fn, void *);
static _Unwind_Ptr (*unwind_ip)(struct _Unwind_Context *);

/* Frames of ours come first; the stack begins at the caller. */
static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *to)
{
	struct unwound *unwound = to;
	uint64_t address = unwind_ip(context);

	if (unwound->count == 0 && address != (uint64_t)unwound->caller)
		return _URC_NO_REASON;
	unwound->addresses[unwound->count++] = address;
	return unwound->count < STACK_FRAMES && address ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Where libgcc is loaded already; to load it would be to change the guest. */
static bool find_unwinder(void)
{
	static uint32_t state; /* 1 found, 2 not there */
	struct lookup_module libgcc;

	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 0) {
		bool found = lookup_module_with("_Unwind_Backtrace", &libgcc);

		if (found) {
			unwind = (__typeof__(unwind))lookup_in(&libgcc, "_Unwind_Backtrace");
			unwind_ip = (__typeof__(unwind_ip))lookup_in(&libgcc, "_Unwind_GetIP");
		}
		__atomic_store_n(&state, unwind && unwind_ip ? 1 : 2, __ATOMIC_RELEASE);
	}
	return state == 1;
}

static __attribute__((noinline)) unsigned walk_slowly(uint64_t addresses[STACK_FRAMES],
	const void *caller)
{
	struct unwound unwound = { .addresses = addresses, .caller = caller };

	if (!find_unwinder())
		return 1;
	unwind(take, &unwound);
	while (unwound.count > 1 && addresses[unwound.count - 1] == 0)
		unwound.count--;
	addresses[0] = (uint64_t)caller;
	return unwound.count ? unwound.count : 1;
}

/* ---- frame pointers ---- */

__attribute__((no_sanitize("address", "thread"))) unsigned stack_walk(
	uint64_t addresses[STACK_FRAMES], const void *caller, const void *frame)
{
	const uintptr_t *at = frame;
	uintptr_t low = (uintptr_t)frame;
	unsigned count = 1;

	addresses[0] = (uint64_t)caller;
	if (unlikely(bounds.high == 0))
		find_bounds();
	if (low < bounds.low || low > bounds.high - 2 * sizeof(uintptr_t) || low % sizeof(uintptr_t))
		return 1;
	while (count < STACK_FRAMES) {
		uintptr_t next = at[0];

		/* Frames further out lie higher up. */
		if (next <= low || next > bounds.high - 2 * sizeof(uintptr_t) ||
			next % sizeof(uintptr_t))
			break;
		at = (const uintptr_t *)next;
		low = next;
		if (!is_code(at[1]))
			break;
		addresses[count++] = at[1];
	}
	return count > 1 ? count : walk_slowly(addresses, caller);
}
