/*
 * view_json.c - the timeline as JSON or CSV; the keys are explained in cuward-timeline(1).
 *
 * Numbers are integers of bytes, nanoseconds or counts; what is not known is null.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "format.h"
#include "need.h"
#include "view_jansson.h"

#define STEPS_COLUMNS 256

static const char *const direction_words[] = {
#define X(id, word) word,
	CUWARD_DIRECTIONS(X)
#undef X
};

static const char *const verdict_words[] = {
#define X(id, word) word,
	CUWARD_VERDICTS(X)
#undef X
};

static const char *const end_words[] = {
#define X(id, word) word,
	CUWARD_ENDS(X)
#undef X
};

static void set_hex(json_t *object, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	set_text(object, key, text);
}

static void set_work(json_t *object, const struct model_work *work)
{
	json_t *copies = json_object();

	set_number(object, "launches", work->launches);
	for (unsigned i = 0; i < DIRECTION_COUNT; i++) {
		json_t *copy = json_object();

		set_number(copy, "count", work->copies[i].count);
		set_number(copy, "bytes", work->copies[i].bytes);
		json_object_set_new(copies, direction_words[i], copy);
	}
	json_object_set_new(object, "copies", copies);
}

/* Busy time: on the CPU always, on the GPU where it was recorded. */
static void set_busy(json_t *object, const struct model *model, const struct spans *api,
	const struct spans *gpu)
{
	set_number(object, "api_busy_ns", api->busy_ns);
	if (model->gpu_timing)
		set_number(object, "gpu_busy_ns", gpu->busy_ns);
	else
		set_null(object, "gpu_busy_ns");
}

/* ---- over time ---- */

static uint64_t column_start(const struct model *model, unsigned column)
{
	uint64_t span_ns = model->to_ns - model->from_ns;

	return model->from_ns + (uint64_t)((unsigned __int128)span_ns * column / STEPS_COLUMNS);
}

/* [[time, busy ns], ...] of the columns in which anything happened. */
static json_t *activity_json(const struct model *model, const struct spans *spans)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < STEPS_COLUMNS; i++) {
		uint64_t from = column_start(model, i), to = column_start(model, i + 1);
		struct strip_bucket sum = strip_sum(&spans->strip, from, to);

		if (sum.ns || sum.count)
			json_array_append_new(list, json_pack("[I,I]", (json_int_t)(from - model->first_ns),
				(json_int_t)sum.ns));
	}
	return list;
}

static void append_level(json_t *list, const struct model *model, uint64_t time_ns, uint64_t level)
{
	json_array_append_new(list, json_pack("[I,I]", (json_int_t)(time_ns - model->first_ns),
		(json_int_t)(level > INT64_MAX ? INT64_MAX : level)));
}

/* [[time, bytes], ...]: each change; where there are too many, the highest level of each column. */
static json_t *memory_json(const struct model *model, const struct steps *steps)
{
	json_t *list = json_array();
	uint64_t before = 0;

	for (size_t i = 0; i < steps->change_count; i++)
		append_level(list, model, steps->changes[i].time_ns, steps->changes[i].level);
	for (unsigned i = 0; i < STEPS_COLUMNS && steps->too_many; i++) {
		uint64_t from = column_start(model, i), to = column_start(model, i + 1);
		uint64_t level = from < to ? steps_highest(steps, from, to) : before;

		if (level != before)
			append_level(list, model, from, level);
		before = level;
	}
	return list;
}

/* ---- processes ---- */

static void set_limit(json_t *object, uint64_t limit_bytes)
{
	if (limit_bytes == 0 || limit_bytes == UINT64_MAX)
		set_null(object, "limit_bytes");
	else
		set_number(object, "limit_bytes", limit_bytes);
}

static json_t *lane_json(const struct model *model, const struct model_lane *lane)
{
	json_t *object = json_object();

	set_hex(object, "stream", lane->stream);
	if (lane->stream == 2)
		set_number(object, "tid", lane->tid);
	set_work(object, &lane->work);
	set_busy(object, model, &lane->api, &lane->gpu);
	json_object_set_new(object, "activity",
		activity_json(model, model->gpu_timing ? &lane->gpu : &lane->api));
	return object;
}

