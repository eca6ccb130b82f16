/*
 * view_findings.c - what stands out in a trace, in words. Each has a measure, so that ordinary
 * programs have none.
 */
#include "view.h"

#include <inttypes.h>
#include <stdarg.h>

#include "format.h"
#include "need.h"

/* A call that is made once may take as long as it likes. */
#define CALLS_MIN 100
#define ALLOCS_MIN 1000
#define SMALL_BYTES (1u << 20)
#define SMALL_COPY_BYTES 4096
#define GAP_NS_MIN 100000000u
#define GROWTH_PARTS 8
#define GROWTH_BYTES_MIN (1u << 20)

struct findings {
	const struct model *model;
	struct view_finding *items;
	size_t count, capacity;
	size_t process; /* at hand */
};

static void __attribute__((format(printf, 3, 4))) add(struct findings *findings, const char *code,
	const char *format, ...)
{
	struct view_finding *finding;
	va_list arguments;

	findings->items = need_room(findings->items, findings->count, &findings->capacity,
		sizeof(*findings->items));
	finding = &findings->items[findings->count++];
	*finding = (struct view_finding){ .code = code, .process = findings->process };
	va_start(arguments, format);
	vsnprintf(finding->text, sizeof(finding->text), format, arguments);
	va_end(arguments);
}

static uint64_t launch_ns(const struct model_process *process)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < process->function_count; i++)
		ns = sum_saturated(ns, process->functions[i].api_ns);
	return ns;
}

static uint64_t kernel_ns(const struct model_process *process)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < process->function_count; i++)
		ns = sum_saturated(ns, process->functions[i].gpu_ns);
	return ns;
}

/* The part of the range in which the process was there. */
static uint64_t wall_of(const struct model *model, const struct model_process *process)
{
	uint64_t from = process->first_ns > model->from_ns ? process->first_ns : model->from_ns;
	uint64_t to = process->last_ns < model->to_ns ? process->last_ns : model->to_ns;

	return to > from ? to - from : 0;
}

/*
 * The GPU idles because launching takes longer than running. There the events around a kernel tell
 * little about it: they happen before the launch and behind it. What is sure of its time counts.
 */
static void find_launch_bound(struct findings *findings, const struct model_process *process,
	uint64_t wall_ns)
{
	uint64_t launches = launch_ns(process), kernels = kernel_ns(process);
	char least[32];

	if (!findings->model->gpu_timing || process->work.launches < CALLS_MIN ||
		launches < wall_ns / 2 || process->gpu_least_ns > wall_ns / 2)
		return;
	snprintf(least, sizeof(least), "%s", format_percent(process->gpu_least_ns, wall_ns));
	add(findings, "launch-bound", "launching takes %s of its time (%s a launch), while a kernel runs for"
		" at most %s, and the GPU is busy %s at least, %s at most: larger kernels, fewer of them, or a"
		" graph would help", format_percent(launches, wall_ns),
		format_ns(launches / process->work.launches), format_ns(kernels / process->work.launches),
		least, format_percent(process->gpu.busy_ns, wall_ns));
}

/* Waiting, and not because the GPU has so much to do. */
static void find_sync_bound(struct findings *findings, const struct model_process *process,
	uint64_t wall_ns)
{
	bool gpu_works = findings->model->gpu_timing && process->gpu.busy_ns > wall_ns / 10 * 8;

	if (process->syncs < CALLS_MIN || process->sync_ns / 2 < wall_ns / 4 || gpu_works)
		return;
	add(findings, "sync-bound", "waiting for the GPU takes %s of its time, in %" PRIu64 " calls of %s:"
		" wait less often", format_percent(process->sync_ns, wall_ns), process->syncs,
		format_ns(process->sync_ns / process->syncs));
}

static void find_small_allocations(struct findings *findings, const struct model_process *process,
	uint64_t wall_ns)
{
	uint64_t allocs = 0;

	for (unsigned i = 0; i < process->device_count; i++)
		allocs += process->devices[i].allocs;
	if (allocs < ALLOCS_MIN || process->alloc_bytes / allocs > SMALL_BYTES ||
		process->alloc_ns < wall_ns / 20)
		return;
	add(findings, "small-allocations", "%" PRIu64 " allocations of %s on average; with their frees"
		" they take %s of its time: keep the memory, or use a pool", allocs,
		format_bytes(process->alloc_bytes / allocs), format_percent(process->alloc_ns, wall_ns));
}

static void find_small_copies(struct findings *findings, const struct model_process *process,
	uint64_t wall_ns)
{
	uint64_t count = 0, bytes = 0, ns = 0;

	for (unsigned i = 0; i < DIRECTION_SET; i++) {
		count += process->work.copies[i].count;
		bytes = sum_saturated(bytes, process->work.copies[i].bytes);
		ns = sum_saturated(ns, process->work.copies[i].api_ns);
	}
	if (count < ALLOCS_MIN || bytes / count > SMALL_COPY_BYTES || ns < wall_ns / 20)
		return;
	add(findings, "small-copies", "%" PRIu64 " copies of %s on average take %s of its time: gather"
		" them", count, format_bytes(bytes / count), format_percent(ns, wall_ns));
}

