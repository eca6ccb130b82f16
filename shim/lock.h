/*
 * lock.h - the lock of the shim: one byte-sized word, uncontended cost one exchange and one store.
 *
 * Never held across a driver call, a call into libc that may block, or anything that may re-enter.
 * All locks lie in memory that is zero in a forked child, so a child never inherits a held one.
 */
#ifndef CUWARD_LOCK_H
#define CUWARD_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "uncancelled.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* On the way of every allocation: a call would cost as much as the work. */
#define hot static inline __attribute__((always_inline))

/*
 * State that a fork wipes lies in pages of its own. With the busy fields of all of them at the start
 * of a page, their addresses would be equal below 4 KiB, and a processor holds back a load that
 * looks like a store just before it (measured: 25 ns an allocation). The n-th starts elsewhere.
 */
#define PAGE_COLOUR(n) char page_colour[(n) * 320]

/*
 * Of a type, not of a variable: whole pages, so that nothing of somebody else is wiped with it. Kernels
 * for aarch64 have pages of up to 64 KiB.
 */
#if defined(__aarch64__)
#define WHOLE_PAGES __attribute__((aligned(65536)))
#else
#define WHOLE_PAGES __attribute__((aligned(4096)))
#endif

static inline void lock_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline bool lock_try(uint32_t *lock)
{
	return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

/* The holder may have been preempted: after a short spin sleep, so that it gets a processor. */
static __attribute__((noinline, unused)) void lock_wait(uint32_t *lock)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	UNCANCELLED_HERE;

	for (unsigned spins = 0;; spins++) {
		if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 && lock_try(lock))
			return;
		if (spins < 200)
			lock_relax();
		else
			nanosleep(&nap, NULL);
	}
}

static inline void lock_take(uint32_t *lock)
{
	if (unlikely(!lock_try(lock)))
		lock_wait(lock);
}

static inline void lock_give_back(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
