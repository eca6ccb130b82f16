/*
 * leaks_read.c - leaks out of JSON reports: read, given source lines, compared, suppressed.
 */
#include "leaks.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuward/events.h"
#include "need.h"
#include "report_sites.h"
#include "symbols.h"

/* Here these are jansson's. */
#undef json_string
#undef json_null

static bool fail(int *status, int value, const char *path, const char *why)
{
	fprintf(stderr, "cuward: %s: %s\n", path, why);
	*status = value;
	return false;
}

static uint64_t number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t saturated(uint64_t a, uint64_t b)
{
	return a > INT64_MAX - b || b > INT64_MAX ? INT64_MAX : a + b;
}

/* ---- source lines for a report that its process wrote itself ---- */

static unsigned read_hex(const char *hex, uint8_t *bytes, unsigned max)
{
	unsigned count = 0;

	while (hex && count < max && sscanf(hex + 2 * count, "%2hhx", &bytes[count]) == 1)
		count++;
	return count;
}

static void add_resolved(json_t *native, const json_t *frame, const struct report_frame *found,
	bool inlined, const char *note)
{
	json_t *more = json_deep_copy(frame);

	if (found && found->function)
		json_object_set_new(more, "function", json_string(found->function));
	if (found && found->file)
		json_object_set_new(more, "file", json_string(found->file));
	if (found && found->line)
		json_object_set_new(more, "line", json_integer(found->line));
	json_object_set_new(more, "inlined", json_boolean(inlined));
	if (note)
		json_object_set_new(more, "note", json_string(note));
	json_array_append_new(native, more);
}

static void resolve_frame(json_t *native, const json_t *frame)
{
	struct report_frame found[REPORT_INLINED_MAX];
	uint8_t id[BUILD_ID_MAX];
	struct report_module module = { .path = text(frame, "path"), .build_id = id };
	const struct report_symbols *symbols = symbols_open();
	const char *note = NULL;
	unsigned count = 0;

	module.build_id_bytes = read_hex(text(frame, "build_id"), id, sizeof(id));
	if (module.path && *module.path == '/')
		count = symbols->resolve(symbols, &module, number(frame, "offset"), found, &note);
	for (unsigned i = 0; i < count; i++)
		add_resolved(native, frame, &found[i], i + 1 < count, note);
	if (count == 0)
		add_resolved(native, frame, NULL, false, note);
}

/* Did whoever wrote it look for source lines? The command notes it where it did in vain. */
static bool is_resolved(const json_t *native)
{
	const json_t *frame;
	size_t i;

	json_array_foreach (native, i, frame)
		if (text(frame, "file") || text(frame, "note") ||
			json_is_true(json_object_get(frame, "inlined")))
			return true;
	return json_array_size(native) == 0;
}

static void resolve_leak(json_t *leak)
{
	json_t *native = json_object_get(leak, "native"), *better, *frame;
	size_t i;

	if (is_resolved(native))
		return;
	better = json_array();
	json_array_foreach (native, i, frame)
		resolve_frame(better, frame);
	json_object_set_new(leak, "native", better);
}

/* ---- hash, as report_sites.c makes it ---- */

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
	return hash;
}

static uint64_t hash_native(uint64_t hash, const json_t *frame)
{
	const char *module = text(frame, "module"), *function = text(frame, "function"), *dot;
	uint64_t offset = number(frame, "offset");

	hash = report_hash_word(hash, module ? module : "");
	if (!function)
		function = "";
	dot = strchr(function, '.');
	hash = hash_bytes(hash, function, dot && dot > function ? (size_t)(dot - function) :
		strlen(function));
	hash = hash_bytes(hash, "", 1);
	return *function ? hash : hash_bytes(hash, (const char *)&offset, sizeof(offset));
}

