/*
 * view_terminal.c - the timeline as tables for people; view_lanes.c draws the lanes.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "format.h"
#include "need.h"
#include "table.h"

#define KERNELS_SHOWN 10

/* ---- what is wrong ---- */

struct view_doubts view_doubts(const struct model *model, const struct trace_facts *facts)
{
	struct view_doubts doubts = {
		.lost = facts->discarded,
		.lost_unknown = facts->discarded_unknown || facts->lost_packets,
		.lost_packets = facts->lost_packets,
		.damaged = facts->damaged,
		.undefined = model->undefined,
	};
	bool ended = false, in_job = false;
	size_t unended = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		if (process->hidden)
			continue;
		doubts.lost = sum_saturated(doubts.lost, process->lost);
		doubts.unrecorded += process->unrecorded;
		if (process->unrecorded)
			doubts.unrecorded_why = process->lost_why;
		ended |= process->ended;
		unended += !process->ended;
		in_job |= !process->ended && *process->job;
	}
	/* Only `cuward run` writes the ends: a process that traced on its own has none. */
	if (ended || in_job || doubts.lost || doubts.lost_unknown || doubts.damaged)
		doubts.truncated = unended;
	else
		doubts.without_end = unended;
	return doubts;
}

bool view_is_doubtful(const struct view_doubts *doubts)
{
	return doubts->lost || doubts->lost_unknown || doubts->damaged || doubts->truncated ||
		doubts->undefined || doubts->unrecorded;
}

