/*
 * view_stats.c - the tables of `cuward stats` for people.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "format.h"
#include "need.h"
#include "table.h"

#define ROWS_SHOWN 20

static const char *const direction_words[] = {
#define X(id, word) word,
	CUWARD_DIRECTIONS(X)
#undef X
};

static void columns(struct table *table, const char *const *headings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		table_column(table, headings[i]);
}

#define COLUMNS(table, ...) \
	columns(table, (const char *const[]){ __VA_ARGS__ }, \
		sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static size_t shown_of(size_t count, const struct view_style *style)
{
	return style->all || count < ROWS_SHOWN ? count : ROWS_SHOWN;
}

static void put_rest(FILE *out, size_t count, size_t shown)
{
	if (shown < count)
		fprintf(out, "  and %zu more; --all shows them\n", count - shown);
}

static uint64_t wall_of(const struct model_process *process)
{
	return process->last_ns - process->first_ns;
}

/* ---- processes ---- */

/* Of a process that was not recorded nothing is known. */
static void cell_known(struct table *table, const struct model_process *process, const char *text)
{
	table_cell(table, process->unrecorded ? "?" : text);
}

static void put_processes(FILE *out, const struct model *model)
{
	struct table table = { 0 };

	COLUMNS(&table, "#", "PID", "<HOST", "<USER", "<COMMAND", "GPU", "START", "END", "<HOW", "WALL",
		"BUSY", "SHARE", "API", "SYNC", "ERRORS");
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		const struct spans *busy = model->gpu_timing ? &process->gpu : &process->api;
		char devices[64];

		if (process->hidden)
			continue;
		view_device_list(process, devices, sizeof(devices));
		table_cell(&table, format_count(i + 1));
		table_cell(&table, process->defined ? format_count(process->pid) : "?");
		table_cell(&table, process->host);
		table_cell(&table, process->user ? process->user
			: process->defined ? format_count(process->uid) : "?");
		table_cell(&table, process->defined ? process->command : "(not defined)");
		cell_known(&table, process, devices);
		cell_known(&table, process, format_ns(process->first_ns - model->first_ns));
		cell_known(&table, process, format_ns(process->last_ns - model->first_ns));
		table_cell(&table, view_end_text(process));
		cell_known(&table, process, format_ns(wall_of(process)));
		cell_known(&table, process, format_ns(busy->busy_ns));
		cell_known(&table, process, format_percent(busy->busy_ns, wall_of(process)));
		cell_known(&table, process, format_ns(process->api_ns));
		cell_known(&table, process, format_ns(process->sync_ns));
		cell_known(&table, process, format_count(process->errors));
	}
	fprintf(out, "\nProcesses\n");
	table_print(&table, out, 2);
}

static void put_bytes_by_direction(struct table *table, const struct model_process *process)
{
	for (unsigned k = 0; k < DIRECTION_COUNT; k++)
		cell_known(table, process, format_bytes(process->work.copies[k].bytes));
}

static void put_work(FILE *out, const struct model *model)
{
	struct table table = { 0 };

	COLUMNS(&table, "#", "PID", "LAUNCHES", "HTOD", "DTOH", "DTOD", "HTOH", "PEER", "SET", "UNKNOWN",
		"PEAK", "FINAL", "LIMIT", "REFUSED", "LEAKS");
	_Static_assert(DIRECTION_COUNT == 7, "a column each");
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		struct model_memory memory = model_memory(process);

		if (process->hidden)
			continue;
		table_cell(&table, format_count(i + 1));
		table_cell(&table, process->defined ? format_count(process->pid) : "?");
		cell_known(&table, process, format_count(process->work.launches));
		put_bytes_by_direction(&table, process);
		cell_known(&table, process, format_bytes(memory.peak_bytes));
		cell_known(&table, process, format_bytes(memory.final_bytes));
		table_cell(&table, memory.limit_bytes == UINT64_MAX ? "none"
			: memory.limit_bytes ? format_bytes(memory.limit_bytes) : "?");
		cell_known(&table, process, format_count(memory.denied));
		table_cell(&table, process->leaks_known
			? format_count(process->leaks[VERDICT_LEAK].count) : "?");
	}
	fprintf(out, "\nWork and memory of processes\n");
	table_print(&table, out, 2);
}

