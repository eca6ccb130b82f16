/* links: tools/model.c tools/model_work.c tools/model_gpu.c tools/model_sites.c tools/model_sum.c tools/histogram.c tools/spans.c tools/map.c tools/event.c */
/*
 * test_model.c - the model of a trace: who is who, sums that stop, and bounded memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model.h"

static struct model *model;

#define FEED(when, kind, ...) \
	model_feed(model, &(struct event){ .type = EVENT_##kind, .time_ns = (when), .host = "box", \
		.kind = { __VA_ARGS__ } })

static int open_model(void **state)
{
	(void)state;
	model = model_open(NULL);
	return 0;
}

static int close_model(void **state)
{
	(void)state;
	model_close(model);
	return 0;
}

static void define(uint64_t when, uint32_t key, uint32_t pid, uint32_t pid_ns, uint64_t ticks)
{
	FEED(when, process, .process = key, .pid = pid, .pid_ns = pid_ns, .start_ticks = ticks,
		.command = "test", .job = "", .labels = "", .version = "");
	FEED(when, thread, .thread = key, .process = key, .tid = pid, .name = "");
}

static void launch(uint64_t when, uint32_t thread, uint32_t duration_ns)
{
	FEED(when, launch, .thread = thread, .duration_ns = duration_ns, .stream = 1);
}

static void test_same_pid_other_namespace(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	define(10, 2, 2, 200, 5);
	define(10, 3, 2, 200, 6);
	launch(20, 1, 1);
	launch(20, 2, 1);
	launch(20, 2, 1);
	model_finish(model);
	assert_int_equal(model->process_count, 3);
	assert_int_equal(model->processes[0]->work.launches, 1);
	assert_int_equal(model->processes[1]->work.launches, 2);
	assert_int_equal(model->processes[2]->work.launches, 0);
}

static void test_same_process_twice_is_one(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	launch(20, 1, 1);
	define(30, 7, 2, 100, 5);
	launch(40, 7, 1);
	assert_int_equal(model->process_count, 1);
	assert_int_equal(model->processes[0]->work.launches, 2);
	assert_int_equal(model->undefined, 0);
}

static void test_hosts_and_sources_are_apart(void **state)
{
	struct event event = { .type = EVENT_process, .time_ns = 10, .host = "north",
		.process = { .process = 1, .pid = 2, .command = "a" } };

	(void)state;
	model_feed(model, &event);
	event.host = "south";
	event.source = 1;
	model_feed(model, &event);
	assert_int_equal(model->process_count, 2);
	assert_int_equal(model->host_count, 2);
	assert_string_not_equal(model->processes[0]->host, model->processes[1]->host);
}

static void test_work_behind_much_other_work(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	FEED(11, launch, .thread = 1, .correlation = 1);
	FEED(12, gpu, .process = 1, .correlation = 1, .begin_ns = 11, .end_ns = 12);
	for (uint32_t i = 2; i <= 40001; i++)
		FEED(20 + i, launch, .thread = 1, .correlation = i);
	for (uint32_t i = 2; i <= 40001; i++)
		FEED(50000 + i, gpu, .process = 1, .correlation = i, .begin_ns = 50000 + i, .end_ns = 50001 + i);
	model_finish(model);
	assert_int_equal(model->processes[0]->gpu_timed, 40001);
	assert_int_equal(model->processes[0]->gpu_unmatched, 0);
}

static void test_end_is_told_later(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	launch(20, 1, 1);
	define(21, 2, 3, 101, 6);
	launch(22, 2, 1);
	FEED(60, process_end, .process = 1, .how = END_EXIT, .ended_ns = 25);
	FEED(61, process_end, .process = 2, .how = END_SIGNAL);
	model_finish(model);
	assert_int_equal(model->processes[0]->last_ns, 25);
	assert_int_equal(model->processes[1]->last_ns, 22);
}

/* One after the other held 300 bytes up to its end, and all ends were told when the last was over. */
static void test_memory_until_the_end(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 3; i++) {
		define(100 * i, i, i, 100 + i, i);
		FEED(100 * i, device, .process = i, .device = 0, .uuid = "GPU-a", .name = "");
		FEED(100 * i + 10, alloc, .thread = i, .device = 0, .bytes = 300, .live_bytes = 300);
	}
	FEED(340, alloc, .thread = 3, .device = 0, .bytes = 50, .live_bytes = 350);
	for (uint32_t i = 1; i <= 3; i++)
		FEED(500, process_end, .process = i, .how = END_EXIT, .ended_ns = 100 * i + (i == 2 ? 9 : 50));
	model_finish(model);
	assert_int_equal(model->gpus[0].memory.peak, 350);
	assert_int_equal(model->gpus[0].memory.peak_ns, 340);
	assert_int_equal(model->gpus[0].memory.level, 0);
	assert_int_equal(steps_highest(&model->gpus[0].memory, 120, 121), 300);
	assert_int_equal(steps_highest(&model->gpus[0].memory, 160, 161), 0);
	assert_int_equal(steps_highest(&model->gpus[0].memory, 210, 211), 300);
	assert_int_equal(steps_highest(&model->gpus[0].memory, 341, 342), 350);
	assert_int_equal(model_memory(model->processes[0]).final_bytes, 300);
}

