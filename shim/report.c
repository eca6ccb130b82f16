/*
 * report.c - a ledger as one element of `processes` of the JSON report (schema 1).
 */
#include "report.h"

#include <string.h>

#include "calls.h"
#include "json.h"
#include "report_found.h"
#include "report_host.h"
#include "report_leaks.h"
#include "text.h"

/* What the records say, summed up in one pass. */
struct totals {
	struct {
		uint64_t count;
		uint64_t bytes;
	} kinds[KIND_COUNT];
	uint64_t objects[OBJECT_COUNT];
	uint64_t device_bytes[SLOT_DEVICES];
	uint64_t allocating;
	uint64_t freeing;
	uint64_t in_flight_bytes;
};

static void add_record(struct totals *totals, const struct ledger_view *view,
	const struct ledger_record *record)
{
	if (report_record_is_live(view, record)) {
		totals->kinds[record->kind].count++;
		totals->kinds[record->kind].bytes += record->bytes;
		if (record->flags & RECORD_CHARGED && record->device < SLOT_DEVICES)
			totals->device_bytes[record->device] += record->bytes;
	} else if (record->state == RECORD_LIVE && record->class == CLASS_OBJECT &&
		record->kind < OBJECT_COUNT) {
		totals->objects[record->kind]++;
	} else if (record->state == RECORD_ALLOCATING || record->state == RECORD_FREEING) {
		totals->allocating += record->state == RECORD_ALLOCATING;
		/* A context is counted where it is said to be dying. */
		totals->freeing += record->state == RECORD_FREEING &&
			(record->class != CLASS_OBJECT || record->kind != OBJECT_CONTEXT);
		if (record->class != CLASS_OBJECT)
			totals->in_flight_bytes += record->bytes;
	} else if (report_record_is_doomed(view, record)) {
		totals->in_flight_bytes += record->bytes;
	}
}

static void sum_records(struct totals *totals, const struct ledger_view *view)
{
	*totals = (struct totals){ 0 };
	for (size_t i = 0; i < view->record_count; i++) {
		struct ledger_record record = view->records[i];

		add_record(totals, view, &record);
	}
	for (unsigned i = 0; i < LEDGER_DYING_MAX; i++)
		totals->freeing += view->header->dying[i] != 0;
}

/* ---- who ---- */

static void put_if(struct json *json, const char *key, bool known, const char *text)
{
	if (known)
		json_string(json, key, text);
	else
		json_null(json, key);
}

/* Strings one after the other, each ended by a 0 byte; an empty one ends them. */
static void put_strings(struct json *json, const char *key, const char *text, size_t bytes)
{
	size_t length;

	json_open(json, key, '[');
	for (size_t at = 0; at < bytes && (length = strnlen(text + at, bytes - at)) > 0;
		at += length + 1)
		json_string_in(json, NULL, text + at, length);
	json_close(json, ']');
}

/* An argument may be empty, so the end is where only 0 bytes follow. */
static void put_argv(struct json *json, const char *text, size_t bytes)
{
	size_t used = bytes;

	while (used > 0 && text[used - 1] == 0)
		used--;
	json_open_flat(json, "argv", '[');
	for (size_t at = 0; at < used; at += strnlen(text + at, bytes - at) + 1)
		json_string_in(json, NULL, text + at, bytes - at);
	json_close(json, ']');
}

static size_t key_length(const char *label)
{
	return strcspn(label, "=,");
}

/* Is the key of this label set again further on? Then that one counts. */
static bool set_again(const char *label)
{
	size_t key = key_length(label);
	const char *later = label;

	while ((later = strchr(later, ','))) {
		later++;
		if (key_length(later) == key && memcmp(later, label, key) == 0)
			return true;
	}
	return false;
}