/* ---- devices ---- */

/* #1 #2: the numbers of the table of processes. */
static void put_holders(struct table *table, const struct model *model, size_t gpu)
{
	char text[200];
	size_t used = 0;

	for (size_t i = 0; i < model->process_count && used < sizeof(text); i++)
		if (!model->processes[i]->hidden && model_uses_gpu(model->processes[i], gpu))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s#%zu", used ? " " : "",
				i + 1);
	table_cell(table, used ? text : "-");
}

static void put_devices(FILE *out, const struct model *model)
{
	struct table table = { 0 };

	if (!model->gpu_count)
		return;
	COLUMNS(&table, "<UUID", "<NAME", "<HOST", "TOTAL", "PROCESSES", "BUSY", "SHARE", "SHARED", "GAPS",
		"IDLE", "PEAK", "REFUSED", "<HELD BY");
	for (size_t i = 0; i < model->gpu_count; i++) {
		const struct model_gpu *gpu = &model->gpus[i];
		const struct spans *busy = model->gpu_timing ? &gpu->gpu : &gpu->api;

		table_cell(&table, gpu->uuid);
		table_cell(&table, gpu->name);
		table_cell(&table, gpu->host);
		table_cell(&table, gpu->total_bytes ? format_bytes(gpu->total_bytes) : "?");
		table_cell(&table, format_count(gpu->processes));
		table_cell(&table, format_ns(busy->busy_ns));
		table_cell(&table, format_percent(busy->busy_ns, model->to_ns - model->from_ns));
		table_cell(&table, format_ns(model_shared_ns(model, i)));
		table_cell(&table, format_count(busy->gaps));
		table_cell(&table, format_ns(busy->gaps_ns));
		table_cell(&table, format_bytes(gpu->memory.peak));
		table_cell(&table, format_count(gpu->denied));
		put_holders(&table, model, i);
	}
	fprintf(out, "\nDevices\n");
	table_print(&table, out, 2);
}

/* The longest times in which a device had nothing to do, between two pieces of work. */
static void put_gaps(FILE *out, const struct model *model)
{
	struct table table = { 0 };
	bool any = false;

	COLUMNS(&table, "LENGTH", "SHARE", "FROM", "TO", "<UUID", "<HOST");
	for (size_t i = 0; i < model->gpu_count; i++) {
		const struct model_gpu *gpu = &model->gpus[i];
		const struct spans *busy = model->gpu_timing ? &gpu->gpu : &gpu->api;

		for (unsigned k = 0; k < GAPS_KEPT && span_ns(busy->longest[k]); k++) {
			any = true;
			table_cell(&table, format_ns(span_ns(busy->longest[k])));
			table_cell(&table, format_percent(span_ns(busy->longest[k]),
				model->to_ns - model->from_ns));
			table_cell(&table, format_ns(busy->longest[k].begin_ns - model->first_ns));
			table_cell(&table, format_ns(busy->longest[k].end_ns - model->first_ns));
			table_cell(&table, gpu->uuid);
			table_cell(&table, gpu->host);
		}
	}
	if (!any)
		return;
	fprintf(out, "\nIdle gaps, the longest of each device\n");
	table_print(&table, out, 2);
}

/* ---- kernels and calls ---- */

static void put_times(struct table *table, uint64_t count, uint64_t ns,
	const struct histogram *times, uint64_t shortest_ns, uint64_t longest_ns)
{
	table_cell(table, format_ns(ns));
	table_cell(table, count ? format_ns(ns / count) : "?");
	table_cell(table, count ? format_ns(view_percentile(times, 500, shortest_ns, longest_ns)) : "?");
	table_cell(table, count ? format_ns(view_percentile(times, 950, shortest_ns, longest_ns)) : "?");
	table_cell(table, count ? format_ns(view_percentile(times, 990, shortest_ns, longest_ns)) : "?");
	table_cell(table, count ? format_ns(shortest_ns) : "?");
	table_cell(table, count ? format_ns(longest_ns) : "?");
}

