/*
 * run_settings.c - what is asked for, and by whom: command line, environment or default.
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "limit.h"
#include "policy.h"
#include "report_suppress.h"
#include "run_policy.h"

static const struct {
	const char *variable;
	const char *option;
	const char *standard;
} settings[] = {
#define X(name, variable, option, standard) { variable, option, standard },
	RUN_SETTINGS(X)
#undef X
};

const char *run_setting_variable(enum run_setting setting)
{
	return settings[setting].variable;
}

const char *run_setting_option(enum run_setting setting)
{
	return settings[setting].option;
}

/* A limit of a job that binds here: of a run around us, which does not say how much this one wants? */
static bool is_of_outer(const struct run_value *of_job)
{
	const char *of = getenv("CUWARD_JOB_OF");

	return of && *of && strcmp(of_job->source, "environment") == 0;
}

const struct run_value *run_setting_asks(const struct run *run)
{
	static const enum run_setting order[] = { SETTING_inner_memory, SETTING_job_memory };
	const struct run_value *process = &run->values[SETTING_memory];
	bool each = strcmp(process->text, "none") != 0;

	for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		const struct run_value *of_job = &run->values[order[i]];

		if (strcmp(of_job->text, "none") != 0 && !(each && is_of_outer(of_job)))
			return of_job;
	}
	return process;
}

/* "-m 4Q (command line)" or "CUWARD_MEMORY=4Q (environment)": whose value is to blame. */
static int refuse(const struct run *run, enum run_setting setting, const char *problem)
{
	const struct run_value *value = &run->values[setting];
	bool option = strcmp(value->source, "command line") == 0;

	return run_fail("%s: %s", option ? settings[setting].option : settings[setting].variable,
		problem);
}

/* ---- limits ---- */

static int check_limit(struct run *run, enum run_setting setting)
{
	struct limit limit;
	char why[256];

	if (!limit_parse(&limit, run->values[setting].text, why, sizeof(why)))
		return refuse(run, setting, why);
	return 0;
}

/* Command line and environment both limit: both apply, so the lowest does. */
static int lower_limit(struct run *run, enum run_setting setting)
{
	const char *outer = getenv(settings[setting].variable);
	struct run_value *value = &run->values[setting];
	struct run_value option = *value;
	static char lowest[SETTING_COUNT][4096];

	if (strcmp(option.source, "command line") != 0 || !outer)
		return 0;
	*value = (struct run_value){ outer, "environment" };
	if (check_limit(run, setting) != 0)
		return EXIT_CUWARD;
	*value = option;
	if (!run_limits_lowest(option.text, outer, lowest[setting], sizeof(lowest[setting])))
		return run_fail("%s %s and %s=%s of the environment both apply, but which is lower "
			"depends on the GPU; give both as sizes or both as percentages",
			settings[setting].option, option.text, settings[setting].variable, outer);
	*value = (struct run_value){ lowest[setting], "lowest of command line and environment" };
	return 0;
}

static int check_memory(struct run *run, enum run_setting setting)
{
	return check_limit(run, setting) != 0 || lower_limit(run, setting) != 0 ? EXIT_CUWARD : 0;
}

static bool is_no_lower(const char *text, const char *than)
{
	char lowest[2][4096];

	return run_limits_lowest(than, than, lowest[0], sizeof(lowest[0])) &&
		run_limits_lowest(text, than, lowest[1], sizeof(lowest[1])) &&
		strcmp(lowest[0], lowest[1]) == 0;
}

/*
 * The outer run's limit counts other processes than ours does: it stays, and ours is the inner one.
 * Where ours is no lower, the outer one keeps to it as well.
 */
static int check_job_memory(struct run *run, enum run_setting setting)
{
	const char *outer = getenv(settings[setting].variable);
	const char *inner = getenv(settings[SETTING_inner_memory].variable);
	struct run_value *value = &run->values[setting];

	if (check_limit(run, setting) != 0)
		return EXIT_CUWARD;
	if (!outer || strcmp(outer, "none") == 0 || strcmp(value->source, "command line") != 0)
		return 0;
	if (inner && !is_no_lower(value->text, outer) && !is_no_lower(value->text, inner))
		return run_fail("--job-memory %s inside a run with --job-memory %s inside one with %s: no more "
			"than two limits of jobs can apply; -m limits each process", value->text, inner, outer);
	if (!inner && !is_no_lower(value->text, outer))
		run->values[SETTING_inner_memory] = *value;
	*value = (struct run_value){ outer, "environment" };
	return 0;
}

/* ---- words ---- */

