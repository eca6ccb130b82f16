/*
 * uncancelled.h - stretches in which this thread is not cancelled.
 *
 * Files are opened and time passes where the driver itself would do neither. A thread that is
 * cancelled there would hold our locks for ever, and end in a call that is no cancellation point to
 * its program.
 */
#ifndef CUWARD_UNCANCELLED_H
#define CUWARD_UNCANCELLED_H

#include <pthread.h>

static inline int uncancelled_begin(void)
{
	int state = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void uncancelled_end(const int *state)
{
	pthread_setcancelstate(*state, NULL);
}

/* Among the declarations of a block: from there to the end of it, however it is left. */
#define UNCANCELLED_HERE \
	__attribute__((cleanup(uncancelled_end), unused)) const int uncancelled_state = uncancelled_begin()

#endif