static json_t *device_json(const struct model *model, const struct model_process *process,
	unsigned i)
{
	const struct model_device *device = &process->devices[i];
	json_t *object = json_object(), *streams = json_array();

	set_number(object, "index", i);
	set_text(object, "uuid", device->uuid);
	set_text(object, "name", device->name);
	set_number(object, "total_bytes", device->total_bytes);
	set_limit(object, device->limit_bytes);
	set_number(object, "peak_bytes", device->memory.peak);
	set_number(object, "peak_ns",
		device->memory.peak ? device->memory.peak_ns - model->first_ns : 0);
	set_number(object, "final_bytes", device->final_bytes);
	set_number(object, "allocs", device->allocs);
	set_number(object, "frees", device->frees);
	set_number(object, "denied", device->denied);
	set_number(object, "denied_bytes", device->denied_bytes);
	set_busy(object, model, &device->api, &device->gpu);
	json_object_set_new(object, "memory", memory_json(model, &device->memory));
	json_object_set_new(object, "memory_is_exact", json_boolean(!device->memory.too_many));
	for (size_t k = 0; k < process->lane_count; k++)
		if (process->lanes[k].device == i)
			json_array_append_new(streams, lane_json(model, &process->lanes[k]));
	json_object_set_new(object, "streams", streams);
	return object;
}

static void set_who(json_t *object, const struct model_process *process)
{
	set_text(object, "host", process->host);
	if (!process->defined) {
		set_null(object, "pid");
		return;
	}
	set_number(object, "pid", process->pid);
	set_number(object, "pid_ns", process->pid_ns);
	set_number(object, "ppid", process->ppid);
	set_number(object, "image", process->image);
	set_number(object, "start_ticks", process->start_ticks);
	set_number(object, "uid", process->uid);
	if (process->user)
		set_text(object, "user", process->user);
	else
		set_null(object, "user");
	set_text(object, "command", process->command);
	set_text(object, "job", process->job);
	set_text(object, "labels", process->labels);
}

static void set_end(json_t *object, const struct model *model, const struct model_process *process)
{
	set_number(object, "start_ns", process->first_ns - model->first_ns);
	set_number(object, "last_ns", process->last_ns - model->first_ns);
	json_object_set_new(object, "complete", json_boolean(process->ended));
	set_text(object, "ended", process->ended ? end_words[process->how] : "unknown");
	if (process->ended && (process->how == END_EXIT || process->how == END_SIGNAL))
		json_object_set_new(object, "status", json_integer(process->status));
	else
		set_null(object, "status");
}

static void set_leaks(json_t *object, const struct model_process *process)
{
	json_t *leaks = json_object();

	if (!process->leaks_known) {
		json_decref(leaks);
		set_null(object, "leaks");
		return;
	}
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		json_t *one = json_object();

		set_number(one, "count", process->leaks[i].count);
		set_number(one, "bytes", process->leaks[i].bytes);
		json_object_set_new(leaks, verdict_words[i], one);
	}
	json_object_set_new(object, "leaks", leaks);
}

static json_t *calls_json(const struct model_process *process)
{
	json_t *calls = json_object();
	char number[16];

	for (unsigned i = 0; i < process->call_count; i++) {
		const struct model_calls *call = &process->calls[i];
		json_t *one;

		if (!call->count)
			continue;
		one = json_object();
		set_number(one, "count", call->count);
		set_number(one, "errors", call->errors);
		set_number(one, "ns", call->ns);
		set_number(one, "longest_ns", call->longest_ns);
		snprintf(number, sizeof(number), "%u", i);
		if (json_object_set(calls, process->call_names[i] ? process->call_names[i] : number, one))
			json_object_set(calls, number, one);
		json_decref(one);
	}
	return calls;
}

