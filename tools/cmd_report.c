/*
 * cmd_report.c - `cuward report`: who used how much, from the history or from reports.
 */
#include <argp.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "cuward.h"
#include "format.h"
#include "history.h"
#include "need.h"
#include "policy.h"
#include "table.h"

#define HOUR_NS 3600000000000ull
#define DAY_NS (24 * HOUR_NS)
/* Of a process that says it ran for longer, the last year counts by hour. */
#define HOURS_MAX (366u * 24)

enum by { BY_USER, BY_HOUR, BY_COMMAND, BY_JOB };

struct order {
	enum by by;
	uint64_t since_ns; /* so long ago, 0 ever */
	bool json;
	char **paths;
	unsigned count;
};

struct group {
	UT_hash_handle hh;
	char *key;
	uint64_t processes, failed;
	uint64_t time_ns;
	uint64_t peak_bytes;   /* of one process on one GPU, at most */
	double byte_seconds;   /* peaks on all GPUs, each as long as its process lived */
	uint64_t denied, leaked_bytes;
};

static uint64_t duration(const struct argp_state *state, const char *text)
{
	uint64_t ns = 0;
	char *end;
	double days = strtod(text, &end);

	/* History is longer than what other commands wait for. */
	if (*text >= '0' && *text <= '9' && strcmp(end, "d") == 0 && days > 0 && days < 36500)
		return (uint64_t)(days * (double)DAY_NS);
	if (!policy_duration(text, &ns) || ns == 0)
		argp_error(state, "--since: '%s' is no time, as in 90s, 10m, 2h, 7d", text);
	return ns;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	static const char *const words[] = { "user", "hour", "command", "job" };
	struct order *order = state->input;

	switch (key) {
	case 'b':
		for (enum by by = BY_USER; by <= BY_JOB; by++)
			if (strcmp(argument, words[by]) == 0) {
				order->by = by;
				return 0;
			}
		argp_error(state, "--by %s: it is user, hour, command or job", argument);
		return 0;
	case 's': order->since_ns = duration(state, argument); return 0;
	case 'j': order->json = true; return 0;
	case ARGP_KEY_ARGS:
		order->paths = state->argv + state->next;
		order->count = (unsigned)(state->argc - state->next);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- groups ---- */

static struct group *group_of(struct group **groups, const char *key)
{
	struct group *group;

	HASH_FIND_STR(*groups, key, group);
	if (group)
		return group;
	group = need_zeroed(1, sizeof(*group));
	group->key = need_copy(key);
	HASH_ADD_KEYPTR(hh, *groups, group->key, strlen(group->key), group);
	return group;
}

static uint64_t peak_of(const struct history_entry *entry, uint64_t *sum)
{
	uint64_t most = 0;

	*sum = 0;
	for (unsigned i = 0; i < entry->device_count; i++) {
		*sum += entry->devices[i].peak_bytes;
		if (entry->devices[i].peak_bytes > most)
			most = entry->devices[i].peak_bytes;
	}
	return most;
}

/* Its time from `from` to `to`; what happened at no known time belongs to its end. */
static void add_time(struct group *group, const struct history_entry *entry, uint64_t from, uint64_t to)
{
	uint64_t sum, peak = peak_of(entry, &sum);

	group->processes++;
	group->time_ns += to - from;
	group->byte_seconds += (double)sum * (double)(to - from) / 1e9;
	if (peak > group->peak_bytes)
		group->peak_bytes = peak;
}

static void add_end(struct group *group, const struct history_entry *entry)
{
	for (unsigned i = 0; i < entry->device_count; i++)
		group->denied += entry->devices[i].denied;
	group->leaked_bytes += entry->leaked_bytes;
	group->failed += entry->status != 0 || strcmp(entry->ended, "signal") == 0;
}

static void add_by_hour(struct group **groups, const struct history_entry *entry, uint64_t from,
	uint64_t to)
{
	struct group *group = NULL;
	uint64_t hour = from - from % HOUR_NS;

	if (to - hour > HOURS_MAX * HOUR_NS)
		hour = to - to % HOUR_NS - HOURS_MAX * HOUR_NS;
	for (; hour < to || !group; hour += HOUR_NS) {
		time_t seconds = (time_t)(hour / 1000000000);
		char key[32] = "";
		struct tm tm;

		if (gmtime_r(&seconds, &tm))
			strftime(key, sizeof(key), "%Y-%m-%dT%H:00Z", &tm);
		group = group_of(groups, key);
		add_time(group, entry, from > hour ? from : hour, to < hour + HOUR_NS ? to : hour + HOUR_NS);
	}
	if (group)
		add_end(group, entry);
}

static void add_entry(struct group **groups, const struct order *order,
	const struct history_entry *entry, uint64_t since_ns)
{
	const char *const keys[] = { [BY_USER] = entry->user, [BY_COMMAND] = entry->command,
		[BY_JOB] = entry->job[0] ? entry->job : "none" };
	uint64_t from = entry->start_ns, to = entry->end_ns;
	struct group *group;

	/* One that was running still when its report was written has no end that is known. */
	if (!from || to < from || to < since_ns)
		return;
	from = from < since_ns ? since_ns : from;
	if (order->by == BY_HOUR) {
		add_by_hour(groups, entry, from, to);
		return;
	}
	group = group_of(groups, keys[order->by]);
	add_time(group, entry, from, to);
	add_end(group, entry);
}

static int by_use(struct group *a, struct group *b)
{
	if (a->byte_seconds != b->byte_seconds)
		return a->byte_seconds > b->byte_seconds ? -1 : 1;
	return strcmp(a->key, b->key);
}

static int by_key(struct group *a, struct group *b)
{
	return strcmp(a->key, b->key);
}

/* ---- the answer ---- */

static void print_table(const struct group *groups, enum by by)
{
	static const char *const first[] = { "<USER", "<HOUR", "<COMMAND", "<JOB" };
	static const char *const headings[] = { "PROCESSES", "TIME", "PEAK", "PEAK x TIME", "REFUSALS",
		"LEAKED", "FAILED" };
	struct table table = { 0 };

	table_column(&table, first[by]);
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(&table, headings[i]);
	for (const struct group *group = groups; group; group = group->hh.next) {
		char use[40];

		snprintf(use, sizeof(use), "%.2f GiB h", group->byte_seconds / 3600 / (1ull << 30));
		table_cell(&table, group->key);
		table_cell(&table, format_count(group->processes));
		/* Reports tell moments in milliseconds. */
		table_cell(&table, group->time_ns || !group->processes ? format_ns(group->time_ns) : "< 1 ms");
		table_cell(&table, format_bytes(group->peak_bytes));
		table_cell(&table, use);
		table_cell(&table, format_count(group->denied));
		table_cell(&table, format_bytes(group->leaked_bytes));
		table_cell(&table, format_count(group->failed));
	}
	table_print(&table, stdout, 0);
}

static json_t *json_number_of(uint64_t number)
{
	return number > INT64_MAX ? json_null() : json_integer((json_int_t)number);
}

static void print_json(const struct group *groups, const struct history *history, enum by by)
{
	static const char *const words[] = { "user", "hour", "command", "job" };
	json_t *rows = json_array(), *document;

	for (const struct group *group = groups; group; group = group->hh.next) {
		char *key = safe_text(group->key, 0);

		json_array_append_new(rows, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", words[by], key,
			"processes", json_number_of(group->processes), "time_ns", json_number_of(group->time_ns),
			"peak_bytes", json_number_of(group->peak_bytes),
			"peak_byte_seconds", json_number_of((uint64_t)group->byte_seconds),
			"denied", json_number_of(group->denied),
			"leaked_bytes", json_number_of(group->leaked_bytes),
			"failed", json_number_of(group->failed)));
		free(key);
	}
	document = json_pack("{s:i, s:s, s:o, s:i}", "schema", 1, "by", words[by], "rows", rows,
		"unreadable", (int)history->unreadable);
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

/* The usual history where no file is named. False: there is none, and that was said. */
static bool read_all(const struct order *order, struct history *history)
{
	const char *setting = getenv("CUWARD_HISTORY");
	char path[PATH_MAX], old[PATH_MAX + 8];

	for (unsigned i = 0; i < order->count; i++)
		history_add(history, order->paths[i]);
	if (order->count)
		return true;
	if (!history_file(path, setting && *setting && strcmp(setting, "0") != 0 ? setting : "1") ||
		access(path, F_OK) != 0) {
		fprintf(stderr, "cuward: report: there is no history: `cuward run --history`, or "
			"CUWARD_HISTORY=1, keeps one; reports can be named instead\n");
		return false;
	}
	snprintf(old, sizeof(old), "%s.1", path);
	if (access(old, F_OK) == 0)
		history_add(history, old);
	history_add(history, path);
	return true;
}

static int report(const struct order *order, const struct history *history)
{
	int (*compare)(struct group *, struct group *) = order->by == BY_HOUR ? by_key : by_use;
	struct group *groups = NULL, *group, *next;
	struct timespec now;
	uint64_t now_ns, since_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	since_ns = order->since_ns && order->since_ns < now_ns ? now_ns - order->since_ns : 0;
	for (size_t i = 0; i < history->count; i++)
		add_entry(&groups, order, &history->entries[i], since_ns);
	HASH_SORT(groups, compare);
	if (order->json)
		print_json(groups, history, order->by);
	else
		print_table(groups, order->by);
	HASH_ITER(hh, groups, group, next) {
		HASH_DEL(groups, group);
		free(group->key);
		free(group);
	}
	if (!history->unreadable)
		return EXIT_FINE;
	fprintf(stderr, "cuward: report: %u file%s or line%s cannot be read: ", history->unreadable,
		history->unreadable == 1 ? "" : "s", history->unreadable == 1 ? "" : "s");
	put_safe(stderr, history->why, 0);
	fputc('\n', stderr);
	return EXIT_FOUND;
}

int cmd_report(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "by", 'b', "WHAT", 0, "One row a user (default), an hour (UTC), a command or a job", 0 },
		{ "since", 's', "T", 0, "Only what was running within so long: 90s, 10m, 2h, 7d", 0 },
		{ "json", 'j', NULL, 0, "As JSON", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "[REPORT|FOLDER|HISTORY...]",
		.doc = "Who used how much: processes that have ended, from the history that cuward run "
			"--history keeps, or from JSON reports.\v"
			"Exit status: 0, 1 something cannot be read, 2 usage, 3 there is no history." };
	struct order order = { .by = BY_USER };
	struct history history = { 0 };
	int status = EXIT_UNAVAILABLE;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	if (read_all(&order, &history))
		status = report(&order, &history);
	history_free(&history);
	return status;
}
