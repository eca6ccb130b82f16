/*
 * model_work.c - events about work and memory: calls, launches, copies, waits, allocations.
 *
 * An event comes after its call: the call began duration_ns before. Without times from the GPU
 * these spans on the CPU are what is known; with them, both are kept apart.
 */
#include "model_private.h"
#include "need.h"

/* ---- spans, cut to the range that is told ---- */

/* The time of a call, as much of it as lies in the range. */
struct call {
	struct span span;
	uint64_t duration_ns;
	bool in_range;    /* the end of it: the call counts */
	bool has_span;
};

static inline struct call call_of(const struct model *model, const struct event *event,
	uint64_t duration_ns)
{
	uint64_t begin_ns = event->time_ns > duration_ns ? event->time_ns - duration_ns : 0;
	struct call call = { { begin_ns, event->time_ns }, duration_ns,
		model_in_range(model, event->time_ns), false };

	call.has_span = model_cut(model, &call.span);
	return call;
}

/* ---- lanes, functions, calls ---- */

static uint64_t lane_key(uint8_t device, uint64_t stream, uint32_t tid)
{
	return map_mix(map_mix(stream) + device) + tid;
}

static uint32_t find_lane(const struct model_process *process, uint8_t device, uint64_t stream,
	uint32_t tid)
{
	uint32_t index = map_get(&process->lane_of, lane_key(device, stream, tid));

	while (index != MAP_NONE) {
		const struct model_lane *lane = &process->lanes[index];

		if (lane->device == device && lane->stream == stream && lane->tid == tid)
			break;
		index = lane->next;
	}
	return index;
}

static uint32_t lane_of(struct model_thread *thread, uint8_t device, uint64_t stream)
{
	struct model_process *process = thread->process;
	uint32_t tid = stream == 2 ? thread->tid : 0, index = thread->lane;
	uint64_t key = lane_key(device, stream, tid);

	if (index != MAP_NONE && process->lanes[index].stream == stream &&
		process->lanes[index].device == device && process->lanes[index].tid == tid)
		return index;
	index = find_lane(process, device, stream, tid);
	if (index == MAP_NONE) {
		process->lanes = need_room(process->lanes, process->lane_count, &process->lane_capacity,
			sizeof(*process->lanes));
		index = (uint32_t)process->lane_count++;
		process->lanes[index] = (struct model_lane){ .device = device, .tid = tid, .stream = stream,
			.next = map_get(&process->lane_of, key) };
		map_set(&process->lane_of, key, index);
		model_device_of(process, device)->used = true;
	}
	thread->lane = index;
	return index;
}

struct model_function *model_function_of(struct model_process *process, uint32_t id)
{
	uint32_t index = map_get(&process->function_of, id);

	if (index == MAP_NONE) {
		process->functions = need_room(process->functions, process->function_count,
			&process->function_capacity, sizeof(*process->functions));
		index = (uint32_t)process->function_count++;
		process->functions[index] = (struct model_function){ .name = need_copy("") };
		map_set(&process->function_of, id, index);
	}
	return &process->functions[index];
}

struct model_calls *model_add_calls(struct model_process *process, uint16_t api)
{
	if (api >= process->call_count) {
		unsigned old = process->call_count, count = api + 64u;

		process->calls = need(reallocarray(process->calls, count, sizeof(*process->calls)));
		process->call_names = need(reallocarray(process->call_names, count, sizeof(char *)));
		memset(process->calls + old, 0, (count - old) * sizeof(*process->calls));
		memset(process->call_names + old, 0, (count - old) * sizeof(char *));
		process->call_count = count;
	}
	return &process->calls[api];
}

/* ---- one call: what all of them have in common ---- */

static void count_error(struct model_calls *calls, int32_t code)
{
	unsigned i = 0;

	calls->errors++;
	while (i < calls->code_count && calls->codes[i].code != code)
		i++;
	if (i == calls->code_count) {
		calls->codes = need(reallocarray(calls->codes, i + 1, sizeof(*calls->codes)));
		calls->codes[calls->code_count++] = (struct model_code){ code, 0 };
	}
	calls->codes[i].count++;
}

