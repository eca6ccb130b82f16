/*
 * view_stats_json.c - the tables of `cuward stats` as JSON and CSV; one is made of the other.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "need.h"
#include "view_jansson.h"

static const char *const direction_words[] = {
#define X(id, word) word,
	CUWARD_DIRECTIONS(X)
#undef X
};

static const char *const end_words[] = {
#define X(id, word) word,
	CUWARD_ENDS(X)
#undef X
};

static void set_who(json_t *row, const struct model *model, size_t i)
{
	const struct model_process *process = model->processes[i];

	set_number(row, "process", i + 1);
	set_text(row, "host", process->host);
	set_known(row, "pid", process->defined, process->pid);
}

/* The UUIDs of the devices it used. */
static json_t *used_devices(const struct model_process *process)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < process->device_count; i++)
		if (process->devices[i].used && process->devices[i].uuid && *process->devices[i].uuid)
			json_array_append_new(list, json_string(process->devices[i].uuid));
	return list;
}

/* How much of a whole that is, in millionths. */
static void set_share(json_t *row, uint64_t part, uint64_t whole)
{
	unsigned __int128 parts = (unsigned __int128)part * 1000000;

	set_known(row, "share_ppm", whole, whole ? (uint64_t)(parts / whole) : 0);
}

static json_t *process_row(const struct model *model, size_t i)
{
	const struct model_process *process = model->processes[i];
	const struct model_leaks *leaks = &process->leaks[VERDICT_LEAK];
	struct model_memory memory = model_memory(process);
	bool recorded = !process->unrecorded; /* else nothing is known of what it did */
	json_t *row = json_object();

	set_who(row, model, i);
	set_known(row, "pid_ns", process->defined, process->pid_ns);
	set_known(row, "image", process->defined, process->image);
	set_known(row, "uid", process->defined, process->uid);
	if (process->user)
		set_text(row, "user", process->user);
	else
		set_null(row, "user");
	set_text(row, "command", process->command);
	json_object_set_new(row, "devices", used_devices(process));
	set_known(row, "start_ns", recorded, process->first_ns - model->first_ns);
	set_known(row, "last_ns", recorded, process->last_ns - model->first_ns);
	set_text(row, "ended", process->ended ? end_words[process->how] : "unknown");
	json_object_set_new(row, "status",
		process->ended && (process->how == END_EXIT || process->how == END_SIGNAL)
			? json_integer(process->status) : json_null());
	set_known(row, "wall_ns", recorded, process->last_ns - process->first_ns);
	set_known(row, "api_busy_ns", recorded, process->api.busy_ns);
	set_known(row, "gpu_busy_ns", recorded && model->gpu_timing, process->gpu.busy_ns);
	set_known(row, "api_ns", recorded, process->api_ns);
	set_known(row, "sync_ns", recorded, process->sync_ns);
	set_known(row, "syncs", recorded, process->syncs);
	set_known(row, "errors", recorded, process->errors);
	set_known(row, "launches", recorded, process->work.launches);
	for (unsigned k = 0; k < DIRECTION_COUNT; k++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_bytes", direction_words[k]);
		set_known(row, key, recorded, process->work.copies[k].bytes);
	}
	set_known(row, "peak_bytes", recorded, memory.peak_bytes);
	set_known(row, "final_bytes", recorded, memory.final_bytes);
	set_known(row, "limit_bytes", memory.limit_bytes && memory.limit_bytes != UINT64_MAX,
		memory.limit_bytes);
	set_known(row, "denied", recorded, memory.denied);
	set_known(row, "leaks", process->leaks_known, leaks->count);
	set_known(row, "leaked_bytes", process->leaks_known, leaks->bytes);
	return row;
}

static json_t *processes(const struct model *model)
{
	json_t *table = json_array();

	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden)
			json_array_append_new(table, process_row(model, i));
	return table;
}

/* The numbers of the processes that used a GPU. */
static json_t *holders(const struct model *model, size_t gpu)
{
	json_t *list = json_array();

	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden && model_uses_gpu(model->processes[i], gpu))
			json_array_append_new(list, json_integer((json_int_t)i + 1));
	return list;
}

static json_t *devices(const struct model *model)
{
	json_t *table = json_array();

	for (size_t i = 0; i < model->gpu_count; i++) {
		const struct model_gpu *gpu = &model->gpus[i];
		const struct spans *busy = model->gpu_timing ? &gpu->gpu : &gpu->api;
		uint64_t gap_ns = span_ns(busy->longest[0]);
		json_t *row = json_object();

		set_text(row, "host", gpu->host);
		set_text(row, "uuid", gpu->uuid);
		set_text(row, "name", gpu->name);
		set_number(row, "total_bytes", gpu->total_bytes);
		set_number(row, "processes", gpu->processes);
		set_number(row, "span_ns", model->to_ns - model->from_ns);
		set_number(row, "api_busy_ns", gpu->api.busy_ns);
		set_known(row, "gpu_busy_ns", model->gpu_timing, gpu->gpu.busy_ns);
		set_number(row, "shared_ns", model_shared_ns(model, i));
		set_number(row, "gaps", busy->gaps);
		set_number(row, "gaps_ns", busy->gaps_ns);
		set_number(row, "longest_gap_ns", gap_ns);
		set_known(row, "longest_gap_at_ns", gap_ns, busy->longest[0].begin_ns - model->first_ns);
		set_number(row, "peak_bytes", gpu->memory.peak);
		set_number(row, "denied", gpu->denied);
		json_object_set_new(row, "held_by", holders(model, i));
		json_array_append_new(table, row);
	}
	return table;
}

