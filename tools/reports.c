/*
 * reports.c - what JSON reports (schema 1) beside a trace know better: the leaks of processes, and who
 * was not recorded.
 */
#include "reports.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>

#include "need.h"

static uint64_t number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static unsigned verdict_of(const char *word)
{
	static const char *const words[] = {
#define X(id, name) name,
		CUWARD_VERDICTS(X)
#undef X
	};
	unsigned i = 0;

	while (i < VERDICT_COUNT && (!word || strcmp(words[i], word) != 0))
		i++;
	return i;
}

static enum cuward_end end_of(const char *word)
{
	static const char *const words[] = {
#define X(id, name) name,
		CUWARD_ENDS(X)
#undef X
	};
	unsigned i = 0;

	while (i < END_COUNT && (!word || strcmp(words[i], word) != 0))
		i++;
	return i < END_COUNT ? i : END_UNKNOWN;
}

/* The trace may know nothing of him: what tells of those who were not recorded can be lost, too. */
static void take_unrecorded(const json_t *process, const char *host, struct model *model)
{
	const json_t *registered = json_object_get(json_object_get(process, "trace"), "registered");
	const char *command = json_string_value(json_object_get(process, "command"));
	const char *job = json_string_value(json_object_get(process, "job"));
	struct event_process who = {
		.pid = (uint32_t)number(process, "pid"), .ppid = (uint32_t)number(process, "ppid"),
		.uid = (uint32_t)number(process, "uid"), .pid_ns = (uint32_t)number(process, "pid_ns"),
		.image = (uint32_t)number(process, "image"), .command = command,
		.job = job ? job : "", .labels = "", .version = "",
	};

	if (json_is_false(registered) && command)
		model_add_unrecorded(model, host, &who,
			end_of(json_string_value(json_object_get(process, "ended"))),
			(int)number(process, "status"));
}

static void take_process(const json_t *process, struct model *model)
{
	const char *host = json_string_value(json_object_get(process, "host"));
	const json_t *leaks = json_object_get(process, "leaks");
	struct model_leaks sums[VERDICT_COUNT] = { { 0, 0 } };
	size_t i;
	json_t *leak;

	if (!host || !json_is_array(leaks))
		return;
	json_array_foreach (leaks, i, leak) {
		unsigned verdict = verdict_of(json_string_value(json_object_get(leak, "verdict")));
		const json_t *suppressed = json_object_get(leak, "suppressed_by");

		if (verdict == VERDICT_COUNT || json_is_string(suppressed))
			continue;
		sums[verdict].count = sum_saturated(sums[verdict].count, number(leak, "count"));
		sums[verdict].bytes = sum_saturated(sums[verdict].bytes, number(leak, "bytes"));
	}
	for (int tries = 0; tries < 2; tries++) {
		if (model_set_leaks(model, host, (uint32_t)number(process, "pid"),
			(uint32_t)number(process, "pid_ns"), (uint32_t)number(process, "image"), sums))
			return;
		if (tries == 0)
			take_unrecorded(process, host, model);
	}
}

static void take_report(const char *path, struct model *model)
{
	json_t *report = json_load_file(path, 0, NULL), *process;
	size_t i;

	if (number(report, "schema") == 1)
		json_array_foreach (json_object_get(report, "processes"), i, process)
			take_process(process, model);
	json_decref(report);
}

void reports_beside(const char *trace, struct model *model)
{
	DIR *folder = opendir(trace);
	const struct dirent *entry;
	char path[PATH_MAX];

	if (!folder)
		return;
	while ((entry = readdir(folder))) {
		size_t length = strlen(entry->d_name);

		if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0 &&
			snprintf(path, sizeof(path), "%s/%s", trace, entry->d_name) < (int)sizeof(path))
			take_report(path, model);
	}
	closedir(folder);
}
