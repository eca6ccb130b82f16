/*
 * model.c - events into processes, threads, devices and streams: who is who, and the dispatch.
 */
#include "model.h"

#include "model_private.h"
#include "need.h"

static const char *intern_host(struct model *model, const char *host)
{
	for (size_t i = 0; i < model->host_count; i++)
		if (strcmp(model->hosts[i], host) == 0)
			return model->hosts[i];
	model->hosts = need_room(model->hosts, model->host_count, &model->host_capacity,
		sizeof(*model->hosts));
	return model->hosts[model->host_count++] = need_copy(host);
}

static void set_text(char **text, const char *value)
{
	free(*text);
	*text = need_copy(value);
}

/* ---- processes ---- */

static uint64_t key_in(const struct event *event, uint32_t key)
{
	return (uint64_t)event->source << 32 | key;
}

static uint32_t add_process(struct model *model, const struct event *event)
{
	struct model_process *process = need_zeroed(1, sizeof(*process));

	if ((event->source & 0xffff) > model->users)
		model->users = event->source & 0xffff;
	process->host = intern_host(model, event->host ? event->host : "");
	process->command = need_copy("");
	process->job = need_copy("");
	process->labels = need_copy("");
	process->version = need_copy("");
	process->first_ns = event->time_ns;
	process->last_ns = event->time_ns;
	model->processes = need_room(model->processes, model->process_count, &model->process_capacity,
		sizeof(*model->processes));
	process->number = model->process_count;
	model->processes[model->process_count] = process;
	return (uint32_t)model->process_count++;
}

/* The process of a key, a nameless one where its definition has not been seen. */
static struct model_process *process_of(struct model *model, const struct event *event,
	uint64_t key)
{
	uint32_t index = map_get(&model->process_of, key);

	if (index == MAP_NONE) {
		index = add_process(model, event);
		map_set(&model->process_of, key, index);
	}
	return model->processes[index];
}

/*
 * Of its end somebody else may tell, whose events are another user's: then the key means what it means
 * there, if it means anything to one of them only.
 */
static struct model_process *process_told_of(struct model *model, const struct event *event,
	uint32_t key)
{
	uint64_t session = (uint64_t)(event->source & ~0xffffu) << 32 | key;
	uint32_t found = map_get(&model->process_of, key_in(event, key));

	for (uint64_t user = 0; user <= model->users && found == MAP_NONE; user++) {
		found = map_get(&model->process_of, session + (user << 32));
		if (found != MAP_NONE && (model->processes[found]->ended ||
			strcmp(model->processes[found]->host, event->host ? event->host : "") != 0))
			found = MAP_NONE;
	}
	return found == MAP_NONE ? process_of(model, event, key_in(event, key)) : model->processes[found];
}

struct model_process *model_process_of(struct model *model, const struct event *event, uint32_t key)
{
	return process_of(model, event, key_in(event, key));
}

static bool same_process(const struct model_process *process, const struct event *event)
{
	const struct event_process *e = &event->process;

	return process->defined && process->pid == e->pid && process->start_ticks == e->start_ticks &&
		process->pid_ns == e->pid_ns && process->image == e->image &&
		strcmp(process->host, event->host ? event->host : "") == 0;
}

static uint32_t find_process(const struct model *model, const struct event *event)
{
	for (uint32_t i = (uint32_t)model->process_count; i-- > 0;)
		if (same_process(model->processes[i], event))
			return i;
	return MAP_NONE;
}

static void set_who(struct model_process *process, const struct event_process *e)
{
	process->defined = true;
	process->pid = e->pid;
	process->ppid = e->ppid;
	process->uid = e->uid;
	process->pid_ns = e->pid_ns;
	process->image = e->image;
	process->start_ticks = e->start_ticks;
	process->start_realtime_ns = e->start_realtime_ns;
	set_text(&process->command, e->command);
	set_text(&process->job, e->job);
	set_text(&process->labels, e->labels);
	set_text(&process->version, e->version);
}

