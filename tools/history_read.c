/*
 * history_read.c - reports and histories into entries. They are files like others: nothing in them is
 * believed further than it goes.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "history.h"
#include "need.h"

/* A process image that was read already: a run within a run tells of its processes too. */
struct seen {
	UT_hash_handle hh;
	char key[];
};

/* ---- values ---- */

static uint64_t number(const json_t *object, const char *key, uint64_t unknown)
{
	const json_t *value = json_object_get(object, key);
	json_int_t integer = json_integer_value(value);

	return json_is_integer(value) && integer >= 0 ? (uint64_t)integer : unknown;
}

static char *text(const json_t *object, const char *key)
{
	return need_copy(json_string_value(json_object_get(object, key)));
}

/* "2025-01-31T12:00:00.000Z" */
static uint64_t moment(const json_t *object, const char *key)
{
	const char *from = json_string_value(json_object_get(object, key));
	struct tm tm = { 0 };
	const char *rest = from ? strptime(from, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	time_t seconds = rest ? timegm(&tm) : 0;

	if (seconds <= 0)
		return 0;
	return (uint64_t)seconds * 1000000000 + (*rest == '.' ? (uint64_t)(strtod(rest, NULL) * 1e9) : 0);
}

static uint64_t leaked(const json_t *process)
{
	json_t *leak;
	uint64_t sum = 0;
	size_t i;

	if (json_object_get(process, "leaked_bytes"))
		return number(process, "leaked_bytes", 0);
	json_array_foreach (json_object_get(process, "leaks"), i, leak) {
		const char *verdict = json_string_value(json_object_get(leak, "verdict"));

		if (verdict && (strcmp(verdict, "leak") == 0 || strcmp(verdict, "growth") == 0) &&
			!json_is_string(json_object_get(leak, "suppressed_by")))
			sum += number(leak, "bytes", 0);
	}
	return sum;
}

/* ---- one process ---- */

static void take_limits(struct history_device *device, const json_t *limits)
{
	json_t *limit;
	size_t i;

	json_array_foreach (limits, i, limit) {
		uint64_t bytes = number(limit, "bytes", BYTES_NONE);
		const char *scope = json_string_value(json_object_get(limit, "scope"));
		const char *source = json_string_value(json_object_get(limit, "source"));

		if (bytes >= device->limit_bytes)
			continue;
		device->limit_bytes = bytes;
		snprintf(device->limit_scope, sizeof(device->limit_scope), "%s", scope ? scope : "");
		snprintf(device->limit_source, sizeof(device->limit_source), "%s", source ? source : "");
	}
}

static void take_device(struct history_entry *entry, const json_t *from)
{
	struct history_device *device = &entry->devices[entry->device_count];
	const char *uuid = json_string_value(json_object_get(from, "uuid"));

	if (entry->device_count == SLOT_DEVICES)
		return;
	entry->device_count++;
	*device = (struct history_device){ .limit_bytes = BYTES_NONE,
		.total_bytes = number(from, "total_bytes", 0), .peak_bytes = number(from, "peak_bytes", 0),
		.overhead_peak_bytes = number(from, "overhead_peak_bytes", HISTORY_UNKNOWN),
		.untracked_bytes = number(from, "untracked_bytes", HISTORY_UNKNOWN),
		.denied = number(from, "denied", 0), .denied_bytes = number(from, "denied_bytes", 0),
		.wanted_bytes = number(from, "wanted_bytes", 0) };
	snprintf(device->uuid, sizeof(device->uuid), "%s", uuid ? uuid : "");
	take_limits(device, json_object_get(from, "limits"));
}

static void take_denials(struct history_entry *entry, const json_t *denials)
{
	json_t *denial;
	size_t i;

	json_array_foreach (denials, i, denial) {
		uint64_t index = number(denial, "device", SLOT_DEVICES), used = number(denial, "used_bytes", 0);
		uint64_t wanted = used + number(denial, "bytes", 0);

		if (index < entry->device_count && wanted >= used && wanted > entry->devices[index].wanted_bytes)
			entry->devices[index].wanted_bytes = wanted;
	}
}

static void take_findings(struct history_entry *entry, const json_t *findings)
{
	json_t *finding;
	size_t i;

	json_array_foreach (findings, i, finding) {
		const char *code = json_string_value(json_object_get(finding, "code"));

		if (code && strcmp(code, "pool-reserved") == 0)
			entry->pool_reserved += number(finding, "count", 0);
	}
}

/* False: it was there already. */
static bool remember(struct history *history, const struct history_entry *entry)
{
	struct seen *all = history->seen, *one, *found;
	char *key;

	if (asprintf(&key, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, entry->host, entry->pid_ns,
		entry->pid, entry->image, entry->start_ns / 1000000) < 0)
		abort();
	HASH_FIND_STR(all, key, found);
	if (!found) {
		one = need(calloc(1, sizeof(*one) + strlen(key) + 1));
		strcpy(one->key, key);
		HASH_ADD_STR(all, key, one);
		history->seen = all;
	}
	free(key);
	return !found;
}

static void free_entry(struct history_entry *entry)
{
	free(entry->host);
	free(entry->user);
	free(entry->command);
	free(entry->job);
	free(entry->batch);
	free(entry->file);
}

static void take_process(struct history *history, const json_t *from, const char *path)
{
	const char *batch = json_string_value(json_object_get(json_object_get(from, "labels"), "batch"));
	const char *ended = json_string_value(json_object_get(from, "ended"));
	struct history_entry entry = {
		.host = text(from, "host"), .user = text(from, "user"), .command = text(from, "command"),
		.job = text(from, "job"), .file = need_copy(path), .batch = batch ? need_copy(batch) : NULL,
		.pid = number(from, "pid", 0), .pid_ns = number(from, "pid_ns", 0),
		.image = number(from, "image", 0), .start_ns = moment(from, "start_time"),
		.end_ns = moment(from, "end_time"), .leaked_bytes = leaked(from),
		.status = (int64_t)number(from, "status", 0),
	};
	json_t *device;
	size_t i;

	snprintf(entry.ended, sizeof(entry.ended), "%s", ended ? ended : "unknown");
	json_array_foreach (json_object_get(from, "devices"), i, device)
		take_device(&entry, device);
	take_denials(&entry, json_object_get(from, "denials"));
	take_findings(&entry, json_object_get(from, "findings"));
	if (!remember(history, &entry)) {
		free_entry(&entry);
		return;
	}
	history->entries = need_room(history->entries, history->count, &history->capacity,
		sizeof(*history->entries));
	history->entries[history->count++] = entry;
}

/* ---- files ---- */

static void refuse(struct history *history, const char *path, const char *why)
{
	history->unreadable++;
	snprintf(history->why, sizeof(history->why), "%.150s: %.100s", path, why);
}

static void read_report(struct history *history, const char *path)
{
	json_t *report = json_load_file(path, 0, NULL), *process;
	size_t i;

	if (!report)
		refuse(history, path, access(path, R_OK) != 0 ? strerror(errno) : "this is no JSON");
	else if (number(report, "schema", 0) != 1 || !json_is_array(json_object_get(report, "processes")))
		refuse(history, path, "no report of cuward, or of another version");
	else
		json_array_foreach (json_object_get(report, "processes"), i, process)
			take_process(history, process, path);
	json_decref(report);
}

/* The last line may be cut off, by a full disk or because it is being written. */
static void read_lines(struct history *history, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t bytes = 0;

	if (!file) {
		refuse(history, path, strerror(errno));
		return;
	}
	while (getline(&line, &bytes, file) > 0) {
		json_t *process = json_loads(line, 0, NULL);

		if (json_is_object(process) && json_is_string(json_object_get(process, "host")))
			take_process(history, process, path);
		else
			refuse(history, path, "a line is no process");
		json_decref(process);
	}
	free(line);
	fclose(file);
}

static bool ends_in(const char *path, const char *end)
{
	size_t length = strlen(path), tail = strlen(end);

	return length >= tail && strcmp(path + length - tail, end) == 0;
}

static bool is_report(const struct dirent *entry)
{
	return entry->d_name[0] != '.' &&
		(ends_in(entry->d_name, ".json") || ends_in(entry->d_name, ".jsonl"));
}

static int wanted(const struct dirent *entry)
{
	return is_report(entry);
}

static void read_folder(struct history *history, const char *path)
{
	struct dirent **names;
	int count = scandir(path, &names, wanted, alphasort);

	if (count < 0)
		refuse(history, path, strerror(errno));
	for (int i = 0; i < count; i++) {
		char file[PATH_MAX];

		if (snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name) < (int)sizeof(file))
			(ends_in(file, ".jsonl") ? read_lines : read_report)(history, file);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
}

void history_add(struct history *history, const char *path)
{
	struct stat info;

	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
		read_folder(history, path);
	else
		(ends_in(path, ".jsonl") || ends_in(path, ".jsonl.1") ? read_lines : read_report)(history, path);
}

void history_free(struct history *history)
{
	struct seen *all = history->seen, *one, *next;

	HASH_ITER(hh, all, one, next) {
		HASH_DEL(all, one);
		free(one);
	}
	for (size_t i = 0; i < history->count; i++)
		free_entry(&history->entries[i]);
	free(history->entries);
	*history = (struct history){ 0 };
}
