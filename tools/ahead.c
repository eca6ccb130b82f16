/*
 * ahead.c - one thread reads, the other looks; a ring of batches lies between them.
 */
#include "ahead.h"

#include <pthread.h>

#include "arena.h"
#include "need.h"

#define BATCHES 8
#define BATCH_EVENTS 512

struct slot {
	struct ahead_batch batch;
	struct arena strings;
	bool full;
};

struct ahead {
	struct event_source *source;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slot slots[BATCHES];
	unsigned reading, looking; /* slots; looking is the one handed out last */
	bool handed_out, given_up;
	bool has_strings[EVENT_COUNT];
};

/* The strings of an event live in the source, and only until its next event. */
static void keep_strings(struct arena *strings, struct event *event)
{
	const struct event_schema *schema = event_schema(event->type);

	for (unsigned i = 0; i < schema->count; i++) {
		const char *text;

		if (schema->fields[i].type != FIELD_str)
			continue;
		text = event_string(event, &schema->fields[i]);
		event_set_string(event, &schema->fields[i], arena_text(strings, text, strlen(text)));
	}
}

static void read_batch(struct ahead *ahead, struct slot *slot)
{
	struct event_source *source = ahead->source;
	size_t count = 0;

	arena_reset(&slot->strings);
	while (count < BATCH_EVENTS && source->next(source, &slot->batch.events[count])) {
		struct event *event = &slot->batch.events[count++];

		if (ahead->has_strings[event->type])
			keep_strings(&slot->strings, event);
	}
	slot->batch.count = count;
	if (source->progress)
		source->progress(source, &slot->batch.read_bytes, &slot->batch.all_bytes);
}

static void *read_all(void *argument)
{
	struct ahead *ahead = argument;
	bool ended = false;

	while (!ended) {
		struct slot *slot = &ahead->slots[ahead->reading];

		pthread_mutex_lock(&ahead->lock);
		while (slot->full && !ahead->given_up)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
		ended = ahead->given_up;
		pthread_mutex_unlock(&ahead->lock);
		if (ended)
			break;
		read_batch(ahead, slot);
		ended = slot->batch.count == 0;
		pthread_mutex_lock(&ahead->lock);
		slot->full = true;
		pthread_cond_broadcast(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
		ahead->reading = (ahead->reading + 1) % BATCHES;
	}
	return NULL;
}

const struct ahead_batch *ahead_next(struct ahead *ahead)
{
	struct slot *slot = &ahead->slots[ahead->looking];

	pthread_mutex_lock(&ahead->lock);
	if (ahead->handed_out && slot->batch.count) {
		slot->full = false;
		pthread_cond_broadcast(&ahead->changed);
		ahead->looking = (ahead->looking + 1) % BATCHES;
		slot = &ahead->slots[ahead->looking];
	}
	ahead->handed_out = true;
	while (!slot->full)
		pthread_cond_wait(&ahead->changed, &ahead->lock);
	pthread_mutex_unlock(&ahead->lock);
	return &slot->batch;
}

struct ahead *ahead_open(struct event_source *source)
{
	struct ahead *ahead = need_zeroed(1, sizeof(*ahead));

	ahead->source = source;
	for (unsigned type = 0; type < EVENT_COUNT; type++)
		for (unsigned i = 0; i < event_schema(type)->count; i++)
			ahead->has_strings[type] |= event_schema(type)->fields[i].type == FIELD_str;
	for (unsigned i = 0; i < BATCHES; i++)
		ahead->slots[i].batch.events = need_zeroed(BATCH_EVENTS, sizeof(struct event));
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	if (pthread_create(&ahead->thread, NULL, read_all, ahead) != 0)
		need(NULL);
	return ahead;
}

void ahead_close(struct ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	ahead->given_up = true;
	pthread_cond_broadcast(&ahead->changed);
	pthread_mutex_unlock(&ahead->lock);
	pthread_join(ahead->thread, NULL);
	for (unsigned i = 0; i < BATCHES; i++) {
		arena_free(&ahead->slots[i].strings);
		free(ahead->slots[i].batch.events);
	}
	pthread_mutex_destroy(&ahead->lock);
	pthread_cond_destroy(&ahead->changed);
	free(ahead);
}
