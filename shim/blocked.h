/*
 * blocked.h - calls that wait for the GPU: whoever asks why nothing happens sees which, since when,
 * and for what kernel.
 */
#ifndef CUWARD_BLOCKED_H
#define CUWARD_BLOCKED_H

#include "guest.h"
#include "names.h"

static inline void blocked_open(enum call call)
{
	struct ledger_thread *counts = guest_thread()->counts;
	uint64_t now = guest_realtime_ns();

	counts->sync_call = call;
	if (unlikely(counts->launched != counts->launched_named))
		names_launched(counts);
	__atomic_store_n(&counts->sync_since_ns, now, __ATOMIC_RELEASE);
	guest_active(now);
}

/* In a child that was forked in the call, by a handler, there is nothing left to note anything in. */
static inline void blocked_close(void)
{
	const struct thread *thread = guest_thread();

	if (unlikely(!thread || !thread->counts))
		return;
	__atomic_store_n(&thread->counts->sync_since_ns, 0, __ATOMIC_RELEASE);
	guest_active(guest_realtime_ns());
}

#endif