static const char *plural(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

static void put_warning(FILE *out, const struct view_style *style, const char *text)
{
	const char *red = style->color ? "\033[1;31m" : "", *plain = style->color ? "\033[0m" : "";

	fprintf(out, "%s! %s%s\n", red, text, plain);
}

static void lost_text(const struct view_doubts *doubts, uint64_t all, char *text, size_t bytes)
{
	char packets[64] = "";

	if (doubts->lost_packets)
		snprintf(packets, sizeof(packets), "%" PRIu64 " %s of events", doubts->lost_packets,
			plural(doubts->lost_packets, "packet", "packets"));
	if (doubts->lost)
		snprintf(text, bytes, "%" PRIu64 " events%s (%s)%s%s were lost: counts and sums are too low",
			doubts->lost, doubts->lost_unknown ? " or more" : "",
			format_percent(doubts->lost, all), *packets ? " and " : "", packets);
	else
		snprintf(text, bytes, "%s were lost, nobody knows how many: counts and sums are too low",
			*packets ? packets : "events");
}

#define LOSSES_SHOWN 8

/* Which streams lost how much: the one of a channel that was too small stands out. */
static void put_losses(FILE *out, const struct trace_facts *facts)
{
	for (size_t i = 0; i < facts->loss_count && i < LOSSES_SHOWN; i++) {
		const struct trace_loss *loss = &facts->losses[i];

		fprintf(out, "    ");
		if (loss->events)
			fprintf(out, "%" PRIu64 " %s%s", loss->events, plural(loss->events, "event", "events"),
				loss->packets ? " and " : "");
		if (loss->packets)
			fprintf(out, "%" PRIu64 " %s", loss->packets,
				plural(loss->packets, "packet", "packets"));
		fputs(" of ", out);
		put_safe(out, loss->stream, 0);
		fputc('\n', out);
	}
	if (facts->loss_count > LOSSES_SHOWN)
		fprintf(out, "    and more of %zu other streams\n", facts->loss_count - LOSSES_SHOWN);
}

void view_put_doubts(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style)
{
	struct view_doubts doubts = view_doubts(model, facts);
	uint64_t all = sum_saturated(facts->events, doubts.lost);
	char text[256];

	if (doubts.lost || doubts.lost_unknown) {
		lost_text(&doubts, all, text, sizeof(text));
		put_warning(out, style, text);
		put_losses(out, facts);
	}
	if (doubts.unrecorded) {
		snprintf(text, sizeof(text), "%zu %s not recorded (%s): what they did is not here",
			doubts.unrecorded, plural(doubts.unrecorded, "process was", "processes were"),
			doubts.unrecorded_why ? doubts.unrecorded_why : "it is not known why");
		put_warning(out, style, text);
	}
	if (doubts.damaged)
		put_warning(out, style, "the trace is damaged; this is what could be read");
	if (doubts.undefined) {
		snprintf(text, sizeof(text), "%" PRIu64 " %s to threads that the trace does not define",
			doubts.undefined, plural(doubts.undefined, "event belongs", "events belong"));
		put_warning(out, style, text);
	}
	if (doubts.without_end)
		fprintf(out, "Ends were not recorded: only `cuward run` does that.\n");
	if (doubts.truncated) {
		snprintf(text, sizeof(text), "the end of %zu %s was not recorded", doubts.truncated,
			plural(doubts.truncated, "process", "processes"));
		put_warning(out, style, text);
	}
}

/* ---- header ---- */

static size_t shown_processes(const struct model *model)
{
	size_t shown = 0;

	for (size_t i = 0; i < model->process_count; i++)
		shown += !model->processes[i]->hidden;
	return shown;
}

/* Work that ran and has no time: how much, and why. */
static void put_untimed(FILE *out, const struct model *model)
{
	static const char *const reasons[] = {
#define X(id, word, text) text,
		CUWARD_UNTIMED(X)
#undef X
	};
	struct model_untimed untimed = model_untimed(model);

	if (!untimed.all)
		return;
	fprintf(out, "Not timed: %" PRIu64 " of %" PRIu64 " launches, copies and sets\n", untimed.all,
		sum_saturated(untimed.all, untimed.timed));
	for (unsigned i = 0; i < UNTIMED_COUNT; i++)
		if (untimed.by_reason[i])
			fprintf(out, "    %" PRIu64 ": %s\n", untimed.by_reason[i], reasons[i]);
}

static void put_timing(FILE *out, const struct model *model)
{
	uint64_t most_ns = histogram_at(&model->gpu_errors, 990) / 32 * 33; /* not below its bucket */
	uint32_t error_ns = 0;

	if (!model->gpu_timing) {
		fprintf(out, "Timing: calls on the CPU (no times from the GPU were recorded)\n");
		return;
	}
	for (size_t i = 0; i < model->process_count; i++)
		if (model->processes[i]->gpu_error_ns > error_ns)
			error_ns = model->processes[i]->gpu_error_ns;
	fprintf(out, "Timing: on the GPU, by event pairs; placed within %s", format_ns(error_ns));
	if (most_ns < error_ns / 2)
		fprintf(out, ", 99 %% within %s", format_ns(most_ns));
	fputc('\n', out);
}

void view_put_header(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	size_t processes = shown_processes(model);

	fprintf(out, "%s to %s, %s\n", format_moment(model->first_ns), format_moment(model->last_ns),
		format_ns(model->last_ns - model->first_ns));
	if (model->from_ns != model->first_ns || model->to_ns <= model->last_ns)
		fprintf(out, "Shown: from %s to %s\n", format_ns(model->from_ns - model->first_ns),
			format_ns(model->to_ns - model->first_ns));
	fprintf(out, "%zu %s, %zu %s, %zu %s, %" PRIu64 " events", model->host_count,
		plural(model->host_count, "host", "hosts"), processes,
		plural(processes, "process", "processes"), model->gpu_count,
		plural(model->gpu_count, "GPU", "GPUs"), facts->events);
	if (facts->foreign)
		fprintf(out, " (and %" PRIu64 " of other providers, ignored)", facts->foreign);
	fputc('\n', out);
	put_timing(out, model);
	put_untimed(out, model);
}

/* ---- processes ---- */

const char *view_end_text(const struct model_process *process)
{
	static char text[32];

	if (!process->ended)
		return "not recorded";
	switch (process->how) {
	case END_RUNNING:
		return "running";
	case END_EXIT:
		snprintf(text, sizeof(text), "exit %" PRId32, process->status);
		return text;
	case END_SIGNAL:
		snprintf(text, sizeof(text), "signal %" PRId32,
			process->status > 128 ? process->status - 128 : process->status);
		return text;
	case END_EXEC:
		return "exec";
	default:
		return "unknown";
	}
}

void view_device_list(const struct model_process *process, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	/* The last number stands for none: host memory, calls outside any context. */
	for (unsigned i = 0; i < process->device_count && i < UINT8_MAX && used < bytes; i++)
		if (process->devices[i].used)
			used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? "," : "", i);
	if (!used)
		snprintf(text, bytes, "-");
}