static json_t *gaps_table(const struct model *model)
{
	json_t *table = json_array();

	for (size_t i = 0; i < model->gpu_count; i++) {
		const struct model_gpu *gpu = &model->gpus[i];
		const struct spans *busy = model->gpu_timing ? &gpu->gpu : &gpu->api;

		for (unsigned k = 0; k < GAPS_KEPT && span_ns(busy->longest[k]); k++) {
			json_t *row = json_object();

			set_text(row, "host", gpu->host);
			set_text(row, "uuid", gpu->uuid);
			set_number(row, "ns", span_ns(busy->longest[k]));
			set_number(row, "from_ns", busy->longest[k].begin_ns - model->first_ns);
			set_number(row, "to_ns", busy->longest[k].end_ns - model->first_ns);
			set_share(row, span_ns(busy->longest[k]), model->to_ns - model->from_ns);
			json_array_append_new(table, row);
		}
	}
	return table;
}

static void set_times(json_t *row, uint64_t count, uint64_t ns, const struct histogram *times,
	uint64_t shortest_ns, uint64_t longest_ns)
{
	static const struct { const char *key; unsigned per_mille; } parts[] = {
		{ "p50_ns", 500 }, { "p95_ns", 950 }, { "p99_ns", 990 },
	};

	set_number(row, "ns", ns);
	set_known(row, "average_ns", count, count ? ns / count : 0);
	for (size_t i = 0; i < 3; i++)
		set_known(row, parts[i].key, count,
			view_percentile(times, parts[i].per_mille, shortest_ns, longest_ns));
	set_known(row, "shortest_ns", count, shortest_ns);
	set_known(row, "longest_ns", count, longest_ns);
}

static json_t *shape_json(const struct model_function *kernel, const uint32_t shape[3])
{
	if (!kernel->launches || kernel->shapes_differ)
		return json_null();
	return json_pack("[I,I,I]", (json_int_t)shape[0], (json_int_t)shape[1], (json_int_t)shape[2]);
}

static json_t *kernels(const struct model *model)
{
	size_t count;
	struct model_function *all = model_kernels(model, &count);
	json_t *table = json_array();
	uint64_t all_ns = 0;

	for (size_t i = 0; i < count; i++)
		all_ns = sum_saturated(all_ns, model->gpu_timing ? all[i].gpu_ns : all[i].api_ns);
	for (size_t i = 0; i < count; i++) {
		const struct model_function *kernel = &all[i];
		json_t *row = json_object();

		set_text(row, "name", kernel->name);
		set_text(row, "shown", kernel->shown ? kernel->shown : kernel->name);
		set_number(row, "launches", kernel->launches);
		set_text(row, "timing", model->gpu_timing ? "gpu" : "api");
		set_share(row, model->gpu_timing ? kernel->gpu_ns : kernel->api_ns, all_ns);
		set_number(row, "timed", kernel->timed);
		if (model->gpu_timing)
			set_times(row, kernel->timed, kernel->gpu_ns, &kernel->gpu_times,
				kernel->gpu_shortest_ns, kernel->gpu_longest_ns);
		else
			set_times(row, kernel->api_times.count, kernel->api_ns, &kernel->api_times,
				kernel->api_shortest_ns, kernel->api_longest_ns);
		set_number(row, "api_ns", kernel->api_ns);
		set_known(row, "queued_ns", kernel->timed, kernel->queued_ns);
		set_known(row, "queued_longest_ns", kernel->timed, kernel->queued_longest_ns);
		set_number(row, "streams", kernel->streams);
		json_object_set_new(row, "grid", shape_json(kernel, kernel->grid));
		json_object_set_new(row, "block", shape_json(kernel, kernel->block));
		json_array_append_new(table, row);
	}
	model_kernels_free(all, count);
	return table;
}

static json_t *codes_json(const struct model_calls *calls)
{
	json_t *codes = json_object();

	for (unsigned i = 0; i < calls->code_count; i++) {
		char key[16];

		snprintf(key, sizeof(key), "%" PRId32, calls->codes[i].code);
		set_number(codes, key, calls->codes[i].count);
	}
	return codes;
}

