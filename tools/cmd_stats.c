/*
 * cmd_stats.c - `cuward stats`: tables of what the processes of a trace did.
 */
#include <argp.h>
#include <locale.h>
#include <stdlib.h>

#include "cuward.h"
#include "traces.h"
#include "view_output.h"

enum { OPTION_JSON = 256, OPTION_CSV, OPTION_ALL };

struct stats {
	struct traces traces;
	enum view_format format;
	bool all;
};

static const struct argp_option options[] = {
	{ "json", OPTION_JSON, 0, 0, "Print JSON", 0 },
	{ "csv", OPTION_CSV, 0, 0, "Print CSV, the name of the table in each line", 0 },
	{ "all", OPTION_ALL, 0, 0, "Every kernel, call and call site, not only the first 20", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct stats *stats = state->input;

	(void)argument;
	switch (key) {
	case OPTION_JSON:
		view_choose_format(state, &stats->format, VIEW_JSON);
		return 0;
	case OPTION_CSV:
		view_choose_format(state, &stats->format, VIEW_CSV);
		return 0;
	case OPTION_ALL:
		stats->all = true;
		return 0;
	default:
		return view_parse_traces(state, key, &stats->traces);
	}
}

static int print(const struct stats *stats, const struct model *model,
	const struct trace_facts *facts)
{
	struct view_style style = view_style_of_output(stats->all);

	if (stats->format == VIEW_JSON)
		view_stats_json(stdout, model, facts);
	else if (stats->format == VIEW_CSV)
		view_stats_csv(stdout, model, facts);
	else
		view_stats(stdout, model, facts, &style);
	return view_end_output(model, facts);
}

int cmd_stats(int argc, char **argv)
{
	static const struct argp parser = {
		.options = options,
		.parser = parse_option,
		.args_doc = "TRACE...",
		.doc = "Tables of a trace: processes, devices, kernels, calls, copies, memory, findings.\v"
			"TRACE and the exit status are those of `cuward timeline`.",
	};
	struct stats stats = { .traces.range.to = { UINT64_MAX, true } };
	struct trace_facts facts = { 0 };
	struct model *model;
	int status;

	setlocale(LC_ALL, "");
	argp_parse(&parser, argc, argv, 0, NULL, &stats);
	model = traces_read(&stats.traces, &facts, &status);
	if (model) {
		status = print(&stats, model, &facts);
		model_close(model);
	}
	trace_facts_free(&facts);
	return status;
}