static inline void count_call(const struct model *model, struct model_process *process,
	const struct event *event, const struct call *call, uint16_t api, int32_t result)
{
	struct model_calls *calls;

	model_touch(process, event->time_ns);
	if (api == API_SAME_CALL && event->type == EVENT_launch)
		return;
	calls = model_calls_of(process, api);
	if (call->has_span)
		spans_add(&process->api, model->from_ns, call->span.begin_ns, call->span.end_ns);
	if (!call->in_range)
		return;
	if (!calls->count++ || call->duration_ns < calls->shortest_ns)
		calls->shortest_ns = call->duration_ns;
	histogram_add(&calls->times, call->duration_ns);
	if (result != 0)
		count_error(calls, result);
	calls->ns = sum_saturated(calls->ns, call->duration_ns);
	if (call->duration_ns > calls->longest_ns)
		calls->longest_ns = call->duration_ns;
	process->api_ns = sum_saturated(process->api_ns, call->duration_ns);
	process->errors += result != 0;
}

/* Activity of a stream, its device and its GPU, on the CPU. */
static inline void add_activity(struct model *model, struct model_process *process,
	uint32_t lane_index, const struct call *call)
{
	struct model_lane *lane = &process->lanes[lane_index];
	struct model_device *device = model_device_of(process, lane->device);
	uint64_t start_ns = model->from_ns;
	struct span span = call->span;

	if (!call->has_span)
		return;
	spans_add(&lane->api, start_ns, span.begin_ns, span.end_ns);
	spans_add(&device->api, start_ns, span.begin_ns, span.end_ns);
	if (device->gpu_index != MAP_NONE)
		spans_add(&model->gpus[device->gpu_index].api, start_ns, span.begin_ns, span.end_ns);
}

/* Somebody wants to see each of them. */
static void __attribute__((noinline)) observe(const struct model *model,
	const struct model_thread *thread, const struct call *call, uint16_t api, struct model_slice slice)
{
	const struct model_process *process = thread->process;

	if (!call->has_span)
		return;
	slice.kind = SLICE_CALL;
	slice.process = process;
	slice.tid = thread->tid;
	slice.thread = thread->name;
	slice.begin_ns = call->span.begin_ns;
	slice.end_ns = call->span.end_ns;
	slice.api = api;
	slice.call = api < process->call_count ? process->call_names[api] : NULL;
	model->observer->slice(model->observer->user, &slice);
}

/* ---- events ---- */

void feed_context(struct model *model, const struct event *event)
{
	struct model_process *process = model_thread_of(model, event, event->context.thread)->process;

	model_touch(process, event->time_ns);
	model_device_of(process, event->context.device)->used = true;
	process->contexts += event->context.what == OBJECT_CREATED;
}

void feed_stream(struct model *model, const struct event *event)
{
	struct model_process *process = model_thread_of(model, event, event->stream.thread)->process;

	model_touch(process, event->time_ns);
	model_device_of(process, event->stream.device)->used = true;
	process->streams += event->stream.what == OBJECT_CREATED;
}

/* Host and imported memory is no memory of the device that happens to be current. */
static bool is_charged(uint8_t kind)
{
	return kind != KIND_PINNED && kind != KIND_IMPORTED;
}

static void set_level(struct model *model, const struct model_process *process,
	struct model_device *device, uint64_t time_ns, uint64_t level)
{
	struct model_gpu *gpu = device->gpu_index == MAP_NONE ? NULL : &model->gpus[device->gpu_index];
	uint64_t before = device->memory.level;

	if (time_ns >= model->to_ns)
		return;
	if (model->observer && time_ns >= model->from_ns)
		model->observer->level(model->observer->user, process,
			(unsigned)(device - process->devices), time_ns, level);
	steps_set(&device->memory, model->from_ns, time_ns, level);
	if (!gpu)
		return;
	/* Of an end that is told late: others have changed since. */
	if (time_ns < gpu->memory.at_ns && level < before)
		steps_lower(&gpu->memory, time_ns, before - level);
	else
		steps_set(&gpu->memory, model->from_ns, time_ns, sum_saturated(level,
			gpu->memory.level > before ? gpu->memory.level - before : 0));
}

void feed_alloc(struct model *model, const struct event *event)
{
	const struct event_alloc *e = &event->alloc;
	struct call call = call_of(model, event, e->duration_ns);
	struct model_thread *thread = model_thread_of(model, event, e->thread);
	struct model_process *process = thread->process;
	struct model_device *device;

	count_call(model, process, event, &call, e->api, 0);
	if (model->observer)
		observe(model, thread, &call, e->api, (struct model_slice){
			.lane = MAP_NONE, .bytes = e->bytes, .has_bytes = true });
	if (!is_charged(e->kind)) {
		if (call.in_range)
			process->pinned_bytes = sum_saturated(process->pinned_bytes, e->bytes);
		return;
	}
	add_activity(model, process, lane_of(thread, e->device, e->stream), &call);
	device = model_device_of(process, e->device);
	device->allocs += call.in_range;
	if (call.in_range) {
		process->alloc_ns = sum_saturated(process->alloc_ns, e->duration_ns);
		process->alloc_bytes = sum_saturated(process->alloc_bytes, e->bytes);
	}
	sites_add(&process->sites, e, event->time_ns);
	set_level(model, process, device, event->time_ns, e->live_bytes);
}

