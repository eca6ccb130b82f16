/* links: shim/lease.c */
/*
 * test_lease.c - leases by a clock that the test moves: what they cover, what they count for, how they become less.
 */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lease.h"
#include "share.h"

#define TICK (1ull << LEASE_TICK_BITS)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define ROOM (100 * GIB)

static uint64_t now;

/* The one that lease.c reads. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	time->tv_sec = now / 1000000000;
	time->tv_nsec = now % 1000000000;
	return 0;
}

/* Nobody forks here. */
void share_wipe_on_fork(void *memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
}

static struct slot slot;

static int set_up(void **state)
{
	(void)state;
	now = 1000 * GIB;
	memset(&slot, 0, sizeof(slot));
	lease_forget();
	leases.slot = &slot;
	return 0;
}

/* Who asks twice within two milliseconds has one. */
static void had(uint64_t used, uint64_t room)
{
	lease_ask(1, used, room);
	assert_true(lease_ask(1, used, room));
	lease_had(1, true);
}

static void covers_until_it_is_over(void **state)
{
	(void)state;
	had(10 * MIB, ROOM);
	assert_true(lease_covers(1, 10 * MIB));
	assert_true(lease_covers(1, 74 * MIB)); /* 64 more than it held */
	assert_false(lease_covers(1, 74 * MIB + 1));
	assert_false(lease_covers(0, 1)); /* of another device */
	now += (LEASE_TICKS - 1) * TICK;
	assert_true(lease_covers(1, 74 * MIB));
	now += TICK;
	assert_false(lease_covers(1, 1));
}

/* The time it is over at comes again in the lease's clock. */
static void covers_nothing_for_weeks_after(void **state)
{
	(void)state;
	had(10 * MIB, ROOM);
	for (int i = 0; i < 26; i++) {
		now += 43200 * 1000000000ull;
		assert_false(lease_covers(1, MIB));
		assert_int_equal(lease_counts(MIB, slot.leases[1], now), MIB);
	}
}

/* Others count it for longer than its owner relies on it, by a tick for their clocks, and no more. */
static void counts_for_longer_than_it_covers(void **state)
{
	uint64_t lease;

	(void)state;
	had(10 * MIB, ROOM);
	lease = slot.leases[1];
	for (uint64_t began = now; now < began + 3 * LEASE_TICKS * TICK; now += TICK / 4) {
		bool counted = lease_counts(0, lease, now) == 74 * MIB;

		assert_int_equal(lease_covers(1, 74 * MIB), now - began < LEASE_TICKS * TICK);
		assert_int_equal(counted, now - began < (LEASE_TICKS + 2) * TICK);
	}
}

static void counts_the_larger(void **state)
{
	(void)state;
	had(10 * MIB, ROOM);
	assert_int_equal(lease_counts(WORD_VERSION + WORD_ASKING + 80 * MIB, slot.leases[1], now), 80 * MIB);
	assert_int_equal(lease_counts(WORD_VERSION * 255 + 7, slot.leases[1], now), 74 * MIB);
	assert_int_equal(lease_counts(7, slot.leases[1], LEASES_OVER), 7);
	assert_int_equal(lease_counts(7, 0, now), 7);
	/* So long ones are not made: of another age of the clock, or by somebody who lies. */
	assert_int_equal(lease_counts(7, slot.leases[1] + 5, now), 7);
}

/*
 * Who reads began a while ago: a lease shown meanwhile may stand where a smaller one did, which its owner has
 * again if the new one does not fit.
 */
static void counts_what_was_shown_since(void **state)
{
	(void)state;
	had(10 * MIB, ROOM);
	for (uint64_t ago = 0; ago < 200 * TICK; ago += TICK / 2)
		assert_int_equal(lease_counts(7, slot.leases[1], now - ago), 74 * MIB);
	/* Also where it is over by now, but was not then. */
	now += 100 * TICK;
	assert_int_equal(lease_counts(7, slot.leases[1], now - 105 * TICK), 74 * MIB);
}

static void leases_an_eighth_of_what_is_left(void **state)
{
	(void)state;
	had(10 * MIB, 80 * MIB);
	assert_true(lease_covers(1, 20 * MIB));
	assert_false(lease_covers(1, 20 * MIB + 1));
}

/* Bytes are told in 64 KiB: less than is held would cover nothing. */
static void none_that_does_not_cover_what_is_held(void **state)
{
	(void)state;
	lease_ask(1, MIB + 1, 0);
	assert_false(lease_ask(1, MIB + 1, 0));
	assert_int_equal(slot.leases[1], 0);
	assert_true(lease_ask(1, MIB, 0));
	lease_had(1, true);
	assert_true(lease_covers(1, MIB));
	assert_false(lease_covers(1, MIB + 1));
}

static void only_who_asks_often(void **state)
{
	(void)state;
	assert_false(lease_ask(1, MIB, ROOM));
	now += 2100000;
	assert_false(lease_ask(1, MIB, ROOM));
	now += 1900000;
	assert_true(lease_ask(1, MIB, ROOM));
}

