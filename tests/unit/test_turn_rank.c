/* links: shim/turn_rank.c */
/*
 * test_turn_rank.c - who waits for memory comes first: priority, a minute a step, an hour of others at most.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "turn_rank.h"

#define SECOND 1000000000ll
#define HOUR (3600 * SECOND)

static void a_minute_a_step(void **state)
{
	(void)state;
	assert_true(turn_rank(0, 61 * SECOND, true) > turn_rank(1, 0, true));
	assert_true(turn_rank(0, 59 * SECOND, true) < turn_rank(1, 0, true));
	assert_int_equal(turn_rank(0, 60 * SECOND, true), turn_rank(1, 0, true));
	assert_true(turn_rank(-20, 2401 * SECOND, true) > turn_rank(20, 0, true));
	assert_true(turn_rank(-20, 2399 * SECOND, true) < turn_rank(20, 0, true));
	/* Others age in the same way. */
	assert_true(turn_rank(0, 61 * SECOND, false) > turn_rank(1, 0, true));
	assert_true(turn_rank(0, 59 * SECOND, false) < turn_rank(1, 0, true));
}

static void who_waits_longer(void **state)
{
	(void)state;
	assert_true(turn_rank(3, 2, true) > turn_rank(3, 1, true));
	assert_true(turn_rank(-3, 2, false) > turn_rank(-3, 1, true));
}

/* The scale ends at 20, whatever a slot says. */
static void no_priority_beyond_the_scale(void **state)
{
	(void)state;
	assert_int_equal(turn_rank(INT32_MAX, 0, false), turn_rank(20, 0, true));
	assert_int_equal(turn_rank(INT32_MIN, 0, false), turn_rank(-20, 0, true));
	assert_true(turn_rank(20, 0, true) > turn_rank(19, 0, true));
	assert_true(turn_rank(-20, 0, true) < turn_rank(-19, 0, true));
}

static void an_hour_of_others_at_most(void **state)
{
	(void)state;
	assert_int_equal(turn_rank(0, INT64_MAX, false), turn_rank(0, HOUR, true));
	assert_int_equal(turn_rank(0, HOUR - 1, false), turn_rank(0, HOUR - 1, true));
	assert_int_equal(turn_rank(0, HOUR + 1, false), turn_rank(0, HOUR, false));
	assert_true(turn_rank(0, HOUR + 1, true) > turn_rank(0, HOUR, true));
	/* Who claims to wait since the machine was started stands behind one who did wait for that long. */
	assert_true(turn_rank(20, 999 * HOUR, false) < turn_rank(20, HOUR + SECOND, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_minute_a_step),
		cmocka_unit_test(who_waits_longer),
		cmocka_unit_test(no_priority_beyond_the_scale),
		cmocka_unit_test(an_hour_of_others_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