static bool several_namespaces(const struct model *model)
{
	for (size_t i = 1; i < model->process_count; i++)
		if (model->processes[i]->pid_ns != model->processes[0]->pid_ns)
			return true;
	return false;
}

static void who_cells(struct table *table, const struct model *model, size_t i)
{
	const struct model_process *process = model->processes[i];

	table_cell(table, format_count(i + 1));
	table_cell(table, process->defined ? format_count(process->pid) : "?");
	if (model->host_count > 1)
		table_cell(table, process->host);
	if (several_namespaces(model))
		table_cell(table, process->defined ? format_count(process->pid_ns) : "?");
}

static void who_columns(struct table *table, const struct model *model)
{
	table_column(table, "#");
	table_column(table, "PID");
	if (model->host_count > 1)
		table_column(table, "<HOST");
	if (several_namespaces(model))
		table_column(table, "PID NS");
}

static uint64_t since(const struct model *model, uint64_t time_ns)
{
	return time_ns > model->first_ns ? time_ns - model->first_ns : 0;
}

/* Of a process that was not recorded nothing is known. */
static void put_known(struct table *table, const struct model_process *process, const char *text)
{
	table_cell(table, process->unrecorded ? "?" : text);
}

static void put_times(FILE *out, const struct model *model)
{
	static const char *const headings[] = { "<USER", "<COMMAND", "GPU", "START", "END", "<HOW",
		"WALL", "BUSY", "API", "SYNC" };
	struct table table = { 0 };

	who_columns(&table, model);
	for (size_t i = 0; i < sizeof(headings) / sizeof(*headings); i++)
		table_column(&table, headings[i]);
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		const struct spans *busy = model->gpu_timing ? &process->gpu : &process->api;
		char devices[32];

		if (process->hidden)
			continue;
		view_device_list(process, devices, sizeof(devices));
		who_cells(&table, model, i);
		table_cell(&table, process->user ? process->user
			: process->defined ? format_count(process->uid) : "?");
		table_cell(&table, process->defined ? process->command : "(not defined)");
		table_cell(&table, devices);
		put_known(&table, process, format_ns(since(model, process->first_ns)));
		put_known(&table, process, format_ns(since(model, process->last_ns)));
		table_cell(&table, view_end_text(process));
		put_known(&table, process, format_ns(process->last_ns - process->first_ns));
		put_known(&table, process, format_ns(busy->busy_ns));
		put_known(&table, process, format_ns(process->api_ns));
		put_known(&table, process, format_ns(process->sync_ns));
	}
	fprintf(out, "\nProcesses\n");
	table_print(&table, out, 2);
}

static const char *limit_text(uint64_t limit_bytes)
{
	return limit_bytes == UINT64_MAX ? "none" : limit_bytes ? format_bytes(limit_bytes) : "?";
}

static const char *leak_text(const struct model_process *process)
{
	static char text[64];
	const struct model_leaks *leaks = &process->leaks[VERDICT_LEAK];

	if (!process->leaks_known)
		return "?";
	if (!leaks->count)
		return "0";
	snprintf(text, sizeof(text), "%" PRIu64 " (%s)", leaks->count, format_bytes(leaks->bytes));
	return text;
}

static uint64_t other_copies(const struct model_work *work)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < DIRECTION_COUNT; i++)
		if (i != DIRECTION_HTOD && i != DIRECTION_DTOH && i != DIRECTION_DTOD)
			bytes = sum_saturated(bytes, work->copies[i].bytes);
	return bytes;
}