static void put_shape(struct table *table, const struct model_function *kernel)
{
	char text[128];

	snprintf(text, sizeof(text), "%" PRIu32 ",%" PRIu32 ",%" PRIu32 " x %" PRIu32 ",%" PRIu32
		",%" PRIu32 "%s", kernel->grid[0], kernel->grid[1], kernel->grid[2], kernel->block[0],
		kernel->block[1], kernel->block[2], kernel->shapes_differ ? " .." : "");
	table_cell(table, kernel->launches ? text : "?");
}

static void put_kernels(FILE *out, const struct model *model, const struct view_style *style)
{
	size_t count, shown;
	struct model_function *kernels = model_kernels(model, &count);
	struct table table = { 0 };
	uint64_t all_ns = 0;

	shown = shown_of(count, style);
	for (size_t i = 0; i < count; i++)
		all_ns = sum_saturated(all_ns, model->gpu_timing ? kernels[i].gpu_ns : kernels[i].api_ns);
	COLUMNS(&table, "SHARE", "LAUNCHES", "TIME", "AVG", "P50", "P95", "P99", "MIN", "MAX", "QUEUED",
		"STREAMS", "<GRID x BLOCK", "<KERNEL");
	for (size_t i = 0; i < shown; i++) {
		const struct model_function *kernel = &kernels[i];
		bool timed = model->gpu_timing;

		table_cell(&table, format_percent(timed ? kernel->gpu_ns : kernel->api_ns, all_ns));
		table_cell(&table, format_count(kernel->launches));
		if (timed)
			put_times(&table, kernel->timed, kernel->gpu_ns, &kernel->gpu_times,
				kernel->gpu_shortest_ns, kernel->gpu_longest_ns);
		else
			put_times(&table, kernel->api_times.count, kernel->api_ns, &kernel->api_times,
				kernel->api_shortest_ns, kernel->api_longest_ns);
		table_cell(&table, kernel->timed ? format_ns(kernel->queued_ns / kernel->timed) : "?");
		table_cell(&table, format_count(kernel->streams));
		put_shape(&table, kernel);
		table_cell(&table, kernel->shown ? kernel->shown : *kernel->name ? kernel->name : "(not named)");
	}
	if (shown) {
		fprintf(out, "\nKernels, %s\n", model->gpu_timing ? "on the GPU" : "their launches on the CPU");
		table_print(&table, out, 2);
	}
	put_rest(out, count, shown);
	model_kernels_free(kernels, count);
}

static const char *codes_text(const struct model_calls *calls)
{
	static char text[80];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < calls->code_count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu64 "x %" PRId32,
			i ? ", " : "", calls->codes[i].count, calls->codes[i].code);
	return used ? text : "-";
}

static void put_calls(FILE *out, const struct model *model, const struct view_style *style)
{
	size_t count, shown;
	struct model_named_calls *calls = model_calls(model, &count);
	struct table table = { 0 };

	uint64_t all_ns = 0;

	shown = shown_of(count, style);
	for (size_t i = 0; i < count; i++)
		all_ns = sum_saturated(all_ns, calls[i].calls.ns);
	COLUMNS(&table, "SHARE", "COUNT", "TIME", "AVG", "P50", "P95", "P99", "MIN", "MAX", "ERRORS",
		"<CODES", "<CALL");
	for (size_t i = 0; i < shown; i++) {
		const struct model_calls *one = &calls[i].calls;

		table_cell(&table, format_percent(one->ns, all_ns));
		table_cell(&table, format_count(one->count));
		put_times(&table, one->count, one->ns, &one->times, one->shortest_ns, one->longest_ns);
		table_cell(&table, format_count(one->errors));
		table_cell(&table, codes_text(one));
		table_cell(&table, calls[i].name);
	}
	if (shown) {
		fprintf(out, "\nCalls\n");
		table_print(&table, out, 2);
	}
	put_rest(out, count, shown);
	model_calls_free(calls, count);
}