void feed_free(struct model *model, const struct event *event)
{
	const struct event_free *e = &event->free;
	struct call call = call_of(model, event, e->duration_ns);
	struct model_thread *thread = model_thread_of(model, event, e->thread);
	struct model_process *process = thread->process;
	struct model_device *device;

	count_call(model, process, event, &call, e->api, 0);
	if (model->observer)
		observe(model, thread, &call, e->api, (struct model_slice){
			.lane = MAP_NONE, .bytes = e->bytes, .has_bytes = true });
	if (!is_charged(e->kind))
		return;
	add_activity(model, process, lane_of(thread, e->device, 0), &call);
	device = model_device_of(process, e->device);
	device->frees += call.in_range;
	if (call.in_range)
		process->alloc_ns = sum_saturated(process->alloc_ns, e->duration_ns);
	sites_remove(&process->sites, e, event->time_ns - e->duration_ns);
	set_level(model, process, device, event->time_ns, e->live_bytes);
}

/* It was there before the trace began: no work, and no call that this trace could count. */
void feed_held(struct model *model, const struct event *event)
{
	const struct event_held *e = &event->held;
	struct model_process *process = model_process_of(model, event, e->process);
	struct model_device *device;

	model_touch(process, event->time_ns);
	if (!is_charged(e->kind))
		return;
	device = model_device_of(process, e->device);
	device->used |= e->count > 0;
	if (e->pointer)
		sites_hold(&process->sites, e);
	set_level(model, process, device, event->time_ns, e->live_bytes);
}

void feed_denied(struct model *model, const struct event *event)
{
	const struct event_denied *e = &event->denied;
	struct model_process *process = model_thread_of(model, event, e->thread)->process;
	struct model_device *device = model_device_of(process, e->device);

	model_touch(process, event->time_ns);
	device->used = true;
	if (!model_in_range(model, event->time_ns))
		return;
	if (model->observer)
		model->observer->refusal(model->observer->user, process, e->device, event->time_ns,
			e->bytes);
	device->denied++;
	device->denied_bytes = sum_saturated(device->denied_bytes, e->bytes);
	if (e->bytes > process->largest_refusal) {
		process->largest_refusal = e->bytes;
		process->refused_used = e->used_bytes;
		process->refused_limit = e->limit_bytes;
	}
	if (!process->refusal_text && e->text && e->text[0])
		process->refusal_text = need_copy(e->text);
	strip_count(&device->refusals, model->from_ns, event->time_ns);
	if (device->gpu_index != MAP_NONE)
		model->gpus[device->gpu_index].denied++;
}

static void set_shape(struct model_function *function, const struct event_launch *e)
{
	const uint32_t grid[3] = { e->grid_x, e->grid_y, e->grid_z };
	const uint32_t block[3] = { e->block_x, e->block_y, e->block_z };

	memcpy(function->grid, grid, sizeof(grid));
	memcpy(function->block, block, sizeof(block));
}

static bool has_shape(const struct model_function *function, const struct event_launch *e)
{
	return ((function->grid[0] ^ e->grid_x) | (function->grid[1] ^ e->grid_y) |
		(function->grid[2] ^ e->grid_z) | (function->block[0] ^ e->block_x) |
		(function->block[1] ^ e->block_y) | (function->block[2] ^ e->block_z)) == 0;
}

static void count_launch(struct model_function *function, const struct event_launch *e,
	uint32_t lane)
{
	if (!function->launches++)
		set_shape(function, e);
	function->shapes_differ |= !has_shape(function, e);
	function->lanes |= 1ull << (lane < 63 ? lane : 63);
	if (e->api == API_SAME_CALL)
		return;
	if (!function->api_times.count || e->duration_ns < function->api_shortest_ns)
		function->api_shortest_ns = e->duration_ns;
	function->api_ns = sum_saturated(function->api_ns, e->duration_ns);
	histogram_add(&function->api_times, e->duration_ns);
	if (e->duration_ns > function->api_longest_ns)
		function->api_longest_ns = e->duration_ns;
}