static void find_gap(struct findings *findings, const struct model_process *process,
	uint64_t wall_ns)
{
	const struct model *model = findings->model;
	const struct spans *busy = model->gpu_timing ? &process->gpu : &process->api;

	uint64_t gap_ns = span_ns(busy->longest[0]);

	if (gap_ns < GAP_NS_MIN || gap_ns < wall_ns / 5)
		return;
	add(findings, "idle-gap", "%s for %s (%s of its time), from %s on",
		model->gpu_timing ? "the GPU did nothing for it" : "no CUDA call was made",
		format_ns(gap_ns), format_percent(gap_ns, wall_ns),
		format_ns(busy->longest[0].begin_ns - model->first_ns));
}

/* The lowest level rises from part to part: what comes and goes does not do that. */
static void find_growth_on(struct findings *findings, const struct model_process *process,
	unsigned index, uint64_t wall_ns)
{
	const struct model_device *device = &process->devices[index];
	uint64_t from_ns = process->first_ns > findings->model->from_ns
		? process->first_ns : findings->model->from_ns;
	uint64_t before = 0, first = 0;
	unsigned rises = 0;

	if (!device->uuid || !device->allocs || wall_ns < GROWTH_PARTS)
		return;
	/* The first quarter is for what a program sets up. */
	for (unsigned i = 2; i < GROWTH_PARTS; i++) {
		uint64_t begin = from_ns + (uint64_t)((unsigned __int128)wall_ns * i / GROWTH_PARTS);
		uint64_t end = from_ns + (uint64_t)((unsigned __int128)wall_ns * (i + 1) / GROWTH_PARTS);
		/* Not up to the very end: there all of it is freed. */
		uint64_t lowest = steps_lowest(&device->memory, begin, end - wall_ns / (8 * GROWTH_PARTS));

		rises += i > 2 && lowest > before;
		first = i == 2 ? lowest : first;
		before = lowest;
	}
	if (rises < GROWTH_PARTS - 3 || before - first < GROWTH_BYTES_MIN ||
		before - first < device->memory.peak / 10)
		return;
	add(findings, "growth", "memory on GPU %u grows all the time, from %s to %s: %s a second", index,
		format_bytes(first), format_bytes(before), format_bytes((uint64_t)(
		(unsigned __int128)(before - first) * 1000000000 * GROWTH_PARTS /
		((unsigned __int128)wall_ns * (GROWTH_PARTS - 3)))));
}

static void find_refusals(struct findings *findings, const struct model_process *process)
{
	struct model_memory memory = model_memory(process);

	if (!memory.denied)
		return;
	add(findings, "refused", "%" PRIu64 " request%s refused, the largest of %s while %s of %s were in"
		" use%s%s", memory.denied, memory.denied == 1 ? " was" : "s were",
		format_bytes(process->largest_refusal), format_bytes(process->refused_used),
		format_bytes(process->refused_limit), process->refusal_text ? "; " : "",
		process->refusal_text ? process->refusal_text : "");
}

static void find_leaks(struct findings *findings, const struct model_process *process)
{
	const struct model_leaks *leaks = &process->leaks[VERDICT_LEAK];

	if (!process->leaks_known || !leaks->count)
		return;
	add(findings, "leak", "%s in %" PRIu64 " allocation%s were never freed", format_bytes(leaks->bytes),
		leaks->count, leaks->count == 1 ? "" : "s");
}

static void find_errors(struct findings *findings, const struct model_process *process)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < process->call_count; i++)
		calls += process->calls[i].count;
	if (process->errors < CALLS_MIN || process->errors < calls / 100)
		return;
	add(findings, "errors", "%" PRIu64 " of %" PRIu64 " calls failed (%s)", process->errors, calls,
		format_percent(process->errors, calls));
}

struct view_finding *view_findings(const struct model *model, size_t *count)
{
	struct findings findings = { .model = model };

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		uint64_t wall_ns = wall_of(model, process);

		if (process->hidden)
			continue;
		findings.process = i;
		find_refusals(&findings, process);
		find_leaks(&findings, process);
		find_errors(&findings, process);
		find_launch_bound(&findings, process, wall_ns);
		find_sync_bound(&findings, process, wall_ns);
		find_small_allocations(&findings, process, wall_ns);
		find_small_copies(&findings, process, wall_ns);
		find_gap(&findings, process, wall_ns);
		for (unsigned k = 0; k < process->device_count; k++)
			find_growth_on(&findings, process, k, wall_ns);
	}
	*count = findings.count;
	return findings.items;
}