/* Is text one of the words? What else it may be was looked at, and is only told. */
static int check_word(struct run *run, enum run_setting setting, const char *const *known,
	const char *other)
{
	const char *text = run->values[setting].text;
	char problem[256];
	size_t used;

	for (const char *const *word = known; *word; word++)
		if (strcmp(*word, text) == 0)
			return 0;
	used = (size_t)snprintf(problem, sizeof(problem), "'%.64s' is not one of its values:", text);
	for (; *known; known++)
		used += (size_t)snprintf(problem + used, sizeof(problem) - used, " %s%s", *known,
			known[1] || other ? "," : "");
	snprintf(problem + used, sizeof(problem) - used, "%s%s", other ? " " : "", other ? other : "");
	return refuse(run, setting, problem);
}

static int check_on_limit(struct run *run, enum run_setting setting)
{
	static const char *const known[] = { "deny", "wait", "pause", "kill", NULL };
	const char *text = run->values[setting].text;
	uint64_t ns;

	if (strncmp(text, "wait=", 5) == 0 && policy_duration(text + 5, &ns))
		return 0;
	return check_word(run, setting, known, "wait=T (90s, 10m, 2h)");
}

static int check_overhead(struct run *run, enum run_setting setting)
{
	static const char *const known[] = { "show", "charge", NULL };
	struct limit limit;
	char why[256];

	if (limit_parse(&limit, run->values[setting].text, why, sizeof(why)) &&
	    limit.all.unit == LIMIT_BYTES)
		return 0;
	return check_word(run, setting, known, "a size");
}

static int check_gpu_time(struct run *run, enum run_setting setting)
{
	const char *text = run->values[setting].text;

	if (strspn(text, "0123456789") != strlen(text) || strlen(text) > 6 || !*text)
		return refuse(run, setting, "a number N: every Nth is timed");
	if (strcmp(text, "0") != 0 && !run->trace_to &&
		strcmp(run->values[setting].source, "command line") == 0)
		return refuse(run, setting, "what is timed goes into a trace: add --trace");
	return 0;
}

static int check_leak(struct run *run, enum run_setting setting)
{
	static const char *const known[] = { "exit", "growth", "marks", "off", NULL };

	return check_word(run, setting, known, NULL);
}

static int check_suppressions(struct run *run, enum run_setting setting)
{
	static struct suppressions suppressions;
	char why[512];

	if (!suppress_read(&suppressions, run->values[setting].text, why, sizeof(why)))
		return refuse(run, setting, why);
	run->suppressions = &suppressions;
	return 0;
}

static int check_stack(struct run *run, enum run_setting setting)
{
	static const char *const known[] = { "none", "addr", "native", "python", "full", NULL };

	return check_word(run, setting, known, NULL);
}

static int check_log(struct run *run, enum run_setting setting)
{
	static const char *const known[] = { "off", "error", "warn", "info", "debug", NULL };

	run->quiet = strcmp(run->values[setting].text, "off") == 0;
	return check_word(run, setting, known, NULL);
}

/* What the driver would understand: it ignores anything else and all behind it, without a word. */
static bool is_gpu(const char *item, size_t length)
{
	size_t blanks = strspn(item, " \t"), digits;

	item += blanks;
	length -= blanks;
	while (length > 0 && strchr(" \t", item[length - 1]))
		length--;
	digits = strspn(item, "0123456789");

	return (digits > 0 && digits == length) || (length == 2 && strncmp(item, "-1", 2) == 0) ||
		(length > 4 && (strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0));
}

/* Of the environment the driver itself makes what it likes. */
static int check_gpu(struct run *run, enum run_setting setting)
{
	const char *at = run->values[setting].text;

	if (strcmp(run->values[setting].source, "command line") != 0)
		return 0;
	run->gpu_auto = strcmp(at, "auto") == 0;
	while (!run->gpu_auto && *at) {
		size_t length = strcspn(at, ",");
		char problem[128];

		snprintf(problem, sizeof(problem), "'%.*s' is no GPU: auto, alone and in small letters, or "
			"indices and UUIDs with commas", (int)(length < 64 ? length : 64), at);
		if (!is_gpu(at, length) || (at[length] == ',' && !at[length + 1]))
			return refuse(run, setting, problem);
		at += length + (at[length] == ',');
	}
	return 0;
}

static int check_priority(struct run *run, enum run_setting setting)
{
	const char *text = run->values[setting].text;
	char *end;
	long number = strtol(text, &end, 10);

	if (end == text || *end || number < -PRIORITY_MAX || number > PRIORITY_MAX)
		return refuse(run, setting, "a priority is a number from -20 to 20");
	return 0;
}

static int check_report(struct run *run, enum run_setting setting)
{
	char name[PATH_MAX];
	struct report_writer writer = { .pid = 1 };

	if (report_file_name(name, run->values[setting].text, &writer) == 0)
		return 0;
	return refuse(run, setting, "a file name with %p %t %h %u or %% in it, at most 4095 bytes");
}

/* ---- --fail-on ---- */