/* ---- copies and memory ---- */

const char *view_host_word(unsigned direction, unsigned host)
{
	static const char *const words[] = {
#define X(id, word) word,
		CUWARD_HOSTS(X)
#undef X
	};
	bool has_host = direction == DIRECTION_HTOD || direction == DIRECTION_DTOH ||
		direction == DIRECTION_HTOH || direction == DIRECTION_UNKNOWN;

	return words[has_host ? host : HOST_NONE];
}

static void put_copies_row(struct table *table, const struct model_copies *copies,
	const char *direction, const char *host)
{
	char rate[48] = "?";

	if (copies->gpu_ns)
		snprintf(rate, sizeof(rate), "%s/s", format_bytes(model_rate(copies)));
	table_cell(table, direction);
	table_cell(table, host);
	table_cell(table, format_count(copies->count));
	table_cell(table, format_bytes(copies->bytes));
	table_cell(table, format_bytes(copies->bytes / copies->count));
	table_cell(table, format_ns(copies->api_ns));
	table_cell(table, copies->timed ? format_ns(copies->gpu_ns) : "?");
	table_cell(table, rate);
}

static void put_copies(FILE *out, const struct model *model)
{
	struct table table = { 0 };
	bool any = false;

	COLUMNS(&table, "<DIRECTION", "<HOST MEMORY", "COUNT", "BYTES", "AVG", "API", "GPU", "RATE");
	for (unsigned i = 0; i < DIRECTION_COUNT * HOST_COUNT; i++) {
		unsigned direction = i / HOST_COUNT, host = i % HOST_COUNT;
		struct model_copies copies = model_copies_sum(model, direction, host);

		if (!copies.count)
			continue;
		any = true;
		put_copies_row(&table, &copies, direction_words[direction],
			view_host_word(direction, host));
	}
	if (!any)
		return;
	fprintf(out, "\nCopies\n");
	table_print(&table, out, 2);
}

static void put_memory(FILE *out, const struct model *model, const struct view_style *style)
{
	size_t count, shown;
	struct model_held *held = model_held(model, &count);
	struct table table = { 0 };

	shown = shown_of(count, style);
	COLUMNS(&table, "#", "AT PEAK", "COUNT", "AT END", "COUNT", "ALLOCS", "IN ALL", "<SITE");
	for (size_t i = 0; i < shown; i++) {
		const struct model_site *site = held[i].site;

		table_cell(&table, format_count(held[i].process + 1));
		table_cell(&table, format_bytes(site->peak_bytes));
		table_cell(&table, format_count(site->peak_count));
		table_cell(&table, format_bytes(site->live_bytes));
		table_cell(&table, format_count(site->live_count));
		table_cell(&table, format_count(site->allocs));
		table_cell(&table, format_bytes(site->bytes));
		table_cell(&table, site->frames && *site->frames ? site->frames : "?");
	}
	if (shown) {
		fprintf(out, "\nMemory by call site\n");
		table_print(&table, out, 2);
	}
	put_rest(out, count, shown);
	free(held);
}

static void put_findings(FILE *out, const struct model *model)
{
	size_t count;
	struct view_finding *findings = view_findings(model, &count);

	fprintf(out, "\nFindings\n");
	for (size_t i = 0; i < count; i++) {
		const struct model_process *process = model->processes[findings[i].process];

		fprintf(out, "  #%zu ", findings[i].process + 1);
		put_safe(out, process->defined ? process->command : "(not defined)", 40);
		fputs(": ", out);
		put_safe(out, findings[i].text, 0);
		fputc('\n', out);
	}
	if (!count)
		fputs("  nothing stands out\n", out);
	free(findings);
}

void view_stats(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style)
{
	view_put_header(out, model, facts);
	view_put_doubts(out, model, facts, style);
	put_processes(out, model);
	put_work(out, model);
	put_devices(out, model);
	put_gaps(out, model);
	put_kernels(out, model, style);
	put_calls(out, model, style);
	put_copies(out, model);
	put_memory(out, model, style);
	put_findings(out, model);
}