/* "K=V,K=V" as an object. */
static void put_labels(struct json *json, const struct process_identity *who)
{
	char labels[sizeof(who->labels) + 1] = "", *next;

	memcpy(labels, who->labels, strnlen(who->labels, sizeof(who->labels)));
	json_open(json, "labels", '{');
	for (char *label = labels; *label; label = next) {
		size_t length = strcspn(label, ","), key = key_length(label);
		bool skipped = key == 0 || set_again(label);

		next = label + length + (label[length] == ',');
		label[length] = 0;
		label[key] = 0;
		if (!skipped)
			json_string(json, label, key < length ? label + key + 1 : "");
	}
	json_close(json, '}');
}

static void put_who(struct json *json, const struct ledger_view *view)
{
	const struct ledger_header *header = view->header;
	const struct process_identity *who = &header->who;
	char word[128];

	json_string_in(json, "version", header->version_text, sizeof(header->version_text));
	put_if(json, "host", report_host_name(word, sizeof(word)), word);
	put_if(json, "boot_id", report_boot_id(word, sizeof(word)), word);
	json_number(json, "pid", who->pid);
	json_bytes(json, "pid_ns", who->pid_ns ? who->pid_ns : BYTES_NONE);
	json_bytes(json, "outer_pid", view->outer_pid ? view->outer_pid : BYTES_NONE);
	json_number(json, "ppid", who->ppid);
	json_number(json, "image", who->image);
	json_number(json, "uid", who->uid);
	put_if(json, "user", report_user_name(who->uid, word, sizeof(word)), word);
	json_time(json, "start_time", who->start_realtime_ns);
	json_time(json, "end_time", header->end_realtime_ns);
	json_string_in(json, "command", who->command, sizeof(who->command));
	put_argv(json, header->argv, sizeof(header->argv));
	if (who->job[0])
		json_string_in(json, "job", who->job, sizeof(who->job));
	else
		json_null(json, "job");
	put_labels(json, who);
}

/* ---- how it ended ---- */

static unsigned how_ended(const struct ledger_view *view)
{
	unsigned how = view->how == END_RUNNING ? view->header->ended : view->how;

	return how < END_COUNT ? how : END_UNKNOWN;
}

/* The reader saw the status; a process that ended alone left it in its ledger. */
static int end_status(const struct ledger_view *view)
{
	return view->how == END_RUNNING ? view->header->status : view->status;
}

static void put_end(struct json *json, const struct ledger_view *view)
{
	static const char *const words[] = {
#define X(id, word) word,
		CUWARD_ENDS(X)
#undef X
	};
	unsigned how = how_ended(view);

	json_string(json, "ended", words[how]);
	if (how == END_EXIT || how == END_SIGNAL)
		json_signed(json, "status", end_status(view));
	else
		json_null(json, "status");
	if (how == END_SIGNAL && end_status(view) > 128)
		json_signed(json, "signal", end_status(view) - 128);
	else
		json_null(json, "signal");
	json_bool(json, "complete", report_ended_orderly(view) &&
		view->header->dropped_records == 0);
}

/* ---- devices and memory ---- */

static void put_limit(struct json *json, const char *scope, uint64_t bytes, const char *source,
	size_t source_bytes)
{
	if (bytes == BYTES_NONE)
		return;
	json_open_flat(json, NULL, '{');
	json_string(json, "scope", scope);
	json_number(json, "bytes", bytes);
	json_string_in(json, "source", source, source_bytes);
	json_close(json, '}');
}

