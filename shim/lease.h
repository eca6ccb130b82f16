/*
 * lease.h - room on a GPU that a process takes for a moment without reading anybody's word.
 *
 * Limits of all users together are decided by reading other users' files through the kernel, which
 * takes a microsecond and more. Who takes memory often therefore asks for a little more than that, for
 * a millisecond: until the lease in its slot is over everybody counts the larger of it and of what
 * is held. Whoever has one raises its word, looks at the clock, and is granted what the lease covers.
 *
 * Why no limit is passed: a lease is shown before the words of all others are read, as a request is, and
 * had only if the sum fits, so the last one's reading saw all the others. What was granted under a lease
 * was raised before it was over: who looked at the clock later than that sees it in the word, who
 * looked before counts the lease. It is not replaced by less until it is over for longer than a slot may
 * be in the middle of being read. And nobody is refused because of one: whoever only leases keep from
 * fitting waits until they are over, and who sees that somebody waits takes none.
 */
#ifndef CUWARD_LEASE_H
#define CUWARD_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "cuward/ledger.h"
#include "lock.h"

#define LEASE_SLACK (64ull << 20) /* no more than that is asked for beyond what is held */
#define LEASE_READING_NS 4000000ull /* a slot that took longer to read is read once more */

struct leases {
	PAGE_COLOUR(3);
	uint32_t lock;       /* of asking for one */
	int64_t offset_ns;   /* of our clock, in a time namespace */
	struct slot *slot;
	uint64_t had[SLOT_DEVICES];      /* what we may rely on, as in the slot */
	uint64_t asked_ns[SLOT_DEVICES]; /* when others' words were read last */
} WHOLE_PAGES;

extern struct leases leases __attribute__((visibility("hidden")));

/* Once, before limits of all users are looked at. False: `why` says what is unknown. */
bool lease_open(struct slot *slot, char *why, size_t why_bytes);

/* CLOCK_MONOTONIC of the machine, whatever time namespace we are in. */
hot uint64_t lease_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec - leases.offset_ns;
}

hot uint64_t lease_bytes(uint64_t lease)
{
	return lease >> LEASE_UNTIL_BITS << LEASE_UNIT_BITS;
}

/* Ticks until it is over, below 0 when it is. */
hot int64_t lease_left(uint64_t lease, uint64_t now_ns)
{
	return (int64_t)((lease - (now_ns >> LEASE_TICK_BITS)) << (64 - LEASE_UNTIL_BITS)) >>
		(64 - LEASE_UNTIL_BITS);
}

/*
 * `used` is in our word: have we leased so much? The clock is read after the word was raised. A lease
 * that was over a week ago has time left again, but more than any is made with.
 */
hot bool lease_covers(unsigned word_index, uint64_t used)
{
	uint64_t lease = __atomic_load_n(&leases.had[word_index], __ATOMIC_SEQ_CST);
	int64_t left = used <= lease_bytes(lease) ? lease_left(lease, lease_clock_ns()) : 0;

	return left > 0 && left <= LEASE_TICKS;
}

/*
 * What a slot that was read just now counts for, to a limit of all users, at a time before that:
 * LEASES_OVER for one when all leases are over. A tick is added for clocks that differ. A lease longer
 * than there are may have been shown since that time, where another one stood on which its owner
 * relies still; if it is longer than that by now, too, it is of another age of the clock.
 */
#define LEASES_OVER UINT64_MAX
uint64_t lease_counts(uint64_t word, uint64_t lease, uint64_t now_ns);

/* Before and after others' words are read: who asks often leases. False: not now. */
bool lease_ask(unsigned word_index, uint64_t used, uint64_t room);
void lease_had(unsigned word_index, bool fits);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void lease_forget(void);

#endif
