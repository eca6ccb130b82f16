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

static inline void blocked_close(void)
{
	__atomic_store_n(&guest_thread()->counts->sync_since_ns, 0, __ATOMIC_RELEASE);
	guest_active(guest_realtime_ns());
}

#endif
