/* links: tools/queue_order.c */
/*
 * test_queue.c - turns in the queue: first come, priority, and a minute a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "queue.h"

#define SECOND 1000000000ull

static struct queue_place at(const char *name, uint64_t seconds, int priority)
{
	struct queue_place place = { .since_ns = 1700000000 * SECOND + seconds * SECOND, .priority = priority };

	strcpy(place.name, name);
	return place;
}

static void first_come(void **state)
{
	struct queue_place a = at("b", 0, 0), b = at("a", 1, 0);

	(void)state;
	assert_true(queue_order(&a, &b) < 0);
	assert_true(queue_order(&b, &a) > 0);
	b.since_ns = a.since_ns;
	assert_true(queue_order(&a, &b) > 0); /* then by name, the same for all who look */
	assert_int_equal(queue_order(&a, &a), 0);
}

static void a_minute_a_step(void **state)
{
	struct queue_place old = at("old", 0, 0), later = at("later", 59, 1), late = at("late", 61, 1);
	struct queue_place last = at("last", 1199, 20), too_late = at("too late", 1201, 20);
	struct queue_place low = at("low", 0, -20), patient = at("patient", 2399, 20);

	(void)state;
	assert_true(queue_order(&later, &old) < 0);
	assert_true(queue_order(&old, &late) < 0);
	assert_true(queue_order(&last, &old) < 0);
	assert_true(queue_order(&old, &too_late) < 0);
	assert_true(queue_order(&patient, &low) < 0);
	patient.since_ns += 2 * SECOND;
	assert_true(queue_order(&low, &patient) < 0);
}

static void rivals_share_a_gpu(void **state)
{
	struct queue_place a = at("a", 0, 0), b = at("b", 0, 0);

	(void)state;
	a.count = b.count = 2;
	memset(a.asks[0].uuid, 1, 16);
	memset(a.asks[1].uuid, 2, 16);
	memset(b.asks[0].uuid, 3, 16);
	memset(b.asks[1].uuid, 4, 16);
	assert_false(queue_rivals(&a, &b));
	memset(b.asks[1].uuid, 1, 16);
	assert_true(queue_rivals(&a, &b));
	assert_true(queue_rivals(&b, &a));
	assert_ptr_equal(queue_asks_for(&b, a.asks[0].uuid), &b.asks[1]);
	assert_null(queue_asks_for(&b, a.asks[1].uuid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_come), cmocka_unit_test(a_minute_a_step),
		cmocka_unit_test(rivals_share_a_gpu),
	};

	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
