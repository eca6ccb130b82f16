/*
 * cmd_leaks.c - `cuward leaks`: the leak verdict of a report again, in another form.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuward.h"
#include "leaks.h"

enum {
	OPTION_BASELINE = 256,
	OPTION_SUPPRESSIONS,
	OPTION_JUNIT,
	OPTION_SARIF,
	OPTION_GITHUB,
	OPTION_GEN,
	OPTION_JSON,
};

struct order {
	char **paths;
	unsigned count;
	const char *baseline, *suppressions, *junit, *sarif;
	bool github, generate, json;
};

static const struct argp_option options[] = {
	{ "baseline", OPTION_BASELINE, "FILE", 0,
	  "An earlier report, or output of --json: only what is new or has grown counts", 0 },
	{ "suppressions", OPTION_SUPPRESSIONS, "FILE", 0,
	  "Which leaks do not count, in LeakSanitizer's syntax", 0 },
	{ "junit", OPTION_JUNIT, "FILE", 0, "Also write JUnit XML (- is standard output)", 0 },
	{ "sarif", OPTION_SARIF, "FILE", 0, "Also write SARIF 2.1.0", 0 },
	{ "github", OPTION_GITHUB, 0, 0, "print annotations for GitHub Actions", 0 },
	{ "gen-suppressions", OPTION_GEN, 0, 0, "print suppressions for what counts", 0 },
	{ "json", OPTION_JSON, 0, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case OPTION_BASELINE: order->baseline = argument; break;
	case OPTION_SUPPRESSIONS: order->suppressions = argument; break;
	case OPTION_JUNIT: order->junit = argument; break;
	case OPTION_SARIF: order->sarif = argument; break;
	case OPTION_GITHUB: order->github = true; break;
	case OPTION_GEN: order->generate = true; break;
	case OPTION_JSON: order->json = true; break;
	case ARGP_KEY_ARGS:
		order->paths = state->argv + state->next;
		order->count = (unsigned)(state->argc - state->next);
		break;
	case ARGP_KEY_NO_ARGS: argp_error(state, "which report? Name its file, or a trace's folder");
		break;
	case ARGP_KEY_END:
		if (order->github + order->generate + order->json > 1)
			argp_error(state, "--github, --gen-suppressions and --json exclude each other");
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- the work ---- */

static bool write_file(const char *name, const struct leaks *leaks,
	bool (*write)(FILE *, const struct leaks *))
{
	FILE *out = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
	bool fine = out && write(out, leaks) && fflush(out) == 0 && !ferror(out);

	if (out && out != stdout && fclose(out) != 0)
		fine = false;
	if (!fine)
		fprintf(stderr, "cuward: %s: cannot be written: %s\n", name, strerror(errno));
	return fine;
}

static bool write_junit(FILE *out, const struct leaks *leaks)
{
	leaks_junit(out, leaks);
	return true;
}

static bool apply_suppressions(struct leaks *leaks, const char *file)
{
	static struct suppressions suppressions;
	static bool used[SUPPRESS_RULES_MAX];
	char why[512];

	if (!suppress_read(&suppressions, file, why, sizeof(why))) {
		fprintf(stderr, "cuward: --suppressions: %s\n", why);
		return false;
	}
	leaks_suppress(leaks, &suppressions, used);
	for (unsigned i = 0; i < suppressions.count; i++)
		if (!used[i])
			fprintf(stderr, "cuward: a suppression matched nothing: %s\n",
				suppressions.rules[i].text);
	return true;
}

static bool print(const struct order *order, const struct leaks *leaks)
{
	bool fine = true;

	if (order->github)
		leaks_github(stdout, leaks);
	else if (order->generate)
		leaks_suppressions(stdout, leaks);
	else if (order->json)
		fine = leaks_json(stdout, leaks);
	else if ((!order->junit || strcmp(order->junit, "-") != 0) &&
		(!order->sarif || strcmp(order->sarif, "-") != 0))
		leaks_text(stdout, leaks);
	return fflush(stdout) == 0 && !ferror(stdout) && fine;
}

static int tell(const struct order *order, struct leaks *leaks)
{
	int status = 0;
	bool fine;

	if (!leaks_read(leaks, order->paths, order->count, &status))
		return status;
	if (order->baseline && !leaks_compare(leaks, order->baseline, &status))
		return status;
	if (order->suppressions && !apply_suppressions(leaks, order->suppressions))
		return EXIT_USAGE;
	leaks_judge(leaks);
	fine = print(order, leaks);
	if (order->junit)
		fine = write_file(order->junit, leaks, write_junit) && fine;
	if (order->sarif)
		fine = write_file(order->sarif, leaks, leaks_sarif) && fine;
	if (!fine)
		return EXIT_UNAVAILABLE;
	return leaks->failing > 0 ? EXIT_FOUND : EXIT_FINE;
}

int cmd_leaks(int argc, char **argv)
{
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "REPORT|TRACE...",
		.doc = "The leaks of reports of `cuward run`, in another form, or against an earlier "
			"report.\vExit status: 0 no leak counts, 1 at least one does or the input is damaged, 2 a "
			"mistake on the command line or a file that cannot be read, 3 the output cannot be "
			"written." };
	struct order order = { 0 };
	struct leaks leaks = { 0 };
	int status;

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	status = tell(&order, &leaks);
	leaks_close(&leaks);
	return status;
}