static json_t *untimed_json(const struct model_process *process)
{
	json_t *reasons = json_object();

#define X(id, word, text) \
	if (process->untimed[UNTIMED_##id]) \
		set_number(reasons, word, process->untimed[UNTIMED_##id]);
	CUWARD_UNTIMED(X)
#undef X
	return reasons;
}

static json_t *process_json(const struct model *model, const struct model_process *process)
{
	json_t *object = json_object(), *devices = json_array();

	set_who(object, process);
	set_end(object, model, process);
	set_busy(object, model, &process->api, &process->gpu);
	set_number(object, "api_ns", process->api_ns);
	set_number(object, "sync_ns", process->sync_ns);
	set_number(object, "syncs", process->syncs);
	set_number(object, "errors", process->errors);
	set_number(object, "threads", process->threads);
	set_number(object, "contexts", process->contexts);
	set_number(object, "streams", process->streams);
	set_number(object, "pinned_bytes", process->pinned_bytes);
	set_number(object, "gpu_timed", process->gpu_timed);
	set_number(object, "gpu_unmatched", process->gpu_unmatched);
	json_object_set_new(object, "gpu_untimed", untimed_json(process));
	set_number(object, "gpu_error_ns", process->gpu_error_ns);
	json_object_set_new(object, "recorded", json_boolean(!process->unrecorded));
	if (process->unrecorded)
		json_object_set_new(object, "lost_events", json_null());
	else
		set_number(object, "lost_events", process->lost);
	set_work(object, &process->work);
	set_leaks(object, process);
	for (unsigned i = 0; i < process->device_count; i++)
		if (process->devices[i].uuid && !model_is_no_device(process, i))
			json_array_append_new(devices, device_json(model, process, i));
	json_object_set_new(object, "devices", devices);
	json_object_set_new(object, "calls", calls_json(process));
	return object;
}

/* ---- the rest ---- */

static json_t *losses_json(const struct trace_facts *facts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < facts->loss_count; i++) {
		json_t *loss = json_object();

		set_text(loss, "stream", facts->losses[i].stream);
		set_number(loss, "events", facts->losses[i].events);
		set_number(loss, "packets", facts->losses[i].packets);
		json_array_append_new(list, loss);
	}
	return list;
}

json_t *view_trace_json(const struct model *model, const struct trace_facts *facts)
{
	struct view_doubts doubts = view_doubts(model, facts);
	json_t *object = json_object(), *hosts = json_array();

	set_number(object, "first_ns", model->first_ns);
	set_number(object, "last_ns", model->last_ns);
	set_number(object, "from_ns", model->from_ns - model->first_ns);
	set_number(object, "to_ns", model->to_ns - model->first_ns);
	set_number(object, "events", facts->events);
	set_number(object, "events_shown", model->events);
	set_number(object, "foreign_events", facts->foreign);
	set_number(object, "lost_events", doubts.lost);
	json_object_set_new(object, "lost_events_is_exact", 
		json_boolean(!doubts.lost_unknown && !doubts.damaged));
	set_number(object, "lost_packets", facts->lost_packets);
	json_object_set_new(object, "losses", losses_json(facts));
	set_number(object, "copied_packets", facts->copies);
	json_object_set_new(object, "damaged", json_boolean(doubts.damaged));
	set_number(object, "undefined_events", doubts.undefined);
	set_number(object, "truncated_processes", doubts.truncated);
	set_number(object, "unrecorded_processes", doubts.unrecorded);
	set_text(object, "timing", model->gpu_timing ? "gpu" : "api");
	for (size_t i = 0; i < model->host_count; i++) {
		char *safe = safe_text(model->hosts[i], 0);

		json_array_append_new(hosts, json_string(safe));
		free(safe);
	}
	json_object_set_new(object, "hosts", hosts);
	return object;
}

static json_t *gpu_json(const struct model *model, const struct model_gpu *gpu)
{
	json_t *object = json_object();

	set_text(object, "host", gpu->host);
	set_text(object, "uuid", gpu->uuid);
	set_text(object, "name", gpu->name);
	set_number(object, "total_bytes", gpu->total_bytes);
	set_number(object, "processes", gpu->processes);
	set_number(object, "peak_bytes", gpu->memory.peak);
	set_number(object, "denied", gpu->denied);
	set_busy(object, model, &gpu->api, &gpu->gpu);
	json_object_set_new(object, "memory", memory_json(model, &gpu->memory));
	json_object_set_new(object, "memory_is_exact", json_boolean(!gpu->memory.too_many));
	return object;
}

static json_t *kernels_json(const struct model *model)
{
	size_t count;
	struct model_function *kernels = model_kernels(model, &count);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *object = json_object();

		set_text(object, "name", kernels[i].name);
		set_number(object, "launches", kernels[i].launches);
		set_number(object, "api_ns", kernels[i].api_ns);
		set_number(object, "timed", kernels[i].timed);
		set_number(object, "gpu_ns", kernels[i].gpu_ns);
		set_number(object, "gpu_longest_ns", kernels[i].gpu_longest_ns);
		json_array_append_new(list, object);
	}
	model_kernels_free(kernels, count);
	return list;
}

void view_json(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	json_t *document = json_object(), *processes = json_array(), *gpus = json_array();

	set_number(document, "schema", 1);
	json_object_set_new(document, "trace", view_trace_json(model, facts));
	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden)
			json_array_append_new(processes, process_json(model, model->processes[i]));
	for (size_t i = 0; i < model->gpu_count; i++)
		json_array_append_new(gpus, gpu_json(model, &model->gpus[i]));
	json_object_set_new(document, "processes", processes);
	json_object_set_new(document, "gpus", gpus);
	json_object_set_new(document, "kernels", kernels_json(model));
	json_dumpf(document, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(document);
}