static void test_key_given_to_another(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	launch(20, 1, 1);
	FEED(25, process_end, .process = 1, .how = END_EXIT);
	define(30, 1, 9, 100, 8);
	launch(40, 1, 1);
	assert_int_equal(model->process_count, 2);
	assert_true(model->processes[0]->ended);
	assert_int_equal(model->processes[0]->work.launches, 1);
	assert_int_equal(model->processes[1]->work.launches, 1);
	assert_false(model->processes[1]->ended);
}

static void test_undefined_is_named_later(void **state)
{
	(void)state;
	launch(10, 77, 1);
	FEED(20, thread, .thread = 1, .process = 3, .tid = 4, .name = "");
	launch(30, 1, 1);
	assert_int_equal(model->process_count, 2);
	assert_int_equal(model->undefined, 1);
	assert_false(model->processes[1]->defined);
	FEED(40, process, .process = 3, .pid = 4, .command = "late");
	assert_int_equal(model->process_count, 2);
	assert_true(model->processes[1]->defined);
	assert_int_equal(model->processes[1]->work.launches, 1);
}

static void test_calls_begin_before_their_event(void **state)
{
	(void)state;
	define(1000, 1, 2, 100, 5);
	launch(2000, 1, 300);
	launch(2100, 1, 300); /* overlaps: other threads may do that */
	FEED(5000, sync, .thread = 1, .duration_ns = 2000, .handle = 1);
	model_finish(model);
	assert_int_equal(model->processes[0]->api.busy_ns, 400 + 2000);
	assert_int_equal(model->processes[0]->api_ns, 600 + 2000);
	assert_int_equal(model->processes[0]->sync_ns, 2000);
	assert_int_equal(model->processes[0]->lane_count, 1);
	assert_int_equal(model->processes[0]->lanes[0].api.busy_ns, 2400);
}

static void test_duration_longer_than_time(void **state)
{
	(void)state;
	FEED(100, call, .thread = 1, .duration_ns = 4000000000u);
	define(200, 1, 2, 3, 4);
	FEED(300, sync, .thread = 1, .duration_ns = UINT64_MAX);
	model_finish(model);
	assert_int_equal(model->first_ns, 0);
	assert_int_equal(model->processes[0]->api.busy_ns, 100);
	assert_int_equal(model->processes[1]->api.busy_ns, 300);
	assert_int_equal(model->processes[1]->sync_ns, UINT64_MAX);
}

