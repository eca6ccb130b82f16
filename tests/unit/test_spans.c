/* links: tools/spans.c tools/map.c tools/histogram.c */
/*
 * test_spans.c - unions of intervals, steps and maps, each against a slow and obvious twin.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "histogram.h"
#include "map.h"
#include "spans.h"

#define TIME 3000

static uint64_t random_below(uint64_t below)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void test_union_is_exact(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		struct spans spans = { 0 };
		bool busy[TIME] = { false };
		uint64_t expected = 0;

		for (unsigned i = 0; i < 200; i++) {
			uint64_t begin = random_below(TIME - 40), end = begin + random_below(40);

			spans_add(&spans, 1000, 1000 + begin, 1000 + end);
			for (uint64_t t = begin; t < end; t++)
				busy[t] = true;
		}
		spans_finish(&spans);
		for (unsigned t = 0; t < TIME; t++)
			expected += busy[t];
		assert_int_equal(spans.busy_ns, expected);
		assert_int_equal(strip_sum(&spans.strip, 1000, 1000 + 4 * TIME).ns, expected);
		assert_in_range(strip_sum(&spans.strip, 0, 1000 + 4 * TIME).count, 1, 200);
		spans_free(&spans);
	}
}

static void test_union_of_many(void **state)
{
	struct spans spans = { 0 };

	(void)state;
	/* 10 busy of each 30, three times as many as are held, each given twice. */
	for (uint64_t i = 0; i < 3 * SPANS_HELD; i++) {
		spans_add(&spans, 0, 30 * i, 30 * i + 10);
		spans_add(&spans, 0, 30 * i + 5, 30 * i + 10);
	}
	assert_true(spans.count <= SPANS_HELD);
	spans_finish(&spans);
	assert_int_equal(spans.busy_ns, 3 * SPANS_HELD * 10);
	/* Too late: behind everything that is held. It may be missed, never counted twice. */
	spans_add(&spans, 0, 0, 15);
	spans_finish(&spans);
	assert_int_equal(spans.busy_ns, 3 * SPANS_HELD * 10);
	spans_free(&spans);
}

static void test_spans_of_no_length(void **state)
{
	struct spans spans = { 0 };

	(void)state;
	spans_add(&spans, 7, 7, 7);
	spans_add(&spans, 7, 100, 100);
	spans_finish(&spans);
	assert_int_equal(spans.busy_ns, 0);
	assert_int_equal(strip_sum(&spans.strip, 0, 8).count, 1);
	assert_int_equal(strip_sum(&spans.strip, 8, 200).count, 1);
	spans_free(&spans);
}

static void test_long_time(void **state)
{
	struct spans spans = { 0 };

	(void)state;
	spans_add(&spans, 0, 0, 1);
	spans_add(&spans, 0, UINT64_MAX / 2, UINT64_MAX - 1);
	spans_finish(&spans);
	assert_int_equal(spans.busy_ns, UINT64_MAX / 2 + 1);
	/* The last bucket of all ends one early, at UINT64_MAX. */
	assert_true(UINT64_MAX / 2 + 1 - strip_sum(&spans.strip, 0, UINT64_MAX).ns <= 1);
	spans_free(&spans);
}

static void test_steps_are_exact_while_few(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		struct steps steps = { 0 };
		uint64_t level[STRIP_BUCKETS] = { 0 }, time = 0;

		while ((time += random_below(30)) < STRIP_BUCKETS) {
			uint64_t now = random_below(1000);

			steps_set(&steps, 500, 500 + time, now);
			for (uint64_t t = time; t < STRIP_BUCKETS; t++)
				level[t] = now;
		}
		for (unsigned i = 0; i < 100; i++) {
			uint64_t from = random_below(STRIP_BUCKETS), highest = 0;
			uint64_t to = from + random_below(STRIP_BUCKETS - from) + 1;

			for (uint64_t t = from; t < to && t < STRIP_BUCKETS; t++)
				highest = level[t] > highest ? level[t] : highest;
			/* Two changes at one moment leave the higher one in sight. */
			assert_true(steps_highest(&steps, 500 + from, 500 + to) >= highest);
		}
		assert_int_equal(steps.level, level[STRIP_BUCKETS - 1]);
		steps_free(&steps);
	}
}

static void test_steps_keep_the_peak(void **state)
{
	struct steps steps = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		steps_set(&steps, 0, 1000 * i, i == 50000 ? 77 : i % 10);
	assert_int_equal(steps.peak, 77);
	assert_int_equal(steps.peak_ns, 50000000);
	assert_int_equal(steps_highest(&steps, 0, UINT64_MAX), 77);
	assert_int_equal(steps_highest(&steps, 50000000, 50000001), 77);
	assert_int_equal(steps_highest(&steps, 0, 40000000), 9);
	assert_true(steps.too_many);
	assert_int_equal(steps.change_count, 0);
	steps_free(&steps);
}