static void put_work(FILE *out, const struct model *model)
{
	static const char *const headings[] = { "LAUNCHES", "HTOD", "DTOH", "DTOD", "OTHER", "ERRORS",
		"PEAK", "LIMIT", "REFUSED", "LEAKS" };
	struct table table = { 0 };

	who_columns(&table, model);
	for (size_t i = 0; i < sizeof(headings) / sizeof(*headings); i++)
		table_column(&table, headings[i]);
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		struct model_memory memory = model_memory(process);

		if (process->hidden)
			continue;
		who_cells(&table, model, i);
		put_known(&table, process, format_count(process->work.launches));
		put_known(&table, process, format_bytes(process->work.copies[DIRECTION_HTOD].bytes));
		put_known(&table, process, format_bytes(process->work.copies[DIRECTION_DTOH].bytes));
		put_known(&table, process, format_bytes(process->work.copies[DIRECTION_DTOD].bytes));
		put_known(&table, process, format_bytes(other_copies(&process->work)));
		put_known(&table, process, format_count(process->errors));
		put_known(&table, process, format_bytes(memory.peak_bytes));
		put_known(&table, process, limit_text(memory.limit_bytes));
		put_known(&table, process, format_count(memory.denied));
		table_cell(&table, leak_text(process));
	}
	fprintf(out, "\nWork and memory\n");
	table_print(&table, out, 2);
}

/* ---- GPUs and kernels ---- */

static void put_gpus(FILE *out, const struct model *model)
{
	static const char *const headings[] = { "<UUID", "<NAME", "TOTAL", "PROCESSES", "BUSY", "PEAK",
		"REFUSED" };
	uint64_t span_ns = model->to_ns - model->from_ns;
	struct table table = { 0 };

	if (!model->gpu_count)
		return;
	if (model->host_count > 1)
		table_column(&table, "<HOST");
	for (size_t i = 0; i < sizeof(headings) / sizeof(*headings); i++)
		table_column(&table, headings[i]);
	for (size_t i = 0; i < model->gpu_count; i++) {
		const struct model_gpu *gpu = &model->gpus[i];
		const struct spans *busy = model->gpu_timing ? &gpu->gpu : &gpu->api;

		if (model->host_count > 1)
			table_cell(&table, gpu->host);
		table_cell(&table, gpu->uuid);
		table_cell(&table, gpu->name);
		table_cell(&table, gpu->total_bytes ? format_bytes(gpu->total_bytes) : "?");
		table_cell(&table, format_count(gpu->processes));
		table_cell(&table, format_percent(busy->busy_ns, span_ns));
		table_cell(&table, format_bytes(gpu->memory.peak));
		table_cell(&table, format_count(gpu->denied));
	}
	fprintf(out, "\nGPUs\n");
	table_print(&table, out, 2);
}

static void put_kernels(FILE *out, const struct model *model, const struct view_style *style)
{
	size_t count, shown;
	struct model_function *kernels = model_kernels(model, &count);
	struct table table = { 0 };

	shown = style->all || count < KERNELS_SHOWN ? count : KERNELS_SHOWN;
	table_column(&table, "LAUNCHES");
	table_column(&table, "API");
	table_column(&table, "GPU");
	table_column(&table, "GPU AVG");
	table_column(&table, "GPU MAX");
	table_column(&table, "<KERNEL");
	for (size_t i = 0; i < shown; i++) {
		const struct model_function *kernel = &kernels[i];

		table_cell(&table, format_count(kernel->launches));
		table_cell(&table, format_ns(kernel->api_ns));
		table_cell(&table, kernel->timed ? format_ns(kernel->gpu_ns) : "?");
		table_cell(&table, kernel->timed ? format_ns(kernel->gpu_ns / kernel->timed) : "?");
		table_cell(&table, kernel->timed ? format_ns(kernel->gpu_longest_ns) : "?");
		table_cell(&table, kernel->shown ? kernel->shown : *kernel->name ? kernel->name : "(not named)");
	}
	if (shown) {
		fprintf(out, "\nKernels\n");
		table_print(&table, out, 2);
	}
	if (shown < count)
		fprintf(out, "  and %zu more; --all shows them\n", count - shown);
	model_kernels_free(kernels, count);
}

void view_terminal(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style)
{
	view_put_header(out, model, facts);
	view_put_doubts(out, model, facts, style);
	put_times(out, model);
	put_work(out, model);
	put_gpus(out, model);
	view_lanes(out, model, style);
	put_kernels(out, model, style);
}