static void test_memory_of_process_and_gpu(void **state)
{
	struct model_memory memory;

	(void)state;
	define(10, 1, 2, 100, 5);
	define(10, 2, 3, 100, 6);
	FEED(10, device, .process = 1, .device = 0, .uuid = "GPU-a", .name = "", .limit_bytes = 500);
	FEED(10, device, .process = 2, .device = 1, .uuid = "GPU-a", .name = "", .limit_bytes = UINT64_MAX);
	FEED(20, alloc, .thread = 1, .device = 0, .bytes = 300, .live_bytes = 300);
	FEED(30, alloc, .thread = 2, .device = 1, .bytes = 200, .live_bytes = 200);
	FEED(40, denied, .thread = 1, .device = 0, .bytes = 400, .limit_bytes = 500);
	FEED(50, free, .thread = 1, .device = 0, .bytes = 200, .live_bytes = 100);
	FEED(55, alloc, .thread = 1, .kind = KIND_PINNED, .bytes = 9000, .live_bytes = 0);
	FEED(60, process_end, .process = 1, .how = END_EXIT);
	model_finish(model);
	memory = model_memory(model->processes[0]);
	assert_int_equal(memory.peak_bytes, 300);
	assert_int_equal(memory.final_bytes, 100);
	assert_int_equal(memory.limit_bytes, 500);
	assert_int_equal(memory.denied, 1);
	assert_int_equal(model->processes[0]->pinned_bytes, 9000);
	assert_int_equal(model_memory(model->processes[1]).limit_bytes, UINT64_MAX);
	assert_int_equal(model->gpu_count, 1);
	assert_int_equal(model->gpus[0].processes, 2);
	assert_int_equal(model->gpus[0].memory.peak, 500);
	assert_int_equal(model->gpus[0].memory.level, 200);
	assert_int_equal(steps_highest(&model->gpus[0].memory, 50, 51), 300);
}

static void test_sums_stop_at_the_end(void **state)
{
	(void)state;
	define(10, 1, 2, 100, 5);
	for (unsigned i = 0; i < 3; i++)
		FEED(20, copy, .thread = 1, .direction = DIRECTION_HTOD, .bytes = UINT64_MAX / 2 + 1);
	FEED(20, copy, .thread = 1, .direction = 99, .bytes = 5);
	FEED(20, copy, .thread = 1, .direction = DIRECTION_DTOH, .bytes = 5, .result = 1);
	assert_int_equal(model->processes[0]->work.copies[DIRECTION_HTOD].bytes, UINT64_MAX);
	assert_int_equal(model->processes[0]->work.copies[DIRECTION_UNKNOWN].bytes, 5);
	assert_int_equal(model->processes[0]->work.copies[DIRECTION_DTOH].count, 0);
	assert_int_equal(model->processes[0]->errors, 1);
}

static void test_gpu_times_in_any_order(void **state)
{
	(void)state;
	define(1000, 1, 2, 100, 5);
	FEED(1100, launch, .thread = 1, .stream = 5, .correlation = 1, .duration_ns = 10);
	FEED(1200, launch, .thread = 1, .stream = 6, .correlation = 2, .duration_ns = 10);
	FEED(9000, gpu, .process = 1, .correlation = 2, .begin_ns = 3000, .end_ns = 4000);
	FEED(9000, gpu, .process = 1, .correlation = 1, .begin_ns = 2000, .end_ns = 3500);
	FEED(9000, gpu, .process = 1, .correlation = 1, .begin_ns = 2000, .end_ns = 3500);
	FEED(9000, gpu, .process = 1, .correlation = 9, .begin_ns = 2000, .end_ns = 3500);
	model_finish(model);
	assert_int_equal(model->processes[0]->gpu.busy_ns, 2000);
	assert_int_equal(model->processes[0]->gpu_timed, 2);
	assert_int_equal(model->processes[0]->gpu_unmatched, 2);
	assert_int_equal(model->processes[0]->lanes[0].gpu.busy_ns, 1500);
	assert_int_equal(model->processes[0]->lanes[1].gpu.busy_ns, 1000);
	assert_true(model->gpu_timing);
}

static void test_range(void **state)
{
	struct model_range range = { .from = { 1000, false }, .to = { 3000, false } };

	(void)state;
	model_close(model);
	model = model_open(&range);
	define(10000, 1, 2, 100, 5);
	launch(10500, 1, 100);
	launch(11100, 1, 200); /* half of it inside */
	launch(12000, 1, 300);
	launch(13100, 1, 200); /* counts no more, its first half does */
	model_finish(model);
	assert_int_equal(model->processes[0]->work.launches, 2);
	assert_int_equal(model->processes[0]->api.busy_ns, 100 + 300 + 100);
	assert_int_equal(model->from_ns, 11000);
	assert_int_equal(model->to_ns, 13000);
}