static void feed_process(struct model *model, const struct event *event)
{
	const struct event_process *e = &event->process;
	uint64_t key = key_in(event, e->process);
	uint32_t index = find_process(model, event), current = map_get(&model->process_of, key);
	struct model_process *process;

	/* Another process may have had this key; a nameless one becomes the one that is defined now. */
	if (index == MAP_NONE && current != MAP_NONE && !model->processes[current]->defined)
		index = current;
	if (index == MAP_NONE)
		index = add_process(model, event);
	map_set(&model->process_of, key, index);
	process = model->processes[index];
	set_who(process, e);
	model_touch(process, event->time_ns);
}

void model_add_unrecorded(struct model *model, const char *host, const struct event_process *who,
	enum cuward_end how, int status)
{
	struct event event = { .time_ns = model->last_ns, .host = host };
	uint32_t index = add_process(model, &event);
	struct model_process *process = model->processes[index];

	set_who(process, who);
	model_touch(process, event.time_ns);
	process->unrecorded = true;
	process->ended = how != END_RUNNING;
	process->how = how;
	process->status = status;
	set_text(&process->lost_why, "as the report beside the trace tells");
}

static void feed_process_end(struct model *model, const struct event *event)
{
	const struct event_process_end *e = &event->process_end;
	struct model_process *process = process_told_of(model, event, e->process);
	uint64_t after_ns = sum_saturated(process->last_ns, 1), end_ns = event->time_ns;

	/* It was written later, and the clock of ends is coarse: none is before the last event. */
	if (e->ended_ns && e->ended_ns <= event->time_ns) {
		end_ns = e->ended_ns > after_ns ? e->ended_ns : after_ns;
		model_touch(process, e->ended_ns);
	}
	if (!process->ended) {
		model_release(model, process, end_ns);
		model_settle_process(process);
	}
	process->ended = true;
	process->how = e->how < END_COUNT ? (enum cuward_end)e->how : END_UNKNOWN;
	process->status = e->status;
	process->end_live_bytes = e->live_bytes;
	process->end_live_count = e->live_count;
	process->end_denied = e->denied;
	process->leaks_known = true;
}

/* ---- threads ---- */

static uint32_t add_thread(struct model *model, uint64_t key, struct model_thread thread)
{
	model->threads = need_room(model->threads, model->thread_count, &model->thread_capacity,
		sizeof(*model->threads));
	model->threads[model->thread_count] = thread;
	map_set(&model->thread_of, key, (uint32_t)model->thread_count);
	model->last_thread = MAP_NONE;
	return (uint32_t)model->thread_count++;
}

static void feed_thread(struct model *model, const struct event *event)
{
	const struct event_thread *e = &event->thread;
	struct model_process *process = process_of(model, event, key_in(event, e->process));
	uint32_t index = map_get(&model->thread_of, key_in(event, e->thread));

	model_touch(process, event->time_ns);
	if (index != MAP_NONE && model->threads[index].process == process &&
		model->threads[index].tid == e->tid)
		return;
	process->threads++;
	add_thread(model, key_in(event, e->thread),
		(struct model_thread){ process, need_copy(e->name), e->tid, MAP_NONE, true });
}

/* The thread of a key; threads that were never defined belong to one nameless process a source. */
struct model_thread *model_find_thread(struct model *model, const struct event *event,
	uint32_t key)
{
	uint64_t whole = key_in(event, key);
	uint32_t index = map_get(&model->thread_of, whole);

	if (index == MAP_NONE) {
		uint64_t nameless = 1ull << 63 | event->source;

		index = add_thread(model, key_in(event, key), (struct model_thread){
			.process = process_of(model, event, nameless), .lane = MAP_NONE });
	}
	model->last_key = whole;
	model->last_thread = index;
	model->undefined += !model->threads[index].defined;
	return &model->threads[index];
}

