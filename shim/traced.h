/*
 * traced.h - what hooks need to tell about a call: when it began, and the event for it.
 */
#ifndef CUWARD_TRACED_H
#define CUWARD_TRACED_H

#include "attend.h"
#include "driver.h"
#include "guest.h"
#include "trace.h"

/* The clock when tracing is on, else 0: hooks that have something to do anyway do not branch. */
static inline uint64_t traced_begin(void)
{
	return attend() ? guest_clock_ns() : 0;
}

/* A `call` event for a call that began then. Returns result. */
CUresult traced_call(enum call call, CUresult result, uint64_t began_ns);

/* As traced_call(), if tracing was on when the call began. */
static inline CUresult traced_end(enum call call, CUresult result, uint64_t began_ns)
{
	return unlikely(began_ns) ? traced_call(call, result, began_ns) : result;
}

/* Say once what a call site is, before the first event that carries its number. */
void traced_define_site(uint32_t site);
void traced_forget(void);

/* Nanoseconds since, at most 32 bits. */
hot uint32_t traced_duration(uint64_t began_ns)
{
	uint64_t ns = guest_clock_ns() - began_ns;

	return ns > UINT32_MAX ? UINT32_MAX : ns;
}

/* Stream handles as the driver knows them: 0 is the legacy (1) or the per-thread (2) stream. */
static inline uint64_t traced_stream(CUstream stream, bool per_thread)
{
	return stream ? (uint64_t)stream : per_thread ? 2 : 1;
}

/* Threads take so many numbers at a time: one for each launch would be a locked instruction more. */
#define CORRELATIONS 64u
void traced_more_correlations(struct thread *thread);

/* Number of a launch or copy in this process, from 1. */
hot uint32_t traced_correlation(struct thread *thread)
{
	if (unlikely(thread->correlation % CORRELATIONS == 0))
		traced_more_correlations(thread);
	return ++thread->correlation;
}

/* Index of the current device, 255 unknown. */
hot uint8_t traced_device(void)
{
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);

	return device < 0 ? UINT8_MAX : device;
}

#endif