static void hash_leak(json_t *leak)
{
	uint64_t hash = REPORT_HASH_START;
	const json_t *frame;
	bool first = true;
	char word[20];
	size_t i;

	json_array_foreach (json_object_get(leak, "python"), i, frame) {
		const char *file = text(frame, "file"), *function = text(frame, "function");

		hash = report_hash_word(hash, report_base_name(file ? file : ""));
		hash = report_hash_word(hash, function ? function : "");
	}
	json_array_foreach (json_object_get(leak, "native"), i, frame) {
		const char *module = text(frame, "module");

		if (first || !report_is_interpreter(module ? module : ""))
			hash = hash_native(hash, frame);
		first = first && json_is_true(json_object_get(frame, "inlined"));
	}
	hash = report_hash_word(hash, text(leak, "kind") ? text(leak, "kind") : "");
	hash = report_hash_word(hash, text(leak, "api") ? text(leak, "api") : "");
	snprintf(word, sizeof(word), "%016" PRIx64, hash);
	json_object_set_new(leak, "hash", json_string(word));
}

/* ---- reports ---- */

static bool counts(const json_t *leak)
{
	const char *verdict = text(leak, "verdict");

	return verdict && (strcmp(verdict, "leak") == 0 || strcmp(verdict, "growth") == 0);
}

static struct leak *find_leak(const struct leaks *leaks, const char *hash)
{
	for (size_t i = 0; i < leaks->count; i++)
		if (strcmp(leaks->all[i].hash, hash) == 0)
			return &leaks->all[i];
	return NULL;
}

static int64_t device_of(const json_t *entry)
{
	const json_t *device = json_object_get(entry, "device");

	return json_is_integer(device) ? json_integer_value(device) : -1;
}

static void take_leak(struct leaks *leaks, const json_t *process, const json_t *entry)
{
	struct leak *leak = find_leak(leaks, text(entry, "hash"));

	if (!leak) {
		leaks->all = need_room(leaks->all, leaks->count, &leaks->capacity, sizeof(*leak));
		leak = &leaks->all[leaks->count++];
		*leak = (struct leak){ .entry = entry, .hash = text(entry, "hash"),
			.verdict = text(entry, "verdict"), .api = text(entry, "api"),
			.kind = text(entry, "kind") ? text(entry, "kind") : "unknown",
			.device = device_of(entry), .suppressed_by = text(entry, "suppressed_by") };
	}
	leak->bytes = saturated(leak->bytes, number(entry, "bytes"));
	leak->count = saturated(leak->count, number(entry, "count"));
	leak->processes += leak->process != process;
	leak->process = process;
	if (leak->device != device_of(entry))
		leak->device = -1;
}

/*
 * `run --report FILE --trace` writes a report beside the trace too, and nested runs tell of the same
 * process. Of one that still ran there may be a later report, which knows more.
 */
static bool is_told_again(struct leaks *leaks, const json_t *process)
{
	const char *host = text(process, "host"), *boot = text(process, "boot_id");
	const char *start = text(process, "start_time"), *ended = text(process, "ended");
	char name[512];

	if (!host || !boot || !start || !number(process, "pid") || !ended ||
		strcmp(ended, "running") == 0 ||
		snprintf(name, sizeof(name), "%s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s", host, boot,
			number(process, "pid_ns"), number(process, "pid"), number(process, "image"),
			start) >= (int)sizeof(name))
		return false;
	if (json_object_get(leaks->told, name))
		return true;
	json_object_set_new(leaks->told, name, json_true());
	return false;
}

static void take_process(struct leaks *leaks, const json_t *process)
{
	json_t *entry;
	size_t i;

	if (is_told_again(leaks, process))
		return;
	leaks->processes++;
	json_array_foreach (json_object_get(process, "leaks"), i, entry) {
		if (!json_is_object(entry) || !counts(entry))
			continue;
		resolve_leak(entry);
		hash_leak(entry);
		take_leak(leaks, process, entry);
	}
}

