/*
 * report_found.c - what a ledger tells of leaks, marks, refusals and faults, in the JSON report.
 */
#include "report_found.h"

#include "report_growth.h"
#include "report_host.h"
#include "report_leaks.h"
#include "report_refusal.h"
#include "report_sites.h"
#include "text.h"

static const char *const scope_words[] = {
#define X(id, word) word,
	CUWARD_SCOPES(X)
#undef X
};

static void put_if(struct json *json, const char *key, bool known, const char *text)
{
	if (known)
		json_string(json, key, text);
	else
		json_null(json, key);
}

static void put_api(struct json *json, const struct ledger_view *view, unsigned api)
{
	const char *name = report_call_name(view, api);

	put_if(json, "api", name != NULL, name);
}

static void put_device_index(struct json *json, const struct ledger_view *view, unsigned device)
{
	bool known = device < view->header->device_count && device < SLOT_DEVICES;

	json_bytes(json, "device", known ? device : BYTES_NONE);
}

/* Whether it grew, and how sure that is; for --leak growth. */
static void put_growth(struct json *json, const struct ledger_view *view,
	const struct leak_group *group)
{
	struct report_growth growth;

	if (view->header->leak_mode != LEAK_GROWTH || !group->growth)
		return;
	growth = report_growth_of(view, group->growth);
	json_open_flat(json, "growth", '{');
	json_bool(json, "grows", growth.grows);
	json_number(json, "confidence_percent", growth.confidence);
	json_number(json, "from_bytes", growth.from_bytes);
	json_number(json, "to_bytes", growth.to_bytes);
	json_bytes(json, "bytes_per_s", growth.bytes_per_s);
	json_close(json, '}');
}

static void put_leak(struct json *json, const struct ledger_view *view,
	const struct leak_group *group)
{
	json_open(json, NULL, '{');
	json_string(json, "verdict", report_verdict_word(group->verdict));
	json_string(json, "kind", report_kind_word(group->kind));
	put_api(json, view, group->api);
	/* Host memory is on no GPU, whichever was current. */
	put_device_index(json, view, group->kind == KIND_PINNED ? DEVICE_NONE : group->device);
	json_number(json, "bytes", group->bytes);
	json_number(json, "count", group->count);
	json_time(json, "first_time", group->first_ns);
	json_begin(json, "hash");
	text_char(json->out, '"');
	text_hex(json->out, report_leak_hash(view, group), 16);
	text_char(json->out, '"');
	put_if(json, "suppressed_by", group->suppressed_by != NULL, group->suppressed_by);
	put_growth(json, view, group);
	report_site_json(json, view, group->site);
	json_close(json, '}');
}

void report_put_leaks(struct json *json, const struct ledger_view *view)
{
	unsigned count;
	const struct leak_group *groups = report_leak_groups(view, &count);

	json_open(json, "leaks", '[');
	for (unsigned i = 0; i < count; i++)
		put_leak(json, view, &groups[i]);
	json_close(json, ']');
}

/* A string that others write. */
static void begin_words(struct json *json, const char *key)
{
	json_begin(json, key);
	text_char(json->out, '"');
	json->out->quoted = true;
}

static void end_words(struct json *json)
{
	json->out->quoted = false;
	text_char(json->out, '"');
}

static void put_holder_line(struct json *json, const struct ledger_view *view,
	const struct ledger_holder *holder)
{
	if (!holder->site && !holder->line[0]) {
		json_null(json, "line");
		return;
	}
	begin_words(json, "line");
	if (holder->site)
		report_site_text(json->out, view, holder->site);
	else
		text_clean(json->out, holder->line, sizeof(holder->line));
	end_words(json);
}

