/*
 * cmd_stats.c - `cuward stats`: tables of what the processes of a trace did.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "traces.h"
#include "view.h"

enum { OPTION_JSON = 256, OPTION_CSV, OPTION_ALL };

enum output { OUTPUT_TERMINAL, OUTPUT_JSON, OUTPUT_CSV };

struct stats {
	struct traces traces;
	enum output output;
	bool all;
};

static const struct argp_option options[] = {
	{ "json", OPTION_JSON, 0, 0, "Print JSON", 0 },
	{ "csv", OPTION_CSV, 0, 0, "Print CSV, the name of the table in each line", 0 },
	{ "all", OPTION_ALL, 0, 0, "Every kernel, call and call site, not only the first 20", 0 },
	{ 0 },
};

static void choose_output(struct argp_state *state, struct stats *stats, enum output output)
{
	if (stats->output != OUTPUT_TERMINAL && stats->output != output)
		argp_error(state, "--json and --csv exclude each other");
	stats->output = output;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct stats *stats = state->input;

	(void)argument;
	switch (key) {
	case OPTION_JSON:
		choose_output(state, stats, OUTPUT_JSON);
		return 0;
	case OPTION_CSV:
		choose_output(state, stats, OUTPUT_CSV);
		return 0;
	case OPTION_ALL:
		stats->all = true;
		return 0;
	case ARGP_KEY_ARGS:
		stats->traces.paths = state->argv + state->next;
		stats->traces.count = (unsigned)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which trace? Name its folder");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print(const struct stats *stats, const struct model *model,
	const struct trace_facts *facts)
{
	const char *no_color = getenv("NO_COLOR");
	struct view_style style = { .columns = 100, .unicode = locale_is_utf8(), .all = stats->all,
		.color = isatty(STDOUT_FILENO) && !(no_color && *no_color) };
	struct view_doubts doubts = view_doubts(model, facts);

	if (stats->output == OUTPUT_JSON)
		view_stats_json(stdout, model, facts);
	else if (stats->output == OUTPUT_CSV)
		view_stats_csv(stdout, model, facts);
	else
		view_stats(stdout, model, facts, &style);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "cuward: cannot write the output: %s\n", strerror(errno));
		return EXIT_FOUND;
	}
	return view_is_doubtful(&doubts) ? EXIT_FOUND : EXIT_FINE;
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
