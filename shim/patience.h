/*
 * patience.h - what else than no: wait for memory, stop, or end the process (CUWARD_ON_LIMIT).
 */
#ifndef CUWARD_PATIENCE_H
#define CUWARD_PATIENCE_H

#include "guest.h"

/*
 * A request does not fit. Wait until it does, as long as the user allows; or stop until somebody lets us
 * go on, then try again; or end. True: it was taken after all. False: `why` is the last refusal.
 */
bool patience_take(struct thread *thread, int device, uint64_t bytes, struct refusal *why);

#endif