/* Function 0 is none: a graph, where the call says so. */
static struct model_function *launched(struct model_process *process, const struct event_launch *e)
{
	struct model_function *function = model_function_of(process, e->function);
	const char *call = NULL;

	if (e->function == 0 && !*function->name && e->api < process->call_count)
		call = process->call_names[e->api];
	if (call && strncmp(call, "cuGraphLaunch", 13) == 0) {
		free(function->name);
		function->name = need_copy("(graph)");
	}
	return function;
}

static void work_launch(struct model *model, const struct event *event, const struct event_launch *e)
{
	struct call call = call_of(model, event, e->duration_ns);
	struct model_thread *thread = model_thread_of(model, event, e->thread);
	struct model_process *process = thread->process;
	uint32_t lane = lane_of(thread, e->device, e->stream);
	struct model_function *function = launched(process, e);
	struct model_pending *pending;

	count_call(model, process, event, &call, e->api, e->result);
	add_activity(model, process, lane, &call);
	if (model->observer && e->api != API_SAME_CALL)
		observe(model, thread, &call, e->api, (struct model_slice){
			.lane = lane, .name = function->name,
			.result = e->result, .correlation = e->correlation, .has_correlation = !e->result });
	if (e->result != 0)
		return;
	pending = model_wait_for_gpu(process, e->correlation);
	pending->correlation = e->correlation;
	pending->lane = lane + 1;
	pending->function = (uint32_t)(function - process->functions) + 1;
	pending->time_ns = event->time_ns;
	if (!model_in_range(model, event->time_ns))
		return;
	process->lanes[lane].work.launches++;
	process->work.launches++;
	count_launch(function, e, lane);
}

void feed_launch(struct model *model, const struct event *event)
{
	work_launch(model, event, &event->launch);
}

/* Of a number that the trace does not define the stream is not known. */
static uint64_t stream_numbered(struct model_process *process, uint32_t number)
{
	uint32_t index;

	if (process->number_at_hand == number && number)
		return process->stream_at_hand;
	index = map_get(&process->stream_of, number);
	process->number_at_hand = number;
	return process->stream_at_hand = index == MAP_NONE ? 0 : process->streams_numbered[index];
}

void feed_launched(struct model *model, const struct event *event)
{
	const struct event_launched *e = &event->launched;
	struct model_process *process = model_thread_of(model, event, e->thread)->process;
	const struct event_launch whole = {
		.thread = e->thread, .api = e->api, .device = e->device, .duration_ns = e->duration_ns,
		.function = e->function, .grid_x = e->grid_x, .grid_y = e->grid_y, .grid_z = e->grid_z,
		.block_x = e->block_x, .block_y = e->block_y, .block_z = e->block_z,
		.shared_bytes = e->shared_bytes, .correlation = e->correlation,
		.stream = stream_numbered(process, e->number) };

	work_launch(model, event, &whole);
}

static void count_copy(struct model_copies *copies, const struct event_copy *e)
{
	copies->count++;
	copies->bytes = sum_saturated(copies->bytes, e->bytes);
	copies->api_ns = sum_saturated(copies->api_ns, e->duration_ns);
}

void feed_copy(struct model *model, const struct event *event)
{
	const struct event_copy *e = &event->copy;
	struct call call = call_of(model, event, e->duration_ns);
	struct model_thread *thread = model_thread_of(model, event, e->thread);
	struct model_process *process = thread->process;
	uint32_t lane = lane_of(thread, e->device, e->stream);
	uint8_t direction = e->direction < DIRECTION_COUNT ? e->direction : DIRECTION_UNKNOWN;
	uint8_t host = e->host < HOST_COUNT ? e->host : HOST_UNKNOWN;
	struct model_pending *pending;

	count_call(model, process, event, &call, e->api, e->result);
	add_activity(model, process, lane, &call);
	if (model->observer)
		observe(model, thread, &call, e->api, (struct model_slice){
			.lane = lane, .result = e->result, .correlation = e->correlation,
			.has_correlation = !e->result, .bytes = e->bytes, .has_bytes = true });
	if (e->result != 0)
		return;
	pending = model_wait_for_gpu(process, e->correlation);
	pending->correlation = e->correlation;
	pending->lane = lane + 1;
	pending->function = 0;
	pending->direction = direction;
	pending->host = host;
	pending->bytes = e->bytes;
	pending->time_ns = event->time_ns;
	if (!model_in_range(model, event->time_ns))
		return;
	count_copy(&process->work.copies[direction], e);
	count_copy(&process->lanes[lane].work.copies[direction], e);
	count_copy(&process->ways.of[direction][host], e);
}