static void put_holders(struct json *json, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	json_open(json, "holders", '[');
	for (unsigned i = 0; i < LEDGER_HOLDERS && denial->holders[i].bytes; i++) {
		const struct ledger_holder holder = report_holder(view, &denial->holders[i]);
		const struct ledger_site *place = report_site_owner(view, holder.site);
		char user[64];

		json_open(json, NULL, '{');
		json_number(json, "bytes", holder.bytes);
		json_number(json, "pid", holder.pid);
		json_number(json, "uid", holder.uid);
		put_if(json, "user", report_user_name(holder.uid, user, sizeof(user)), user);
		json_string_in(json, "command", holder.command, sizeof(holder.command));
		json_time(json, "since", holder.since_ns);
		if (place)
			report_place_json(json, "site", view, place);
		else
			json_null(json, "site");
		put_holder_line(json, view, &holder);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_sentence(struct json *json, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	begin_words(json, "text");
	report_refusal_text(json->out, view, denial);
	end_words(json);
	begin_words(json, "advice");
	report_refusal_advice(json->out, view, denial);
	end_words(json);
}

static void put_denial(struct json *json, const struct ledger_view *view,
	const struct ledger_denial *denial)
{
	const struct ledger_site *place = report_site_owner(view, denial->site);

	json_open(json, NULL, '{');
	json_number(json, "bytes", denial->bytes);
	put_api(json, view, denial->api);
	put_device_index(json, view, denial->device);
	put_if(json, "scope", denial->scope < SCOPE_COUNT,
		denial->scope < SCOPE_COUNT ? scope_words[denial->scope] : "");
	json_bytes(json, "limit_bytes", denial->limit_bytes);
	json_bytes(json, "used_bytes", denial->used_bytes);
	put_if(json, "source", denial->source[0], denial->source);
	json_number(json, "count", denial->count);
	json_time(json, "last_time", denial->time_ns);
	put_holders(json, view, denial);
	put_sentence(json, view, denial);
	if (place)
		report_place_json(json, "site", view, place);
	else
		json_null(json, "site");
	json_close(json, '}');
}

void report_put_denials(struct json *json, const struct ledger_view *view)
{
	json_open(json, "denials", '[');
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX; i++)
		if (__atomic_load_n(&view->header->denials[i].present, __ATOMIC_ACQUIRE))
			put_denial(json, view, &view->header->denials[i]);
	json_close(json, ']');
}

static const struct {
	const char *code;
	const char *text;
} findings[] = {
#define X(id, word, text) { word, text },
	CUWARD_FINDINGS(X)
#undef X
};

static uint64_t live_objects(const uint64_t objects[OBJECT_COUNT])
{
	uint64_t count = 0;

	/*
	 * The primary context is never destroyed by a program of the CUDA runtime, and frameworks keep
	 * the addresses they reserved: nothing went wrong there.
	 */
	for (unsigned i = 0; i < OBJECT_COUNT; i++)
		if (i != OBJECT_CONTEXT && i != OBJECT_MEM_POOL && i != OBJECT_ADDRESS_RANGE &&
			i != OBJECT_MAPPING)
			count += objects[i];
	return count;
}

static bool is_limited(const struct ledger_header *header)
{
	for (unsigned i = 0; i < header->device_count && i < SLOT_DEVICES; i++) {
		const struct ledger_device *device = &header->devices[i];

		if ((device->limit_bytes & device->job_limit_bytes & device->inner_limit_bytes &
			device->user_limit_bytes &
			device->group_limit_bytes & device->gpu_limit_bytes) != BYTES_NONE)
			return true;
	}
	return false;
}

/* What was counted as it happened, and what only the end can tell. */
static uint64_t finding_count(const struct ledger_view *view, unsigned finding,
	const uint64_t objects[OBJECT_COUNT])
{
	const struct ledger_header *header = view->header;
	uint64_t count = header->findings[finding];

	switch (finding) {
	case FINDING_RECORDS_DROPPED:
		return header->dropped_records > count ? header->dropped_records : count;
	case FINDING_POOL_NOT_DESTROYED:
		return report_ended_orderly(view) && count == 0 ? objects[OBJECT_MEM_POOL] : count;
	case FINDING_OBJECTS_LIVE:
		return report_ended_orderly(view) && count == 0 ? live_objects(objects) : count;
	case FINDING_NVML_UNLIMITED:
		return is_limited(header) ? count : 0;
	case FINDING_TOO_FEW_MARKS:
		return header->leak_mode == LEAK_MARKS && header->mark_count < 2;
	default:
		return count;
	}
}

static void put_place(struct json *json, const char *key, const struct ledger_view *view,
	uint32_t site)
{
	const struct ledger_site *place = report_site_owner(view, site);

	if (place)
		report_place_json(json, key, view, place);
	else
		json_null(json, key);
}

static void put_fault(struct json *json, const struct ledger_view *view,
	const struct ledger_fault *fault)
{
	json_open(json, NULL, '{');
	json_string(json, "code", findings[fault->finding].code);
	put_api(json, view, fault->api);
	json_number(json, "count", fault->count);
	json_bytes(json, "bytes", fault->bytes ? fault->bytes : BYTES_NONE);
	json_time(json, "last_time", fault->time_ns);
	put_place(json, "site", view, fault->site);
	put_place(json, fault->finding == FINDING_DOUBLE_FREE ? "freed_at" : "allocated_at", view,
		fault->other_site);
	json_close(json, '}');
}

/* The frees behind the findings, place by place. */
void report_put_faults(struct json *json, const struct ledger_view *view)
{
	json_open(json, "faults", '[');
	for (unsigned i = 0; i < LEDGER_FAULTS_MAX; i++) {
		const struct ledger_fault *fault = &view->header->faults[i];

		if (__atomic_load_n(&fault->present, __ATOMIC_ACQUIRE) && fault->finding < FINDING_COUNT)
			put_fault(json, view, fault);
	}
	json_close(json, ']');
}

/* What contexts and modules took at most, or what is untracked, on all devices together. */
static uint64_t device_sum(const struct ledger_header *header, unsigned finding)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < header->device_count && i < SLOT_DEVICES; i++) {
		int64_t bytes = finding == FINDING_CONTEXT_OVERHEAD ?
			(int64_t)header->devices[i].overhead_peak_bytes : header->devices[i].untracked_bytes;

		sum += bytes > 0 ? bytes : 0;
	}
	return sum;
}

