/*
 * handler.h - is this thread in the middle of a signal handler?
 */
#ifndef CUWARD_HANDLER_H
#define CUWARD_HANDLER_H

#include <stdbool.h>

/*
 * What a handler interrupted may hold any lock of libc or of the loader: nothing may be loaded there. It
 * asks the kernel and reads the whole stack, so it is for rare occasions. In doubt it says yes.
 */
bool handler_is_active(void);

#endif