static bool is_report(const json_t *report)
{
	return number(report, "schema") == 1 && json_is_array(json_object_get(report, "processes"));
}

static bool take_file(struct leaks *leaks, const char *path, bool must, int *status)
{
	json_error_t error;
	json_t *report = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *process;
	char why[JSON_ERROR_TEXT_LENGTH + 64];
	size_t i;

	if (!is_report(report)) {
		snprintf(why, sizeof(why), report ? "this is no report of cuward" :
			"this is no JSON: %s (line %d)", error.text, error.line);
		json_decref(report);
		return !must || fail(status, access(path, R_OK) == 0 ? EXIT_FOUND : EXIT_USAGE, path,
			access(path, R_OK) == 0 ? why : strerror(errno));
	}
	json_array_append_new(leaks->reports, report);
	json_array_foreach (json_object_get(report, "processes"), i, process)
		take_process(leaks, process);
	return true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The reports that lie in the folder of a trace, or of many reports. */
static bool take_folder(struct leaks *leaks, char *path, int *status)
{
	char *roots[] = { path, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	size_t before = json_array_size(leaks->reports);
	FTSENT *entry;

	while (tree && (entry = fts_read(tree))) {
		const char *dot = strrchr(entry->fts_name, '.');

		if (entry->fts_info == FTS_F && dot && strcmp(dot, ".json") == 0)
			take_file(leaks, entry->fts_path, false, status);
	}
	if (tree)
		fts_close(tree);
	return json_array_size(leaks->reports) > before ||
		fail(status, EXIT_USAGE, path, "there is no report of cuward in this folder");
}

/* The largest first; equal ones in a stable order. */
static int by_size(const void *left, const void *right)
{
	const struct leak *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return strcmp(a->hash, b->hash);
}

bool leaks_read(struct leaks *leaks, char *const *paths, unsigned count, int *status)
{
	struct stat info;

	leaks->reports = need(json_array());
	leaks->told = need(json_object());
	for (unsigned i = 0; i < count; i++)
		if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode) ?
			!take_folder(leaks, paths[i], status) :
			!take_file(leaks, paths[i], true, status))
			return false;
	if (leaks->count > 0)
		qsort(leaks->all, leaks->count, sizeof(*leaks->all), by_size);
	return true;
}

void leaks_close(struct leaks *leaks)
{
	json_decref(leaks->reports);
	json_decref(leaks->told);
	free(leaks->all);
	*leaks = (struct leaks){ 0 };
	symbols_close();
}

/* ---- what is known ---- */

static void know(struct leaks *leaks, const char *hash, uint64_t bytes)
{
	struct leak *leak = hash ? find_leak(leaks, hash) : NULL;

	if (!leak)
		return;
	leak->known_bytes = saturated(leak->known_bytes, bytes);
	leak->state = LEAK_KNOWN;
}

/* A report, or what `cuward leaks --json` printed. */
bool leaks_compare(struct leaks *leaks, const char *baseline, int *status)
{
	json_error_t error;
	json_t *known = json_load_file(baseline, 0, &error), *entry;
	struct leaks before = { .reports = json_array(), .told = json_object() };
	char *path = (char *)baseline;
	size_t i;

	if (is_report(known)) {
		if (!take_file(&before, path, true, status))
			return false;
		for (i = 0; i < before.count; i++)
			know(leaks, before.all[i].hash, before.all[i].bytes);
	} else if (number(known, "schema") == 1 && json_is_array(json_object_get(known, "leaks"))) {
		json_array_foreach (json_object_get(known, "leaks"), i, entry)
			know(leaks, text(entry, "hash"), number(entry, "bytes"));
	} else {
		fail(status, access(baseline, R_OK) == 0 ? EXIT_FOUND : EXIT_USAGE, baseline,
			access(baseline, R_OK) == 0 ? "this is no report of cuward" : strerror(errno));
	}
	free(before.all);
	json_decref(before.reports);
	json_decref(before.told);
	json_decref(known);
	return *status == 0;
}

