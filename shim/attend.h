/*
 * attend.h - what others ask of this process while it runs: `cuward trace start` wants its events.
 *
 * They write into the control word of our slot. A hook that tests whether tracing is on tests for both
 * with one load: attention points at the control word, or at a word that is never 0 while there is
 * something to do anyway.
 */
#ifndef CUWARD_ATTEND_H
#define CUWARD_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

extern const uint32_t *attention __attribute__((visibility("hidden")));

/* Is there something to do beside the call: events, requests, or the attach? */
hot bool attention_wanted(void)
{
	return unlikely(__atomic_load_n(attention, __ATOMIC_RELAXED));
}

/*
 * The rest, in a call of the program's that is about to begin, no lock of ours held: follow requests,
 * tell whether events are wanted.
 */
bool attend_slow(void);

hot bool attend(void)
{
	return attention_wanted() && attend_slow();
}

/* The books are opened, in a new process; the slot is there; nothing will be done any more. */
void attend_start(void);
void attend_open(void);
void attend_close(void);

/* replay.c: what was defined before the trace began, and what is live. */
void replay_who(void);
void replay_live(void);

#endif
