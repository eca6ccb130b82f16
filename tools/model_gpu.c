/*
 * model_gpu.c - when launches and copies ran on the GPU: gpu events, joined with their calls.
 */
#include "model_private.h"
#include "need.h"

/* A time on the GPU is known after the work ended; beyond this error of the clock it is wrong. */
#define CLOCK_ERROR_MAX_NS 1000000000ull

/* The same for work on the GPU itself. */
static void add_work(struct model *model, struct model_process *process, uint32_t lane_index,
	struct span span)
{
	struct model_lane *lane = &process->lanes[lane_index];
	struct model_device *device = model_device_of(process, lane->device);
	uint64_t start_ns = model->from_ns;

	if (!model_cut(model, &span))
		return;
	spans_add(&process->gpu, start_ns, span.begin_ns, span.end_ns);
	spans_add(&lane->gpu, start_ns, span.begin_ns, span.end_ns);
	spans_add(&device->gpu, start_ns, span.begin_ns, span.end_ns);
	if (device->gpu_index != MAP_NONE)
		spans_add(&model->gpus[device->gpu_index].gpu, start_ns, span.begin_ns, span.end_ns);
}

void model_add_pending(struct model_process *process)
{
	process->pending = need_zeroed(PENDING_COUNT, sizeof(*process->pending));
}

void model_keep_pending(struct model_process *process, const struct model_pending *old)
{
	if (!process->pending_old)
		process->pending_old = need_zeroed(PENDING_OLD_COUNT, sizeof(*process->pending_old));
	process->pending_old[old->correlation % PENDING_OLD_COUNT] = *old;
}

/* What waits under that number; NULL: nothing. */
static struct model_pending *find_pending(const struct model_process *process, uint32_t correlation)
{
	struct model_pending *pending = NULL;

	if (process->pending)
		pending = &process->pending[correlation % PENDING_COUNT];
	if (pending && pending->correlation != correlation && process->pending_old)
		pending = &process->pending_old[correlation % PENDING_OLD_COUNT];
	return pending && pending->lane && pending->correlation == correlation ? pending : NULL;
}

static void count_timed_launch(struct model_function *function,
	const struct model_pending *pending, const struct span *span)
{
	uint64_t ns = span->end_ns - span->begin_ns;
	uint64_t queued_ns = span->begin_ns > pending->time_ns ? span->begin_ns - pending->time_ns : 0;

	if (!function->timed++ || ns < function->gpu_shortest_ns)
		function->gpu_shortest_ns = ns;
	if (ns > function->gpu_longest_ns)
		function->gpu_longest_ns = ns;
	function->gpu_ns = sum_saturated(function->gpu_ns, ns);
	histogram_add(&function->gpu_times, ns);
	function->queued_ns = sum_saturated(function->queued_ns, queued_ns);
	if (queued_ns > function->queued_longest_ns)
		function->queued_longest_ns = queued_ns;
}

static void count_timed_copy(struct model_copies *copies, const struct model_pending *pending,
	const struct span *span)
{
	copies->timed++;
	copies->timed_bytes = sum_saturated(copies->timed_bytes, pending->bytes);
	copies->gpu_ns = sum_saturated(copies->gpu_ns, span->end_ns - span->begin_ns);
}

static void count_timed(struct model_process *process, const struct model_pending *pending,
	const struct span *span)
{
	process->gpu_timed++;
	if (pending->function) {
		count_timed_launch(&process->functions[pending->function - 1], pending, span);
		return;
	}
	count_timed_copy(&process->work.copies[pending->direction], pending, span);
	count_timed_copy(&process->ways.of[pending->direction][pending->host], pending, span);
}

static void observe_work(const struct model *model, const struct model_process *process,
	const struct model_pending *pending, const struct span *span)
{
	struct model_slice slice = { .kind = SLICE_GPU, .process = process,
		.lane = pending->lane - 1, .begin_ns = span->begin_ns, .end_ns = span->end_ns,
		.correlation = pending->correlation, .has_correlation = true,
		.bytes = pending->bytes, .has_bytes = !pending->function };

	if (pending->function)
		slice.name = process->functions[pending->function - 1].name;
	model->observer->slice(model->observer->user, &slice);
}

void model_time_gpu(struct model *model, struct model_process *process, const struct event *event)
{
	const struct event_gpu *e = &event->gpu;
	struct model_pending *pending = find_pending(process, e->correlation);
	struct span span = { e->begin_ns, e->end_ns };

	process->wants_gpu = true;
	if (!pending || e->end_ns < e->begin_ns ||
		e->end_ns > sum_saturated(event->time_ns, CLOCK_ERROR_MAX_NS)) {
		process->gpu_unmatched++;
		return;
	}
	model->gpu_timing = true;
	add_work(model, process, pending->lane - 1, span);
	histogram_add(&model->gpu_errors, e->error_ns);
	if (e->error_ns > process->gpu_error_ns)
		process->gpu_error_ns = e->error_ns;
	if (model_cut(model, &span)) {
		if (span.end_ns - span.begin_ns > e->error_ns)
			process->gpu_least_ns = sum_saturated(process->gpu_least_ns,
				span.end_ns - span.begin_ns - e->error_ns);
		count_timed(process, pending, &span);
		if (model->observer)
			observe_work(model, process, pending, &span);
	}
	pending->lane = 0;
}
