/*
 * python.h - the lines of Python that the calling thread is in, where the process is an interpreter.
 */
#ifndef CUWARD_PYTHON_H
#define CUWARD_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "stack.h"

/* Before the first walk. */
void python_prepare(void);

/* Is there an interpreter, since the last time it was asked? A search, for stacks not seen before. */
bool python_look(void);

/*
 * Sites of the lines, innermost first; none where there is no CPython 3.8 to 3.14, where this thread
 * does not hold its lock, or while it ends. may_take: the caller gave the lock up just for this
 * call, so it may be taken again meanwhile. Objects and pending exceptions stay as they are.
 */
unsigned python_walk(uint32_t lines[STACK_FRAMES], bool may_take);

void python_forget(void);

#endif
