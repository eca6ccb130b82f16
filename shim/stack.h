/*
 * stack.h - the return addresses on the calling thread's stack.
 */
#ifndef CUWARD_STACK_H
#define CUWARD_STACK_H

#include <stdint.h>

#define STACK_FRAMES 32u

/*
 * The callers of the function whose frame is `frame` and that returns to `caller`, innermost first;
 * at least that one. Stays within this thread's own stack, and never faults. `frame` is what
 * __builtin_frame_address(0) is in there.
 */
unsigned stack_walk(uint64_t addresses[STACK_FRAMES], const void *caller, const void *frame);

#endif
