/*
 * traces.c - reads TRACE arguments into a model: one thread reads, this one models; on a terminal
 * it says how far it is.
 */
#include "traces.h"

#include <errno.h>
#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include "ahead.h"
#include "format.h"
#include "inputs.h"
#include "need.h"
#include "reports.h"
#include "symbols.h"

/* ---- how far it is ---- */

struct progress {
	bool shown, drawn;
	uint64_t began_ns, drawn_ns;
	uint64_t events;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct progress progress_begin(void)
{
	const char *term = getenv("TERM");
	bool shown = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);

	return (struct progress){ .shown = shown, .began_ns = now_ns(), .drawn_ns = now_ns() };
}

static void progress_draw(struct progress *progress, const struct ahead_batch *batch)
{
	uint64_t now = now_ns(), passed_ns = now - progress->began_ns, left_ns;

	if (now - progress->drawn_ns < 250000000 || !batch->all_bytes || !batch->read_bytes)
		return;
	progress->drawn_ns = now;
	progress->drawn = true;
	left_ns = batch->read_bytes < batch->all_bytes ? (uint64_t)((unsigned __int128)passed_ns *
		(batch->all_bytes - batch->read_bytes) / batch->read_bytes) : 0;
	fprintf(stderr, "\r%s, %.1f million events, %.1f million/s, %s left\033[K",
		format_percent(batch->read_bytes, batch->all_bytes), (double)progress->events / 1e6,
		(double)progress->events * 1e3 / (double)passed_ns, format_ns(left_ns));
}

static void progress_end(const struct progress *progress)
{
	if (progress->drawn)
		fputs("\r\033[K", stderr);
}

/* ---- reading ---- */

static void feed_all(struct event_source *source, struct model *model)
{
	struct progress progress = progress_begin();
	struct ahead *ahead = ahead_open(source);
	const struct ahead_batch *batch;

	while ((batch = ahead_next(ahead))->count) {
		for (size_t i = 0; i < batch->count; i++)
			model_feed(model, &batch->events[i]);
		progress.events += batch->count;
		if (progress.shown)
			progress_draw(&progress, batch);
	}
	progress_end(&progress);
	ahead_close(ahead);
}

/* Returns 0, or the exit status of a trace without events. */
static int read_into(const struct traces *traces, struct model *model, struct trace_facts *facts)
{
	struct event_range range = { traces->range.from.ns, traces->range.to.ns,
		traces->range.from.absolute, traces->range.to.absolute };
	struct event_source *source;
	int status;

	source = inputs_open(traces->paths, traces->count, &range, &inputs_standard_error, &status);
	if (!source)
		return status;
	feed_all(source, model);
	status = inputs_verdict(source, traces->paths[0]);
	trace_facts_add(facts, &source->facts);
	source->close(source);
	return status;
}

/* Names of users, where the trace comes from this very host. */
static void name_users(struct model *model)
{
	char here[256] = "";

	gethostname(here, sizeof(here) - 1);
	for (size_t i = 0; i < model->process_count; i++) {
		struct model_process *process = model->processes[i];
		const struct passwd *user;

		if (!process->defined || strcmp(process->host, here) != 0)
			continue;
		user = getpwuid(process->uid);
		if (user)
			process->user = need_copy(user->pw_name);
	}
}

/* A kernel of C++ as its programmer wrote it. */
static void name_kernels(struct model *model)
{
	for (size_t i = 0; i < model->process_count; i++) {
		struct model_process *process = model->processes[i];

		for (size_t k = 0; k < process->function_count; k++)
			if (strncmp(process->functions[k].name, "_Z", 2) == 0)
				process->functions[k].shown = symbols_demangled(process->functions[k].name);
	}
}

struct model *traces_read(const struct traces *traces, struct trace_facts *facts, int *status)
{
	struct model *model = model_open(&traces->range);

	model->observer = traces->observer;
	*status = read_into(traces, model, facts);
	if (*status == 0) {
		model_finish(model);
		for (unsigned i = 0; i < traces->count; i++)
			reports_beside(traces->paths[i], model);
		name_users(model);
		name_kernels(model);
	}
	if (*status == 0 && traces->has_pid && model_only_pid(model, traces->pid) == 0) {
		fprintf(stderr, "cuward: no process in the trace has the pid %u\n", traces->pid);
		*status = EXIT_FOUND;
	}
	if (*status == 0)
		return model;
	model_close(model);
	return NULL;
}