/* ---- devices ---- */

static uint32_t find_gpu(struct model *model, const char *host, const char *uuid)
{
	for (size_t i = 0; i < model->gpu_count; i++)
		if (model->gpus[i].host == host && strcmp(model->gpus[i].uuid, uuid) == 0)
			return (uint32_t)i;
	model->gpus = need_room(model->gpus, model->gpu_count, &model->gpu_capacity,
		sizeof(*model->gpus));
	model->gpus[model->gpu_count] = (struct model_gpu){ .host = host, .uuid = need_copy(uuid),
		.name = need_copy("") };
	return (uint32_t)model->gpu_count++;
}

struct model_device *model_add_device(struct model_process *process, uint8_t ordinal)
{
	struct model_device *device;

	if (ordinal >= process->device_count) {
		unsigned count = ordinal + 1u;

		process->devices = need(reallocarray(process->devices, count, sizeof(*process->devices)));
		memset(process->devices + process->device_count, 0,
			(count - process->device_count) * sizeof(*process->devices));
		process->device_count = count;
	}
	device = &process->devices[ordinal];
	if (!device->uuid) {
		device->uuid = need_copy("");
		device->name = need_copy("");
		device->gpu_index = MAP_NONE;
	}
	return device;
}

static void feed_device(struct model *model, const struct event *event)
{
	const struct event_device *e = &event->device;
	struct model_process *process = process_of(model, event, key_in(event, e->process));
	struct model_device *device = model_device_of(process, e->device);
	struct model_gpu *gpu;

	model_touch(process, event->time_ns);
	set_text(&device->uuid, e->uuid);
	set_text(&device->name, e->name);
	device->total_bytes = e->total_bytes;
	device->limit_bytes = e->limit_bytes;
	if (!*device->uuid || device->gpu_index != MAP_NONE)
		return;
	device->gpu_index = find_gpu(model, process->host, device->uuid);
	gpu = &model->gpus[device->gpu_index];
	set_text(&gpu->name, e->name);
	gpu->total_bytes = e->total_bytes;
	gpu->processes++;
}

/* ---- names and facts of a process ---- */

static void feed_api(struct model *model, const struct event *event)
{
	struct model_process *process = process_of(model, event, key_in(event, event->api.process));

	model_touch(process, event->time_ns);
	model_calls_of(process, event->api.api);
	set_text(&process->call_names[event->api.api], event->api.name);
}

static void feed_function(struct model *model, const struct event *event)
{
	const struct event_function *e = &event->function;
	struct model_process *process = process_of(model, event, key_in(event, e->process));

	model_touch(process, event->time_ns);
	set_text(&model_function_of(process, e->function)->name, e->name);
}

static void feed_stream_number(struct model *model, const struct event *event)
{
	const struct event_stream_number *e = &event->stream_number;
	struct model_process *process = process_of(model, event, key_in(event, e->process));

	model_touch(process, event->time_ns);
	process->streams_numbered = need_room(process->streams_numbered, process->numbered_count,
		&process->numbered_capacity, sizeof(*process->streams_numbered));
	map_set(&process->stream_of, e->number, (uint32_t)process->numbered_count);
	process->streams_numbered[process->numbered_count++] = e->stream;
	process->number_at_hand = 0;
}

static void feed_site(struct model *model, const struct event *event)
{
	const struct event_site *e = &event->site;
	struct model_process *process = process_of(model, event, key_in(event, e->process));

	model_touch(process, event->time_ns);
	sites_name(&process->sites, e->site, e->frames);
}

static void feed_leak(struct model *model, const struct event *event)
{
	const struct event_leak *e = &event->leak;
	struct model_process *process = process_told_of(model, event, e->process);
	unsigned verdict = e->verdict < VERDICT_COUNT ? e->verdict : VERDICT_LEAK;
	struct model_leaks *leaks = &process->leaks[verdict];

	process->leaks_known = true;
	leaks->count = sum_saturated(leaks->count, e->count);
	leaks->bytes = sum_saturated(leaks->bytes, e->bytes);
}