static void test_kernels_by_name(void **state)
{
	struct model_function *kernels;
	size_t count;

	(void)state;
	define(10, 1, 2, 100, 5);
	define(10, 2, 3, 100, 6);
	FEED(10, function, .process = 1, .function = 1, .name = "gemm");
	FEED(10, function, .process = 2, .function = 5, .name = "gemm");
	FEED(10, function, .process = 2, .function = 1, .name = "axpy");
	FEED(20, launch, .thread = 1, .function = 1, .duration_ns = 5);
	FEED(20, launch, .thread = 2, .function = 5, .duration_ns = 6);
	FEED(20, launch, .thread = 2, .function = 1, .duration_ns = 7);
	kernels = model_kernels(model, &count);
	assert_int_equal(count, 2);
	assert_string_equal(kernels[0].name, "gemm");
	assert_int_equal(kernels[0].launches, 2);
	assert_int_equal(kernels[0].api_ns, 11);
	assert_string_equal(kernels[1].name, "axpy");
	free(kernels);
	assert_int_equal(model_only_pid(model, 2), 1);
	kernels = model_kernels(model, &count);
	assert_int_equal(count, 1);
	free(kernels);
}

/* Memory from before the trace is held, but no call and no allocation of it. */
static void test_held_before_the_trace(void **state)
{
	struct model_held *held;
	size_t count;

	(void)state;
	define(10, 1, 2, 100, 5);
	FEED(11, held, .process = 1, .site = 7, .pointer = 0x100, .bytes = 30, .count = 1, .live_bytes = 80);
	FEED(12, held, .process = 1, .site = 9, .pointer = 0x200, .bytes = 50, .count = 1, .live_bytes = 80);
	/* It was just being made: its own event comes too. */
	FEED(13, alloc, .thread = 1, .site = 9, .pointer = 0x200, .bytes = 50, .live_bytes = 80);
	/* More than are told one by one, and what is not on a device. */
	FEED(14, held, .process = 1, .bytes = 1000, .count = 20, .live_bytes = 1080);
	FEED(14, held, .process = 1, .kind = KIND_PINNED, .pointer = 0x300, .bytes = 5000, .count = 1);
	/* By another thread, in a call that began before it was told. */
	FEED(20, thread, .thread = 2, .process = 1, .tid = 3, .name = "");
	FEED(21, free, .thread = 2, .pointer = 0x100, .bytes = 30, .duration_ns = 15, .live_bytes = 1050);
	model_finish(model);
	assert_int_equal(model->process_count, 1);
	assert_int_equal(model->processes[0]->devices[0].allocs, 1);
	assert_int_equal(model->processes[0]->devices[0].frees, 1);
	assert_int_equal(model->processes[0]->pinned_bytes, 0);
	assert_int_equal(model_memory(model->processes[0]).peak_bytes, 1080);
	assert_int_equal(model_memory(model->processes[0]).final_bytes, 1050);
	held = model_held(model, &count);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(held[i].site->live_bytes, held[i].site->id == 9 ? 50 : 0);
		assert_int_equal(held[i].site->allocs, held[i].site->id == 9 ? 1 : 0);
	}
	free(held);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_model, close_model)
	const struct CMUnitTest tests[] = {
		TEST(test_same_pid_other_namespace),
		TEST(test_same_process_twice_is_one),
		TEST(test_hosts_and_sources_are_apart),
		TEST(test_end_is_told_later),
		TEST(test_memory_until_the_end),
		TEST(test_work_behind_much_other_work),
		TEST(test_key_given_to_another),
		TEST(test_undefined_is_named_later),
		TEST(test_calls_begin_before_their_event),
		TEST(test_duration_longer_than_time),
		TEST(test_memory_of_process_and_gpu),
		TEST(test_sums_stop_at_the_end),
		TEST(test_gpu_times_in_any_order),
		TEST(test_range),
		TEST(test_kernels_by_name),
		TEST(test_held_before_the_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