static int check_fail_size(struct run *run, enum run_setting setting, const char *size)
{
	struct limit limit;
	char why[256];

	if (!limit_parse(&limit, size, why, sizeof(why)))
		return refuse(run, setting, why);
	if (limit.all.unit != LIMIT_BYTES)
		return refuse(run, setting, "leak:SIZE takes a size, as in leak:16M");
	run->fail_leak_bytes = limit.all.bytes;
	return 0;
}

static int check_fail_item(struct run *run, enum run_setting setting, const char *item)
{
	char problem[128];

	for (enum run_watch_for what = 0; what < WATCH_COUNT; what++)
		if (strcmp(item, run_watch_word(what)) == 0) {
			run->watch.orders[what].fail = true;
			return 0;
		}
	if (strcmp(item, "leak") == 0) {
		run->fail_leak_bytes = 1;
		return 0;
	}
	if (strncmp(item, "leak:", 5) == 0)
		return check_fail_size(run, setting, item + 5);
	if (strcmp(item, "denied") == 0) {
		run->fail_denied = true;
		return 0;
	}
	snprintf(problem, sizeof(problem), "'%.64s' is neither leak, leak:SIZE, denied, stall nor idle",
		item);
	return refuse(run, setting, problem);
}

static int check_fail_on(struct run *run, enum run_setting setting)
{
	char list[256], *next = list, *item;

	if (strlen(run->values[setting].text) >= sizeof(list))
		return refuse(run, setting, "the list is too long");
	strcpy(list, run->values[setting].text);
	while ((item = strsep(&next, ",")))
		if (check_fail_item(run, setting, item) != 0)
			return EXIT_CUWARD;
	return 0;
}

/* ---- labels ---- */

static int check_label(struct run *run, enum run_setting setting)
{
	static char labels[sizeof(((struct process_identity *)0)->labels)];
	struct run_value *value = &run->values[setting];
	const char *outer = getenv(settings[setting].variable);
	bool both = strcmp(value->source, "command line") == 0 && outer && *outer;

	if (snprintf(labels, sizeof(labels), "%s%s%s", both ? outer : "", both ? "," : "",
		value->text) >= (int)sizeof(labels))
		return refuse(run, setting, "all labels together are longer than 127 bytes");
	value->text = labels;
	for (const char *label = labels; label; label = strchr(label, ',')) {
		label += *label == ',';
		if (*label == '=' || *label == ',' || *label == 0 || !strchr(label, '=') ||
			strcspn(label, "=") > strcspn(label, ","))
			return refuse(run, setting, "a label is KEY=VALUE, without a comma in it");
	}
	return 0;
}

/* ---- all ---- */

static int (*const checks[SETTING_COUNT])(struct run *run, enum run_setting setting) = {
	[SETTING_memory] = check_memory,
	[SETTING_job_memory] = check_job_memory,
	[SETTING_inner_memory] = check_limit,
	[SETTING_gpu] = check_gpu,
	[SETTING_priority] = check_priority,
	[SETTING_on_limit] = check_on_limit,
	[SETTING_overhead] = check_overhead,
	[SETTING_leak] = check_leak,
	[SETTING_gpu_time] = check_gpu_time,
	[SETTING_suppressions] = check_suppressions,
	[SETTING_stack] = check_stack,
	[SETTING_fail_on] = check_fail_on,
	[SETTING_report] = check_report,
	[SETTING_label] = check_label,
	[SETTING_log] = check_log,
};

/* An empty variable is as good as none, except for limits: there it may be a mistake that opens. */
static bool counts(enum run_setting setting, const char *text)
{
	return text && (*text || setting == SETTING_memory || setting == SETTING_job_memory ||
		setting == SETTING_inner_memory || setting == SETTING_gpu);
}

/* Who asks for leaks wants to know how the program came to them. */
static void choose_stack(struct run *run)
{
	const struct run_value *leak = &run->values[SETTING_leak];

	if (strcmp(run->values[SETTING_stack].source, "default") == 0 &&
		strcmp(leak->source, "default") != 0 && strcmp(leak->text, "off") != 0)
		run->values[SETTING_stack] = (struct run_value){ "full",
			settings[SETTING_leak].option };
}

int run_settings_read(struct run *run)
{
	char why[256];

	run->fail_leak_bytes = BYTES_NONE;
	for (enum run_setting i = 0; i < SETTING_COUNT; i++) {
		struct run_value *value = &run->values[i];
		const char *outer = getenv(settings[i].variable);

		if (!value->text && counts(i, outer))
			*value = (struct run_value){ outer, "environment" };
		else if (!value->text)
			*value = (struct run_value){ settings[i].standard, "default" };
		if (value->text && checks[i](run, i) != 0)
			return EXIT_CUWARD;
	}
	choose_stack(run);
	run_watch_read(run);
	if (!run->history)
		run->history = getenv("CUWARD_HISTORY");
	return run_policy_read(why, sizeof(why)) ? 0 : run_fail("%s", why);
}