static json_t *calls_table(const struct model *model)
{
	size_t count;
	struct model_named_calls *all = model_calls(model, &count);
	json_t *table = json_array();
	uint64_t all_ns = 0;

	for (size_t i = 0; i < count; i++)
		all_ns = sum_saturated(all_ns, all[i].calls.ns);
	for (size_t i = 0; i < count; i++) {
		const struct model_calls *calls = &all[i].calls;
		json_t *row = json_object();

		set_text(row, "name", all[i].name);
		set_share(row, calls->ns, all_ns);
		set_number(row, "count", calls->count);
		set_number(row, "errors", calls->errors);
		json_object_set_new(row, "codes", codes_json(calls));
		set_times(row, calls->count, calls->ns, &calls->times, calls->shortest_ns,
			calls->longest_ns);
		json_array_append_new(table, row);
	}
	model_calls_free(all, count);
	return table;
}

static json_t *copies_table(const struct model *model)
{
	json_t *table = json_array();

	for (unsigned i = 0; i < DIRECTION_COUNT * HOST_COUNT; i++) {
		unsigned direction = i / HOST_COUNT, host = i % HOST_COUNT;
		struct model_copies copies = model_copies_sum(model, direction, host);
		json_t *row;

		if (!copies.count)
			continue;
		row = json_object();
		set_text(row, "direction", direction_words[direction]);
		set_text(row, "host_memory", view_host_word(direction, host));
		set_number(row, "count", copies.count);
		set_number(row, "bytes", copies.bytes);
		set_number(row, "api_ns", copies.api_ns);
		set_number(row, "timed", copies.timed);
		set_known(row, "gpu_ns", copies.timed, copies.gpu_ns);
		set_known(row, "bytes_per_second", copies.gpu_ns, copies.gpu_ns ? model_rate(&copies) : 0);
		json_array_append_new(table, row);
	}
	return table;
}

static json_t *memory_table(const struct model *model)
{
	size_t count;
	struct model_held *held = model_held(model, &count);
	json_t *table = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct model_site *site = held[i].site;
		json_t *row = json_object();

		set_who(row, model, held[i].process);
		if (site->frames && *site->frames)
			set_text(row, "site", site->frames);
		else
			set_null(row, "site");
		set_number(row, "peak_bytes", site->peak_bytes);
		set_number(row, "peak_count", site->peak_count);
		set_number(row, "final_bytes", site->live_bytes);
		set_number(row, "final_count", site->live_count);
		set_number(row, "allocs", site->allocs);
		set_number(row, "bytes", site->bytes);
		json_object_set_new(row, "complete",
			json_boolean(!model->processes[held[i].process]->sites.incomplete));
		json_array_append_new(table, row);
	}
	free(held);
	return table;
}

static json_t *findings_table(const struct model *model)
{
	size_t count;
	struct view_finding *findings = view_findings(model, &count);
	json_t *table = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *row = json_object();

		set_who(row, model, findings[i].process);
		set_text(row, "code", findings[i].code);
		set_text(row, "text", findings[i].text);
		json_array_append_new(table, row);
	}
	free(findings);
	return table;
}

static const struct {
	const char *name;
	json_t *(*make)(const struct model *model);
} tables[] = {
	{ "processes", processes }, { "devices", devices }, { "gaps", gaps_table }, { "kernels", kernels },
	{ "calls", calls_table }, { "copies", copies_table }, { "memory", memory_table },
	{ "findings", findings_table },
};

enum { TABLES = sizeof(tables) / sizeof(*tables) };

void view_stats_tables(json_t *document, const struct model *model)
{
	for (size_t i = 0; i < TABLES; i++)
		json_object_set_new(document, tables[i].name, tables[i].make(model));
}

void view_stats_json(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	json_t *document = json_object();

	set_number(document, "schema", 1);
	json_object_set_new(document, "trace", view_trace_json(model, facts));
	view_stats_tables(document, model);
	json_dumpf(document, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(document);
}

/* ---- CSV ---- */

static void put_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void put_field(FILE *out, const json_t *value)
{
	char *text;

	fputc(',', out);
	if (json_is_integer(value)) {
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else if (json_is_string(value)) {
		char *safe = safe_text(json_string_value(value), 0);

		put_quoted(out, safe);
		free(safe);
	} else if (!json_is_null(value)) {
		text = need(json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY));
		put_quoted(out, text);
		free(text);
	}
}

/* Each table has a line of headings, "table" being the first; its name begins each line of it. */
void view_stats_csv(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	(void)facts;
	for (size_t i = 0; i < TABLES; i++) {
		json_t *table = tables[i].make(model), *row, *value;
		const char *key;
		size_t k;

		json_array_foreach (table, k, row) {
			if (k == 0) {
				fputs("table", out);
				json_object_foreach (row, key, value)
					fprintf(out, ",%s", key);
				fputs("\r\n", out);
			}
			fputs(tables[i].name, out);
			json_object_foreach (row, key, value)
				put_field(out, value);
			fputs("\r\n", out);
		}
		json_decref(table);
	}
}