static void put_device(struct json *json, unsigned index, const struct ledger_device *device,
	uint64_t used_bytes)
{
	static const uint8_t no_uuid[16];
	static const char inner[] = "CUWARD_INNER_MEMORY";

	json_open(json, NULL, '{');
	json_number(json, "index", index);
	if (memcmp(device->uuid, no_uuid, sizeof(no_uuid)) == 0) {
		json_null(json, "uuid");
	} else {
		json_begin(json, "uuid");
		text_char(json->out, '"');
		text_uuid(json->out, device->uuid);
		text_char(json->out, '"');
	}
	if (device->pci_bus_id[0])
		json_string_in(json, "pci_bus_id", device->pci_bus_id, sizeof(device->pci_bus_id));
	else
		json_null(json, "pci_bus_id");
	json_string_in(json, "name", device->name, sizeof(device->name));
	json_number(json, "total_bytes", device->total_bytes);
	json_open(json, "limits", '[');
	put_limit(json, "process", device->limit_bytes, device->limit_source,
		sizeof(device->limit_source));
	put_limit(json, "job", device->job_limit_bytes, device->job_limit_source,
		sizeof(device->job_limit_source));
	put_limit(json, "job", device->inner_limit_bytes, inner, sizeof(inner));
	put_limit(json, "user", device->user_limit_bytes, device->user_limit_source,
		sizeof(device->user_limit_source));
	put_limit(json, "group", device->group_limit_bytes, device->group_limit_source,
		sizeof(device->group_limit_source));
	put_limit(json, "gpu", device->gpu_limit_bytes, device->gpu_limit_source,
		sizeof(device->gpu_limit_source));
	json_close(json, ']');
	json_bytes(json, "used_bytes", used_bytes);
	json_number(json, "peak_bytes", device->peak_bytes);
	json_number(json, "denied", device->denied);
	json_number(json, "denied_bytes", device->denied_bytes);
	json_bytes(json, "untracked_bytes", device->untracked_bytes < 0 ? BYTES_NONE :
		(uint64_t)device->untracked_bytes);
	json_bytes(json, "overhead_bytes", device->overhead_bytes < 0 ? BYTES_NONE :
		(uint64_t)device->overhead_bytes);
	json_bytes(json, "overhead_peak_bytes", device->overhead_bytes < 0 ? BYTES_NONE :
		device->overhead_peak_bytes);
	json_close(json, '}');
}

static unsigned device_count(const struct ledger_view *view)
{
	unsigned count = view->header->device_count;

	return count < SLOT_DEVICES ? count : SLOT_DEVICES;
}

static void put_devices(struct json *json, const struct ledger_view *view,
	const struct totals *totals)
{
	/* Without all records the use of each device is not known. */
	bool known = view->header->dropped_records == 0;

	json_open(json, "devices", '[');
	for (unsigned i = 0; i < device_count(view); i++)
		put_device(json, i, &view->header->devices[i], known ?
			totals->device_bytes[i] + view->header->devices[i].charged_bytes : BYTES_NONE);
	json_close(json, ']');
}