static void feed_lost(struct model *model, const struct event *event)
{
	struct model_process *process = process_of(model, event, key_in(event, event->lost.process));

	process->lost = sum_saturated(process->lost, event->lost.events);
	process->unrecorded |= event->lost.events == 0;
	set_text(&process->lost_why, event->lost.why);
}

static void feed_untimed(struct model *model, const struct event *event)
{
	const struct event_untimed *e = &event->untimed;
	struct model_process *process = process_of(model, event, key_in(event, e->process));

	process->wants_gpu = true;
	if (model_in_range(model, event->time_ns) && e->reason < UNTIMED_COUNT)
		process->untimed[e->reason]++;
}

static void feed_gpu(struct model *model, const struct event *event)
{
	struct model_process *process = process_of(model, event, key_in(event, event->gpu.process));

	model_time_gpu(model, process, event);
}

/* ---- the model ---- */

static uint64_t moment(struct model_moment at, uint64_t first_ns)
{
	return at.absolute ? at.ns : sum_saturated(first_ns, at.ns);
}

static void begin(struct model *model, const struct event *event)
{
	uint64_t duration_ns = event_duration(event);

	model->any = true;
	model->first_ns = event->time_ns > duration_ns ? event->time_ns - duration_ns : 0;
	model->from_ns = moment(model->range.from, model->first_ns);
	model->to_ns = moment(model->range.to, model->first_ns);
	if (model->from_ns < model->first_ns)
		model->from_ns = model->first_ns;
}

void model_feed(struct model *model, const struct event *event)
{
	typedef void feeder(struct model *, const struct event *);
	static feeder *const feeds[] = {
#define F(type, name)
#define X(event, fields) [EVENT_##event] = feed_##event,
		CUWARD_EVENTS(X, F)
#undef X
#undef F
	};

	if (!model->any)
		begin(model, event);
	if (event->time_ns > model->last_ns)
		model->last_ns = event->time_ns;
	model->events += model_in_range(model, event->time_ns);
	feeds[event->type](model, event);
}

struct model *model_open(const struct model_range *range)
{
	struct model *model = need_zeroed(1, sizeof(*model));

	model->last_thread = MAP_NONE;
	model->range = range ? *range : (struct model_range){ .to = { UINT64_MAX, true } };
	return model;
}

void model_finish(struct model *model)
{
	uint64_t end_ns = sum_saturated(model->last_ns, 1);

	if (model->to_ns > end_ns)
		model->to_ns = end_ns;
	if (model->from_ns > model->to_ns)
		model->from_ns = model->to_ns;
	for (size_t i = 0; i < model->process_count; i++)
		model_finish_process(model, model->processes[i]);
	for (size_t i = 0; i < model->gpu_count; i++) {
		spans_finish(&model->gpus[i].api);
		spans_finish(&model->gpus[i].gpu);
		steps_finish(&model->gpus[i].memory, model->from_ns);
	}
}

void model_close(struct model *model)
{
	for (size_t i = 0; i < model->process_count; i++)
		model_free_process(model->processes[i]);
	for (size_t i = 0; i < model->gpu_count; i++) {
		free(model->gpus[i].uuid);
		free(model->gpus[i].name);
		spans_free(&model->gpus[i].api);
		spans_free(&model->gpus[i].gpu);
		steps_free(&model->gpus[i].memory);
	}
	for (size_t i = 0; i < model->host_count; i++)
		free(model->hosts[i]);
	for (size_t i = 0; i < model->thread_count; i++)
		free(model->threads[i].name);
	map_free(&model->thread_of);
	map_free(&model->process_of);
	free(model->processes);
	free(model->gpus);
	free(model->hosts);
	free(model->threads);
	histogram_free(&model->gpu_errors);
	free(model);
}