static bool frames_match(const struct suppress_rule *rule, const void *subject)
{
	const struct leak *leak = subject;
	const json_t *frame;
	size_t i;

	json_array_foreach (json_object_get(leak->entry, "native"), i, frame)
		if (suppress_text(rule, text(frame, "module")) || suppress_text(rule, text(frame, "path")) ||
			(rule->type == SUPPRESS_LEAK && (suppress_text(rule, text(frame, "function")) ||
			suppress_text(rule, text(frame, "file")))))
			return true;
	if (rule->type == SUPPRESS_LEAK)
		json_array_foreach (json_object_get(leak->entry, "python"), i, frame)
			if (suppress_text(rule, text(frame, "function")) ||
				suppress_text(rule, text(frame, "file")))
				return true;
	return false;
}

void leaks_suppress(struct leaks *leaks, const struct suppressions *suppressions, bool *used)
{
	for (size_t i = 0; i < leaks->count; i++) {
		struct leak *leak = &leaks->all[i];
		const struct suppress_rule *rule = suppress_find(suppressions, leak->bytes, leak->api,
			frames_match, leak);

		if (!rule)
			continue;
		used[rule - suppressions->rules] = true;
		leak->suppressed_by = rule->text;
	}
}

bool leak_fails(const struct leak *leak)
{
	return leak->state == LEAK_NEW || leak->state == LEAK_GROWN;
}

void leaks_judge(struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++) {
		struct leak *leak = &leaks->all[i];

		if (leak->suppressed_by)
			leak->state = LEAK_SUPPRESSED;
		else if (leak->state == LEAK_KNOWN && leak->bytes > leak->known_bytes)
			leak->state = LEAK_GROWN;
		if (!leak_fails(leak))
			continue;
		leaks->failing++;
		leaks->failing_bytes = saturated(leaks->failing_bytes, leak->bytes);
		leaks->failing_count = saturated(leaks->failing_count, leak->count);
	}
}

const char *leak_state_word(enum leak_state state)
{
	static const char *const words[] = { "new", "grown", "known", "suppressed" };

	return words[state];
}

/* ---- where ---- */

static bool is_users(const char *file)
{
	return file && *file != '<' && !strstr(file, "-packages/") && !strstr(file, "/lib/python");
}

static void take_frame(struct leak_place *place, const json_t *frame, bool python)
{
	*place = (struct leak_place){ .function = text(frame, "function"), .file = text(frame, "file"),
		.line = number(frame, "line"), .module = python ? NULL : text(frame, "module"),
		.offset = number(frame, "offset") };
}

/* A line of Python that no installed package wrote, else of C with a file, else whatever there is. */
bool leak_place_of(const struct leak *leak, struct leak_place *place)
{
	const json_t *python = json_object_get(leak->entry, "python"), *frame;
	const json_t *native = json_object_get(leak->entry, "native");
	size_t i;

	json_array_foreach (python, i, frame) {
		take_frame(place, frame, true);
		if (is_users(place->file))
			return true;
	}
	if (json_array_size(python) > 0) {
		take_frame(place, json_array_get(python, 0), true);
		return true;
	}
	json_array_foreach (native, i, frame) {
		take_frame(place, frame, false);
		if (place->file && !report_is_passage(place->module ? place->module : ""))
			return true;
	}
	if (json_array_size(native) > 0)
		take_frame(place, json_array_get(native, 0), false);
	return json_array_size(native) > 0;
}

const char *leak_file(const char *file)
{
	static char here[PATH_MAX];
	size_t length;

	if (!*here && !getcwd(here, sizeof(here)))
		return file;
	length = strlen(here);
	if (strncmp(file, here, length) == 0 && file[length] == '/')
		return file + length + 1;
	return strncmp(file, "./", 2) == 0 ? file + 2 : file;
}
