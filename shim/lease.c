/*
 * lease.c - asking for a lease, and what those of others count for.
 */
#include "lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

#define OFTEN_NS 2000000ull /* who asks once more within that time */
#define FIRST_TIME_NAMESPACE 4026531834u /* the machine's own, in all kernels */

struct leases leases;

static uint64_t file_number(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* Of our children's clock, moved when their time namespace was made; 0 where there are none. */
static int64_t clock_offset(void)
{
	char text[256];
	int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	long long seconds = 0, ns = 0;

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	if (sscanf(text, "monotonic %lld %lld", &seconds, &ns) != 2)
		return 0;
	return seconds * 1000000000 + ns;
}

/* The kernel tells the offset for children, for whom we may have made another namespace than ours. */
bool lease_open(struct slot *slot, char *why, size_t why_bytes)
{
	uint64_t ours = file_number("/proc/self/ns/time");

	share_wipe_on_fork(&leases, sizeof(leases));
	if (ours == file_number("/proc/self/ns/time_for_children")) {
		leases.offset_ns = clock_offset();
	} else if (ours != FIRST_TIME_NAMESPACE) {
		snprintf(why, why_bytes, "it is not known how far the clock of this time namespace was moved");
		return false;
	}
	leases.slot = slot;
	return true;
}

uint64_t lease_counts(uint64_t word, uint64_t lease, uint64_t now_ns)
{
	uint64_t held = word & WORD_BYTES_MASK;
	int64_t left;

	if (likely(!lease) || now_ns == LEASES_OVER)
		return held;
	left = lease_left(lease, now_ns);
	if (unlikely(left > LEASE_TICKS + 1) && lease_left(lease, lease_clock_ns()) > LEASE_TICKS + 1)
		return held;
	return left < -1 || lease_bytes(lease) < held ? held : lease_bytes(lease);
}

/* As a lease, until soon; 0 where so little is asked for that none covers it. */
static uint64_t make(uint64_t used, uint64_t bytes, uint64_t now)
{
	uint64_t until = (now >> LEASE_TICK_BITS) + LEASE_TICKS;

	if (bytes >> LEASE_UNIT_BITS << LEASE_UNIT_BITS < used)
		return 0;
	return bytes >> LEASE_UNIT_BITS << LEASE_UNTIL_BITS | (until & ((1ull << LEASE_UNTIL_BITS) - 1));
}

/*
 * Less than the last one only when that is over for so long that nobody is in the middle of reading: he
 * might read our word before we took under the old one, and then the new one.
 */
static uint64_t renew(uint64_t had, uint64_t used, uint64_t room, uint64_t now)
{
	uint64_t slack = room / 8 < LEASE_SLACK ? room / 8 : LEASE_SLACK;
	uint64_t bytes = used + slack;
	int64_t left = lease_left(had, now);

	if (had && lease_bytes(had) > bytes && left <= LEASE_TICKS &&
		left > -2 * (int64_t)(LEASE_READING_NS >> LEASE_TICK_BITS)) {
		if (lease_bytes(had) - bytes > LEASE_SLACK || lease_bytes(had) - used > room)
			return 0;
		bytes = lease_bytes(had);
	}
	return make(used, bytes, now);
}

bool lease_ask(unsigned word_index, uint64_t used, uint64_t room)
{
	uint64_t now = lease_clock_ns();
	uint64_t before = __atomic_exchange_n(&leases.asked_ns[word_index], now, __ATOMIC_RELAXED);
	uint64_t lease;

	if (!leases.slot || now - before > OFTEN_NS || !lock_try(&leases.lock))
		return false;
	lease = renew(leases.had[word_index], used, room, now);
	if (lease)
		__atomic_store_n(&leases.slot->leases[word_index], lease, __ATOMIC_SEQ_CST);
	else
		lock_give_back(&leases.lock);
	return lease;
}

void lease_had(unsigned word_index, bool fits)
{
	uint64_t *told = &leases.slot->leases[word_index];

	if (fits)
		__atomic_store_n(&leases.had[word_index], *told, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(told, leases.had[word_index], __ATOMIC_SEQ_CST);
	lock_give_back(&leases.lock);
}

void lease_forget(void)
{
	memset(&leases, 0, sizeof(leases));
}
