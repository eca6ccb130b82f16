/*
 * cmd_timeline.c - `cuward timeline`: what the processes of a trace did on the GPUs, over time.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "traces.h"
#include "view_output.h"
#include "view_perfetto.h"

enum {
	OPTION_JSON = 256,
	OPTION_CSV,
	OPTION_HTML,
	OPTION_PERFETTO,
	OPTION_FROM,
	OPTION_TO,
	OPTION_ALL,
};

struct timeline {
	struct traces traces;
	enum view_format format;
	bool all;
	const char *html, *perfetto; /* files to be written */
};

/* ---- the line ---- */

static const struct argp_option options[] = {
	{ "json", OPTION_JSON, 0, 0, "Print JSON", 0 },
	{ "csv", OPTION_CSV, 0, 0, "Print the table of processes as CSV", 0 },
	{ "html", OPTION_HTML, "FILE", 0, "Write one HTML page (- is standard output)", 0 },
	{ "perfetto", OPTION_PERFETTO, "FILE", 0, "Write a trace for ui.perfetto.dev (the same)", 0 },
	{ "from", OPTION_FROM, "T", 0, "Leave out what was before T: 1.5s, 20ms, 3m after the first "
		"event, or a UTC time like 2025-01-31T12:00:00Z", 0 },
	{ "to", OPTION_TO, "T", 0, "Leave out what was after T", 0 },
	{ "pid", 'p', "PID", 0, "Only processes with this pid, as they see it themselves", 0 },
	{ "all", OPTION_ALL, 0, 0, "Every stream and kernel, not only the busiest", 0 },
	{ 0 },
};

/* "1.5s": digits, a point, at most nine digits, a unit; plain numbers are seconds. */
static bool parse_duration(const char *text, uint64_t *ns)
{
	static const struct { const char *name; uint64_t ns; } units[] = {
		{ "", 1000000000 }, { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 },
		{ "m", 60000000000 }, { "h", 3600000000000 },
	};
	unsigned __int128 value = 0, scale = 1;
	const char *at = text;

	for (; isdigit((unsigned char)*at) && at - text < 20; at++)
		value = value * 10 + (unsigned)(*at - '0');
	if (at == text)
		return false;
	if (*at == '.' && isdigit((unsigned char)at[1]))
		for (at++; isdigit((unsigned char)*at) && scale < 1000000000; at++, scale *= 10)
			value = value * 10 + (unsigned)(*at - '0');
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(at, units[i].name) != 0)
			continue;
		value = value * units[i].ns / scale;
		*ns = (uint64_t)value;
		return value <= INT64_MAX;
	}
	return false;
}

static bool parse_date(const char *text, uint64_t *ns)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	uint64_t fraction = 0;
	time_t seconds;
	char padded[32];

	if (!rest)
		return false;
	if (*rest == '.') {
		size_t digits = strspn(rest + 1, "0123456789");

		if (digits < 1 || digits > 9)
			return false;
		snprintf(padded, sizeof(padded), "%.*s%.*s", (int)digits, rest + 1, (int)(9 - digits),
			"000000000");
		fraction = strtoull(padded, NULL, 10);
		rest += 1 + digits;
	}
	seconds = timegm(&tm);
	*ns = (uint64_t)seconds * 1000000000 + fraction;
	return strcmp(rest, "Z") == 0 && seconds >= 0 && seconds < INT64_MAX / 1000000000;
}

static void parse_moment(struct argp_state *state, const char *option, const char *text,
	struct model_moment *moment)
{
	moment->absolute = parse_date(text, &moment->ns);
	if (!moment->absolute && !parse_duration(text, &moment->ns))
		argp_error(state, "%s: '%s' is no time; say 1.5s, 20ms, 3m, or 2025-01-31T12:00:00Z",
			option, text);
}

static void parse_pid(struct argp_state *state, const char *text, struct timeline *timeline)
{
	char *end;
	unsigned long pid;

	errno = 0;
	pid = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || pid > UINT32_MAX)
		argp_error(state, "--pid: '%s' is no pid", text);
	timeline->traces.pid = (uint32_t)pid;
	timeline->traces.has_pid = true;
}