void feed_sync(struct model *model, const struct event *event)
{
	const struct event_sync *e = &event->sync;
	struct call call = call_of(model, event, e->duration_ns);
	struct model_thread *thread = model_thread_of(model, event, e->thread);
	struct model_process *process = thread->process;
	uint32_t tid = e->handle == 2 ? thread->tid : 0;
	/* The handle may be a stream, an event or nothing; only a stream we know has a lane. */
	uint32_t lane = find_lane(process, e->device, e->handle, tid);

	count_call(model, process, event, &call, e->api, e->result);
	if (lane == MAP_NONE)
		lane = lane_of(thread, e->device, 0);
	add_activity(model, process, lane, &call);
	if (model->observer)
		observe(model, thread, &call, e->api, (struct model_slice){ .lane = lane, .result = e->result });
	if (!model_in_range(model, event->time_ns))
		return;
	process->syncs++;
	process->sync_ns = sum_saturated(process->sync_ns, e->duration_ns);
}

void feed_call(struct model *model, const struct event *event)
{
	const struct model_thread *thread = model_thread_of(model, event, event->call.thread);
	struct model_process *process = thread->process;
	struct call call = call_of(model, event, event->call.duration_ns);

	count_call(model, process, event, &call, event->call.api, event->call.result);
	if (model->observer)
		observe(model, thread, &call, event->call.api, (struct model_slice){
			.lane = MAP_NONE, .result = event->call.result });
}

/* ---- the end ---- */

void model_release(struct model *model, struct model_process *process, uint64_t time_ns)
{
	for (unsigned i = 0; i < process->device_count; i++) {
		struct model_device *device = &process->devices[i];

		device->final_bytes = device->memory.level;
		if (device->memory.level)
			set_level(model, process, device, time_ns, 0);
	}
}

/* A trace may have thousands of processes; those that ended need little. */
void model_settle_process(struct model_process *process)
{
	spans_finish(&process->api);
	spans_finish(&process->gpu);
	for (size_t i = 0; i < process->lane_count; i++) {
		spans_finish(&process->lanes[i].api);
		spans_finish(&process->lanes[i].gpu);
	}
	for (unsigned i = 0; i < process->device_count; i++) {
		spans_finish(&process->devices[i].api);
		spans_finish(&process->devices[i].gpu);
	}
	free(process->pending);
	free(process->pending_old);
	process->pending = process->pending_old = NULL;
}

void model_finish_process(const struct model *model, struct model_process *process)
{
	model_settle_process(process);
	sites_finish(&process->sites);
	for (unsigned i = 0; i < process->device_count; i++) {
		steps_finish(&process->devices[i].memory, model->from_ns);
		if (!process->ended)
			process->devices[i].final_bytes = process->devices[i].memory.level;
	}
}

static void free_device(struct model_device *device)
{
	free(device->uuid);
	free(device->name);
	free(device->refusals.buckets);
	steps_free(&device->memory);
	spans_free(&device->api);
	spans_free(&device->gpu);
}

void model_free_process(struct model_process *process)
{
	for (unsigned i = 0; i < process->device_count; i++)
		free_device(&process->devices[i]);
	for (size_t i = 0; i < process->lane_count; i++) {
		spans_free(&process->lanes[i].api);
		spans_free(&process->lanes[i].gpu);
	}
	for (size_t i = 0; i < process->function_count; i++) {
		free(process->functions[i].name);
		free(process->functions[i].shown);
		histogram_free(&process->functions[i].gpu_times);
		histogram_free(&process->functions[i].api_times);
	}
	for (unsigned i = 0; i < process->call_count; i++) {
		free(process->call_names[i]);
		free(process->calls[i].codes);
		histogram_free(&process->calls[i].times);
	}
	sites_free(&process->sites);
	spans_free(&process->api);
	spans_free(&process->gpu);
	map_free(&process->lane_of);
	map_free(&process->function_of);
	map_free(&process->stream_of);
	free(process->streams_numbered);
	free(process->refusal_text);
	free(process->devices);
	free(process->lanes);
	free(process->functions);
	free(process->calls);
	free(process->call_names);
	free(process->pending);
	free(process->pending_old);
	free(process->command);
	free(process->job);
	free(process->labels);
	free(process->version);
	free(process->user);
	free(process->lost_why);
	free(process);
}