static void put_finding_text(struct json *json, const struct ledger_header *header, unsigned finding)
{
	if (finding == FINDING_LIMIT_REFUSED && header->refusal[0]) {
		json_string_in(json, "text", header->refusal, sizeof(header->refusal));
		return;
	}
	if (finding != FINDING_CONTEXT_OVERHEAD && finding != FINDING_UNTRACKED) {
		json_string(json, "text", findings[finding].text);
		return;
	}
	json_begin(json, "text");
	text_char(json->out, '"');
	text_put(json->out, findings[finding].text);
	text_put(json->out, ": ");
	text_size(json->out, device_sum(header, finding));
	text_char(json->out, '"');
}

static void put_finding(struct json *json, const struct ledger_view *view, unsigned finding,
	uint64_t count)
{
	json_open_flat(json, NULL, '{');
	json_string(json, "code", findings[finding].code);
	json_number(json, "count", count);
	put_finding_text(json, view->header, finding);
	json_close(json, '}');
}

void report_put_findings(struct json *json, const struct ledger_view *view,
	const uint64_t objects[OBJECT_COUNT])
{
	json_open(json, "findings", '[');
	for (unsigned i = 0; i < FINDING_COUNT; i++) {
		uint64_t count = finding_count(view, i, objects);

		if (count > 0)
			put_finding(json, view, i, count);
	}
	json_close(json, ']');
}

/* ---- marks ---- */

void report_put_marks(struct json *json, const struct ledger_view *view)
{
	static const char *const modes[] = { "exit", "growth", "marks", "off" };
	const struct ledger_header *header = view->header;
	unsigned mode = view->leaks_off ? LEAK_OFF : header->leak_mode;

	json_string(json, "leak_mode", mode <= LEAK_OFF ? modes[mode] : "unknown");
	json_open(json, "marks", '[');
	for (unsigned i = 0; i < header->mark_count && i < LEDGER_MARKS_MAX; i++) {
		json_open_flat(json, NULL, '{');
		json_string_in(json, "name", header->marks[i].name, sizeof(header->marks[i].name));
		json_time(json, "time", header->marks[i].time_ns);
		json_number(json, "live_bytes", header->marks[i].live_bytes);
		json_number(json, "live", header->marks[i].live);
		json_close(json, '}');
	}
	json_close(json, ']');
}