static void test_steps_from_before(void **state)
{
	struct steps steps = { 0 };

	(void)state;
	steps_set(&steps, 100, 20, 900);
	steps_set(&steps, 100, 30, 50);
	steps_finish(&steps, 100);
	assert_int_equal(steps.peak, 50);
	assert_int_equal(steps_highest(&steps, 100, 200), 50);
	steps_set(&steps, 100, 150, 10);
	assert_int_equal(steps_highest(&steps, 149, 150), 50);
	assert_int_equal(steps_highest(&steps, 150, 151), 10);
	assert_int_equal(steps.change_count, 2);
	steps_free(&steps);
}

static void test_widening_keeps_levels(void **state)
{
	struct steps steps = { 0 };

	(void)state;
	/* High until 3, then low for ever: the bucket that holds 2 and 3 must still say high. */
	steps_set(&steps, 0, 0, 100);
	steps_set(&steps, 0, 3, 1);
	steps_set(&steps, 0, STRIP_BUCKETS * 4 - 1, 2);
	assert_int_equal(steps_highest(&steps, 0, 4), 100);
	assert_int_equal(steps_highest(&steps, 4, 8), 1);
	steps_free(&steps);
}

static void test_map(void **state)
{
	struct map map = { 0 };

	(void)state;
	assert_int_equal(map_get(&map, 0), MAP_NONE);
	for (uint64_t i = 0; i < 5000; i++)
		map_set(&map, i << 32, (uint32_t)i);
	for (uint64_t i = 0; i < 5000; i += 2)
		map_set(&map, i << 32, (uint32_t)i + 1);
	for (uint64_t i = 0; i < 5000; i++) {
		assert_int_equal(map_get(&map, i << 32), i % 2 ? i : i + 1);
		assert_int_equal(map_get(&map, (i << 32) + 1), MAP_NONE);
	}
	assert_int_equal(map.used, 5000);
	map_free(&map);
}

static void test_map_forgets(void **state)
{
	struct map map = { 0 };
	uint32_t twin[512];

	(void)state;
	memset(twin, 0xff, sizeof(twin));
	for (unsigned step = 0; step < 200000; step++) {
		uint64_t key = random_below(512);

		if (random_below(2)) {
			map_set(&map, key << 40, step);
			twin[key] = step;
		} else {
			assert_int_equal(map_remove(&map, key << 40), twin[key]);
			twin[key] = MAP_NONE;
		}
		key = random_below(512);
		assert_int_equal(map_get(&map, key << 40), twin[key]);
	}
	map_free(&map);
}

static void test_percentiles(void **state)
{
	struct histogram histogram = { 0 }, other = { 0 }, sum = { 0 };

	(void)state;
	assert_int_equal(histogram_at(&histogram, 500), 0);
	for (uint64_t i = 1; i <= 10; i++)
		histogram_add(&histogram, i);
	assert_int_equal(histogram_at(&histogram, 500), 5);
	assert_int_equal(histogram_at(&histogram, 1000), 10);
	for (uint64_t i = 1; i <= 100000; i++)
		histogram_add(&other, 1000 * i);
	for (unsigned per_mille = 10; per_mille <= 1000; per_mille += 10) {
		uint64_t exact = 100000ull * per_mille, told = histogram_at(&other, per_mille);

		assert_in_range(told, exact - exact * 32 / 1000, exact + exact * 32 / 1000);
	}
	histogram_add(&other, UINT64_MAX);
	histogram_join(&sum, &other);
	histogram_join(&sum, &histogram);
	assert_int_equal(sum.count, 100011);
	assert_int_equal(histogram_at(&sum, 0), 1);
	assert_true(histogram_at(&sum, 1000) > UINT64_MAX / 16 * 15);
	histogram_free(&histogram);
	histogram_free(&other);
	histogram_free(&sum);
}

static void test_gaps_and_lowest(void **state)
{
	struct spans spans = { 0 };
	struct steps steps = { 0 };

	(void)state;
	spans_add(&spans, 0, 100, 200);
	spans_add(&spans, 0, 900, 1000);
	spans_add(&spans, 0, 300, 400);
	spans_finish(&spans);
	assert_int_equal(span_ns(spans.longest[0]), 500);
	assert_int_equal(spans.longest[0].begin_ns, 400);
	assert_int_equal(spans.first_ns, 100);
	spans_free(&spans);
	steps_set(&steps, 0, 100, 50);
	steps_set(&steps, 0, 200, 20);
	steps_set(&steps, 0, 300, 70);
	steps_set(&steps, 0, 5000, 70);
	assert_int_equal(steps_lowest(&steps, 110, 4000), 20);
	assert_int_equal(steps_lowest(&steps, 400, 4000), 70);
	assert_int_equal(steps_lowest(&steps, 0, 4000), 0);
	steps_free(&steps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_union_is_exact),
		cmocka_unit_test(test_union_of_many),
		cmocka_unit_test(test_spans_of_no_length),
		cmocka_unit_test(test_long_time),
		cmocka_unit_test(test_steps_are_exact_while_few),
		cmocka_unit_test(test_steps_keep_the_peak),
		cmocka_unit_test(test_steps_from_before),
		cmocka_unit_test(test_widening_keeps_levels),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_forgets),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_gaps_and_lowest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
