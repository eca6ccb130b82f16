/*
 * stack.c - the return addresses on the calling thread's stack.
 *
 * From frame to frame by the call frame information of each function; where there is none, as in code
 * that was made at run time, by the frame pointer. That may be anything, and so may be a stack
 * that was overwritten: nothing is read that does not lie between the frame of our entry and the
 * end of this thread's stack. On any other stack, of a signal handler or of a coroutine, the direct
 * caller is all there is.
 */
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "lock.h"
#include "unwind.h"

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

/* A caller as it was when it called. */
struct state {
	uintptr_t address; /* it will be returned to */
	uintptr_t stack;   /* its stack pointer then, and its frame pointer */
	uintptr_t frame;
	uintptr_t last;    /* the last word of the stack */
};

hot bool is_code(uintptr_t address)
{
	return address - 4096 < (1ull << 56) - 4096 && address - bounds.low >= bounds.high - bounds.low;
}

/* Only what lies above the stack pointer is looked at, and up the stack it goes. */
hot bool is_on_stack(const struct state *state, uintptr_t address)
{
	return address >= state->stack && address <= state->last && address % sizeof(uintptr_t) == 0;
}

#define RAW __attribute__((no_sanitize("address", "thread")))

/* By the frame pointer: a function that keeps one says nothing else. */
RAW static inline bool by_frame(struct state *state)
{
	const uintptr_t *frame = (const uintptr_t *)state->frame;

	if (unlikely(!is_on_stack(state, state->frame) || state->frame == state->last))
		return false;
	state->address = frame[1];
	state->frame = frame[0];
	state->stack = (uintptr_t)(frame + 2);
	return true;
}

RAW static bool by_rule(struct state *state, uint64_t rule)
{
	uintptr_t base = rule & UNWIND_BY_FRAME ? state->frame : state->stack;
	uintptr_t end = base + (uintptr_t)(intptr_t)unwind_end(rule);
	uintptr_t saved = end + (uintptr_t)(intptr_t)unwind_frame(rule);

	if (!(rule & UNWIND_KNOWN))
		return by_frame(state);
	if (rule & UNWIND_LAST || !is_on_stack(state, end - sizeof(uintptr_t)) ||
		(rule & UNWIND_FRAME_SAVED && !is_on_stack(state, saved)))
		return false;
	state->address = *(const uintptr_t *)(end - sizeof(uintptr_t));
	if (rule & UNWIND_FRAME_SAVED)
		state->frame = *(const uintptr_t *)saved;
	state->stack = end;
	return true;
}

/*
 * A branch for the usual case, so that the processor goes ahead along the frame pointers while it
 * still looks up the rule.
 */
hot bool step(struct state *state)
{
	/* The call, not what follows it: that may be another function. */
	uint64_t rule = unwind_rule(state->address - 1);

	return likely(rule == UNWIND_STANDARD) ? by_frame(state) : by_rule(state, rule);
}

RAW unsigned stack_walk(uint64_t addresses[STACK_FRAMES], const void *caller, const void *frame)
{
	struct state state = { .address = (uintptr_t)caller };
	uintptr_t low = (uintptr_t)frame;
	unsigned count = 1;

	addresses[0] = (uint64_t)caller;
	if (unlikely(bounds.high == 0))
		find_bounds();
	if (low < bounds.low || low > bounds.high - 2 * sizeof(uintptr_t) || low % sizeof(uintptr_t))
		return 1;
	state.last = bounds.high - sizeof(uintptr_t);
	state.stack = low + 2 * sizeof(uintptr_t);
	state.frame = *(const uintptr_t *)low;
	while (count < STACK_FRAMES && step(&state) && is_code(state.address))
		addresses[count++] = state.address;
	return count;
}
