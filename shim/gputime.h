/*
 * gputime.h - when work really ran on the GPU (`--gpu-time`): a pair of events around it.
 *
 * Pairs come from a bounded pool of the context and are recorded on the work's own stream; what they say
 * is read later, by some other call that is traced, never by waiting. An event that was recorded on an
 * idle stream of our own ties the GPU's clock to ours, again and again, so that drift is known.
 *
 * Nothing is recorded while a stream captures, in a green context, or when the pool is empty: such work
 * has an `untimed` event instead, which says why. What only becomes part of a graph has neither.
 */
#ifndef CUWARD_GPUTIME_H
#define CUWARD_GPUTIME_H

#include <stdint.h>

#include "cuward/events.h"
#include "driver.h"
#include "guest.h"

struct gputime {
	struct gpu_context *context; /* NULL: not timed */
	uint64_t stream;
	uint32_t life; /* of the context's entry */
	uint16_t pair;
	uint8_t untimed; /* why there is no context, UNTIMED_COUNT: nobody asked for its time */
};

/* Work is about to be given to this stream (1 legacy, 2 per-thread), by a traced call. */
void gputime_open_slow(struct gputime *time, uint64_t stream);
/* It was, or was refused, by a call that returned at that moment. */
void gputime_close_slow(const struct gputime *time, uint32_t correlation, CUresult result,
	uint64_t returned_ns);

static inline void gputime_open(struct gputime *time, uint64_t stream)
{
	time->context = NULL;
	time->untimed = UNTIMED_COUNT;
	if (unlikely(guest.policy.gpu_time && stream))
		gputime_open_slow(time, stream);
}

static inline void gputime_close(const struct gputime *time, uint32_t correlation, CUresult result,
	uint64_t returned_ns)
{
	if (unlikely(time->context || time->untimed != UNTIMED_COUNT))
		gputime_close_slow(time, correlation, result, returned_ns);
}

/* Somebody waited for the GPU: much of what is pending is known now. */
void gputime_look(void);

/* The context is about to die, and its events with it; `gone` when it has. */
void gputime_last_look(CUcontext context);
void gputime_gone(CUcontext context);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void gputime_forget(void);

#endif