static uint64_t not_below_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void put_memory(struct json *json, const struct ledger_view *view,
	const struct totals *totals)
{
	bool dropped = view->header->dropped_records > 0;

	json_open(json, "memory", '{');
	for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
		uint64_t allocs = 0, frees = 0;
		int64_t bytes = 0;

		for (unsigned i = 0; i < view->thread_count; i++) {
			allocs += view->threads[i].allocs[kind];
			frees += view->threads[i].frees[kind];
			bytes += view->threads[i].bytes[kind];
		}
		json_open_flat(json, report_kind_word(kind), '{');
		json_number(json, "live_bytes", dropped ? (bytes > 0 ? (uint64_t)bytes : 0) :
			totals->kinds[kind].bytes);
		json_number(json, "live", dropped ? not_below_zero(allocs, frees) :
			totals->kinds[kind].count);
		json_number(json, "peak_bytes", view->header->kind_peak_bytes[kind]);
		json_number(json, "allocs", allocs);
		json_number(json, "frees", frees);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void put_objects(struct json *json, const struct ledger_view *view,
	const struct totals *totals)
{
	static const char *const words[] = {
#define X(id, word) word,
		CUWARD_OBJECTS(X)
#undef X
	};
	bool dropped = view->header->dropped_records > 0;

	json_open(json, "objects", '{');
	for (unsigned object = 0; object < OBJECT_COUNT; object++) {
		uint64_t created = 0, destroyed = 0;

		for (unsigned i = 0; i < view->thread_count; i++) {
			created += view->threads[i].created[object];
			destroyed += view->threads[i].destroyed[object];
		}
		json_open_flat(json, words[object], '{');
		json_number(json, "created", created);
		json_number(json, "live", dropped ? not_below_zero(created, destroyed) :
			totals->objects[object]);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void put_in_flight(struct json *json, const struct totals *totals)
{
	json_open_flat(json, "in_flight", '{');
	json_number(json, "allocs", totals->allocating);
	json_number(json, "frees", totals->freeing);
	json_number(json, "bytes", totals->in_flight_bytes);
	json_close(json, '}');
}

/* ---- calls, coverage, trace ---- */

static void put_calls(struct json *json, const struct ledger_view *view)
{
	json_open(json, "calls", '{');
	for (unsigned call = 0; call < LEDGER_CALLS_MAX; call++) {
		const char *name = report_call_name(view, call);
		uint64_t count = 0, errors = 0;

		for (unsigned i = 0; name && i < view->thread_count; i++) {
			count += view->threads[i].calls[call].count;
			errors += view->threads[i].calls[call].errors;
		}
		if (count == 0)
			continue;
		json_open_flat(json, name, '{');
		json_number(json, "count", count);
		json_number(json, "errors", errors);
		json_close(json, '}');
	}
	json_close(json, '}');
}

static void put_coverage(struct json *json, const struct ledger_header *header)
{
	json_open(json, "coverage", '{');
	json_number(json, "looked_up", header->looked_up);
	json_number(json, "hooked", header->hooked);
	json_number(json, "passed_through", header->passed_through);
	put_strings(json, "unhooked", header->unhooked, sizeof(header->unhooked));
	json_close(json, '}');
}

static void put_trace(struct json *json, const struct ledger_view *view)
{
	unsigned state = view->header->trace;

	json_open_flat(json, "trace", '{');
	put_if(json, "dir", view->trace_dir != NULL, view->trace_dir);
	if (state == TRACE_REGISTERED || state == TRACE_FAILED)
		json_bool(json, "registered", state == TRACE_REGISTERED);
	else
		json_null(json, "registered");
	json_bytes(json, "lost", view->trace_dir ? view->trace_lost : BYTES_NONE);
	json_close(json, '}');
}

/* ---- the whole ---- */

static void put_process(struct json *json, const struct ledger_view *view)
{
	const struct ledger_header *header = view->header;
	struct totals totals;

	sum_records(&totals, view);
	json_open(json, NULL, '{');
	put_who(json, view);
	put_end(json, view);
	json_open_flat(json, "driver", '{');
	json_bytes(json, "version", header->driver_version ? header->driver_version : BYTES_NONE);
	json_bool(json, "simulated", header->simulated != 0);
	json_close(json, '}');
	put_devices(json, view, &totals);
	put_memory(json, view, &totals);
	put_objects(json, view, &totals);
	put_in_flight(json, &totals);
	json_number(json, "dropped_records", header->dropped_records);
	report_put_leaks(json, view);
	report_put_marks(json, view);
	report_put_denials(json, view);
	report_put_findings(json, view, totals.objects);
	report_put_faults(json, view);
	put_calls(json, view);
	put_coverage(json, header);
	put_trace(json, view);
	json_close(json, '}');
}

void report_process_json(struct report_out *out, const struct ledger_view *view, unsigned indent)
{
	struct json json = { .out = out, .indent = indent };

	put_process(&json, view);
}

void report_document_json(struct report_out *out, const struct ledger_view *view)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_number(&json, "schema", 1);
	json_open(&json, "processes", '[');
	put_process(&json, view);
	json_close(&json, ']');
	json_close(&json, '}');
	text_char(out, '\n');
}