/* What did not fit is not had, and what was had before stands there again. */
static void what_does_not_fit(void **state)
{
	uint64_t first;

	(void)state;
	had(10 * MIB, ROOM);
	first = slot.leases[1];
	now += TICK;
	assert_true(lease_ask(1, 70 * MIB, ROOM));
	assert_int_equal(lease_counts(0, slot.leases[1], now), 134 * MIB);
	assert_false(lease_covers(1, 75 * MIB)); /* shown, not had yet */
	lease_had(1, false);
	assert_int_equal(slot.leases[1], first);
	assert_true(lease_covers(1, 74 * MIB));
	assert_false(lease_covers(1, 75 * MIB));
}

/*
 * A slot may be in the middle of being read, its word copied before a request was granted under the
 * old lease and its lease after the new one was shown.
 */
static void not_less_until_it_is_over_for_long(void **state)
{
	(void)state;
	had(10 * GIB, ROOM);
	now += LEASE_TICKS * TICK;
	lease_ask(1, MIB, ROOM);
	for (uint64_t over = now; now < over + LEASE_READING_NS; now += 100000) {
		assert_false(lease_ask(1, MIB, ROOM));
		assert_int_equal(lease_bytes(slot.leases[1]), 10 * GIB + 64 * MIB);
	}
	now += 2 * LEASE_READING_NS;
	lease_ask(1, MIB, ROOM);
	assert_true(lease_ask(1, MIB, ROOM));
	assert_int_equal(lease_bytes(slot.leases[1]), 65 * MIB);
}

/* A little less is leased as before: pairs go on under one. */
static void a_little_less_is_leased_as_before(void **state)
{
	(void)state;
	had(64 * MIB, ROOM);
	now += LEASE_TICKS * TICK;
	assert_true(lease_ask(1, MIB, ROOM));
	assert_int_equal(lease_bytes(slot.leases[1]), 128 * MIB);
}

/* What could not be had is not shown: others would wait for it. */
static void as_before_only_where_there_is_room(void **state)
{
	uint64_t first;

	(void)state;
	had(10 * MIB, 80 * MIB);
	first = slot.leases[1];
	now += LEASE_TICKS * TICK;
	assert_false(lease_ask(1, MIB, 19 * MIB - 1));
	assert_int_equal(slot.leases[1], first);
	assert_true(lease_ask(1, MIB, 19 * MIB));
	assert_int_equal(lease_bytes(slot.leases[1]), 20 * MIB);
}

static int64_t opened_in_namespace(void)
{
	char why[200] = "";

	return lease_open(&slot, why, sizeof(why)) ? leases.offset_ns : why[0] ? -1 : -2;
}

/* 0 where all is well. Our children have another clock, we do not; and they have it. */
static int in_time_namespaces(void)
{
	static const char moved[] = "monotonic 100000 5";
	int fd, status = 0;

	fd = unshare(0x80 /* CLONE_NEWTIME */) == 0 ? open("/proc/self/timens_offsets", O_WRONLY) : -1;
	if (fd < 0 || write(fd, moved, sizeof(moved) - 1) != sizeof(moved) - 1)
		return 77;
	if (opened_in_namespace() != 0)
		return 1;
	if (fork() == 0) {
		if (opened_in_namespace() != 100000 * 1000000000ll + 5)
			_exit(2);
		/* Nobody knows ours once we made another one for our children. */
		_exit(unshare(0x80) != 0 || opened_in_namespace() == -1 ? 0 : 3);
	}
	wait(&status);
	return WEXITSTATUS(status);
}

static void the_clock_of_the_machine(void **state)
{
	int status = 0;

	(void)state;
	assert_int_equal(opened_in_namespace(), 0);
	if (fork() == 0)
		_exit(in_time_namespaces());
	wait(&status);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(covers_until_it_is_over, set_up),
		cmocka_unit_test_setup(counts_for_longer_than_it_covers, set_up),
		cmocka_unit_test_setup(covers_nothing_for_weeks_after, set_up),
		cmocka_unit_test_setup(counts_the_larger, set_up),
		cmocka_unit_test_setup(counts_what_was_shown_since, set_up),
		cmocka_unit_test_setup(as_before_only_where_there_is_room, set_up),
		cmocka_unit_test_setup(the_clock_of_the_machine, set_up),
		cmocka_unit_test_setup(leases_an_eighth_of_what_is_left, set_up),
		cmocka_unit_test_setup(none_that_does_not_cover_what_is_held, set_up),
		cmocka_unit_test_setup(only_who_asks_often, set_up),
		cmocka_unit_test_setup(what_does_not_fit, set_up),
		cmocka_unit_test_setup(not_less_until_it_is_over_for_long, set_up),
		cmocka_unit_test_setup(a_little_less_is_leased_as_before, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