static bool is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct timeline *timeline = state->input;

	switch (key) {
	case OPTION_JSON:
		view_choose_format(state, &timeline->format, VIEW_JSON);
		return 0;
	case OPTION_CSV:
		view_choose_format(state, &timeline->format, VIEW_CSV);
		return 0;
	case OPTION_HTML:
		timeline->html = argument;
		return 0;
	case OPTION_PERFETTO:
		timeline->perfetto = argument;
		return 0;
	case OPTION_FROM:
		parse_moment(state, "--from", argument, &timeline->traces.range.from);
		return 0;
	case OPTION_TO:
		parse_moment(state, "--to", argument, &timeline->traces.range.to);
		return 0;
	case 'p':
		parse_pid(state, argument, timeline);
		return 0;
	case OPTION_ALL:
		timeline->all = true;
		return 0;
	case ARGP_KEY_END:
		if (is_stdout(timeline->html) + is_stdout(timeline->perfetto) +
			(timeline->format != VIEW_TERMINAL) > 1)
			argp_error(state, "only one of --json, --csv, --html - and --perfetto - can go to "
				"standard output");
		return 0;
	default:
		return view_parse_traces(state, key, &timeline->traces);
	}
}

/* ---- the work ---- */

static int print(const struct timeline *timeline, const struct model *model,
	const struct trace_facts *facts)
{
	struct view_style style = view_style_of_output(timeline->all);

	if (timeline->format == VIEW_JSON)
		view_json(stdout, model, facts);
	else if (timeline->format == VIEW_CSV)
		view_csv(stdout, model);
	else if (timeline->html || timeline->perfetto)
		view_put_doubts(stderr, model, facts, &style);
	else
		view_terminal(stdout, model, facts, &style);
	return view_end_output(model, facts);
}

/* ---- files ---- */

/* A file appears under its name once it is whole. */
struct output_file {
	const char *path;
	char *temporary;
	FILE *file; /* NULL: not asked for */
};

static bool open_output(struct output_file *output, const char *path)
{
	output->path = path;
	if (!path)
		return true;
	if (is_stdout(path)) {
		output->file = stdout;
		return true;
	}
	if (asprintf(&output->temporary, "%s.new", path) < 0)
		output->temporary = NULL;
	else
		output->file = fopen(output->temporary, "we");
	if (!output->file)
		fprintf(stderr, "cuward: cannot write %s: %s\n", path, strerror(errno));
	return output->file;
}

static bool close_output(struct output_file *output, bool keep)
{
	bool fine = true;

	if (output->file == stdout) {
		fine = fflush(stdout) == 0 && !ferror(stdout);
		if (keep && !fine)
			fprintf(stderr, "cuward: cannot write the output: %s\n", strerror(errno));
	} else if (output->file) {
		fine = !ferror(output->file);
		fine &= fclose(output->file) == 0;
		if (keep && fine)
			fine = rename(output->temporary, output->path) == 0;
		if (keep && !fine)
			fprintf(stderr, "cuward: cannot write %s: %s\n", output->path, strerror(errno));
		if (!keep || !fine)
			unlink(output->temporary);
	}
	free(output->temporary);
	return fine;
}

static int tell(struct timeline *timeline)
{
	struct trace_facts facts = { 0 };
	struct output_file html = { 0 }, perfetto_file = { 0 };
	struct perfetto *perfetto = NULL;
	struct model *model = NULL;
	int status = EXIT_FOUND;
	bool closed;

	if (open_output(&html, timeline->html) && open_output(&perfetto_file, timeline->perfetto)) {
		if (perfetto_file.file) {
			perfetto = perfetto_open(perfetto_file.file,
				timeline->traces.has_pid ? &timeline->traces.pid : NULL);
			timeline->traces.observer = perfetto_observer(perfetto);
		}
		model = traces_read(&timeline->traces, &facts, &status);
	}
	if (model && perfetto)
		perfetto_finish(perfetto, model);
	if (model && html.file)
		view_html(html.file, model, &facts);
	/* Both are closed, whatever becomes of the first. */
	closed = close_output(&html, model);
	closed = close_output(&perfetto_file, model) && closed;
	if (model && !closed) {
		status = EXIT_FOUND;
	} else if (model) {
		status = print(timeline, model, &facts);
	}
	if (perfetto)
		perfetto_close(perfetto);
	if (model)
		model_close(model);
	trace_facts_free(&facts);
	return status;
}

int cmd_timeline(int argc, char **argv)
{
	static const struct argp parser = {
		.options = options,
		.parser = parse_option,
		.args_doc = "TRACE...",
		.doc = "What the processes of a trace did on the GPUs, over time.\v"
			"TRACE is the folder of an LTTng trace, or one that holds several; or a file of "
			"events as text. Exit status: 0 fine, 1 events are lost, the trace is damaged or "
			"holds none, 2 not a trace, 3 an empty folder, 4 no permission, 5 only events of "
			"other programs.",
	};
	struct timeline timeline = { .traces.range.to = { UINT64_MAX, true } };

	setlocale(LC_ALL, "");
	argp_parse(&parser, argc, argv, 0, NULL, &timeline);
	return tell(&timeline);
}
