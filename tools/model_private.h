/*
 * model_private.h - what the files of the model share: model.c knows who is who, model_work.c what
 * they do, model_sum.c adds up.
 */
#ifndef MODEL_PRIVATE_H
#define MODEL_PRIVATE_H

#include "model.h"

struct model_thread {
	struct model_process *process;
	char *name; /* NULL unknown */
	uint32_t tid;
	uint32_t lane; /* the one used last */
	bool defined;
};

/* Of the key that an event carries. */
struct model_process *model_process_of(struct model *model, const struct event *event, uint32_t key);
struct model_thread *model_find_thread(struct model *model, const struct event *event,
	uint32_t key);
struct model_device *model_add_device(struct model_process *process, uint8_t ordinal);

/* Cut a span to the range; false: nothing is left. */
static inline bool model_cut(const struct model *model, struct span *span)
{
	if (span->begin_ns < model->from_ns)
		span->begin_ns = model->from_ns;
	if (span->end_ns > model->to_ns)
		span->end_ns = model->to_ns;
	return span->begin_ns <= span->end_ns && span->begin_ns < model->to_ns;
}

/* The thread of a key; mostly the one of the event before. */
static inline struct model_thread *model_thread_of(struct model *model, const struct event *event,
	uint32_t key)
{
	if (model->last_key != ((uint64_t)event->source << 32 | key) ||
		model->last_thread == MAP_NONE || !model->threads[model->last_thread].defined)
		return model_find_thread(model, event, key);
	return &model->threads[model->last_thread];
}

static inline struct model_device *model_device_of(struct model_process *process, uint8_t ordinal)
{
	return ordinal < process->device_count && process->devices[ordinal].uuid
		? &process->devices[ordinal] : model_add_device(process, ordinal);
}

static inline bool model_in_range(const struct model *model, uint64_t time_ns)
{
	return time_ns >= model->from_ns && time_ns < model->to_ns;
}

static inline void model_touch(struct model_process *process, uint64_t time_ns)
{
	if (time_ns > process->last_ns)
		process->last_ns = time_ns;
}

struct model_calls *model_add_calls(struct model_process *process, uint16_t api);

static inline struct model_calls *model_calls_of(struct model_process *process, uint16_t api)
{
	return api < process->call_count ? &process->calls[api] : model_add_calls(process, api);
}

struct model_function *model_function_of(struct model_process *process, uint32_t id);

/* ---- model_sites.c: who holds how much ---- */

void sites_add(struct model_sites *sites, const struct event_alloc *e, uint64_t time_ns);
void sites_hold(struct model_sites *sites, const struct event_held *e);
void sites_remove(struct model_sites *sites, const struct event_free *e, uint64_t begin_ns);
void sites_name(struct model_sites *sites, uint32_t id, const char *frames);
void sites_finish(struct model_sites *sites);
void sites_free(struct model_sites *sites);

struct model_pending {
	uint32_t correlation;
	uint32_t lane;
	uint32_t function; /* index + 1, 0 for a copy */
	uint8_t direction, host; /* of a copy */
	uint64_t bytes;
	uint64_t time_ns; /* the end of its call */
};

/*
 * Launches and copies wait for their GPU time; an old one makes room for a new one. Where times are
 * told, it goes into a larger table, as work may have much before it.
 */
#define PENDING_COUNT 8192
#define PENDING_OLD_COUNT 131072

void model_add_pending(struct model_process *process);
void model_keep_pending(struct model_process *process, const struct model_pending *old);

/* Where a launch or copy that may get a time on the GPU later is to be noted. */
static inline struct model_pending *model_wait_for_gpu(struct model_process *process,
	uint32_t correlation)
{
	struct model_pending *pending;

	if (!process->pending)
		model_add_pending(process);
	pending = &process->pending[correlation % PENDING_COUNT];
	if (process->wants_gpu && pending->lane)
		model_keep_pending(process, pending);
	return pending;
}

/* A gpu event: join it with its launch or copy. */
void model_time_gpu(struct model *model, struct model_process *process, const struct event *event);

/* The process is gone, and so are its bytes on the GPUs. */
void model_release(struct model *model, struct model_process *process, uint64_t time_ns);

void model_settle_process(struct model_process *process);
void model_finish_process(const struct model *model, struct model_process *process);
void model_free_process(struct model_process *process);

/* model_work.c takes the events about work. */
void feed_context(struct model *model, const struct event *event);
void feed_stream(struct model *model, const struct event *event);
void feed_alloc(struct model *model, const struct event *event);
void feed_held(struct model *model, const struct event *event);
void feed_free(struct model *model, const struct event *event);
void feed_denied(struct model *model, const struct event *event);
void feed_launch(struct model *model, const struct event *event);
void feed_launched(struct model *model, const struct event *event);
void feed_copy(struct model *model, const struct event *event);
void feed_sync(struct model *model, const struct event *event);
void feed_call(struct model *model, const struct event *event);

#endif
