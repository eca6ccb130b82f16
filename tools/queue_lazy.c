/*
 * queue_lazy.c - who waits though he could go: others may pass him after a while.
 *
 * His own limits may keep him, or he only pretends to wait.
 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "need.h"

#define LAZY_NS 10000000000ull

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const struct queue_lazy *find(const struct queue_lazies *lazies, const struct queue_place *place)
{
	for (size_t i = 0; i < lazies->count; i++)
		if (strcmp(lazies->all[i].name, place->name) == 0)
			return &lazies->all[i];
	return NULL;
}

bool queue_is_lazy(const struct queue_lazies *lazies, const struct queue_place *place)
{
	const struct queue_lazy *lazy = find(lazies, place);

	return lazy && clock_ns() - lazy->since_ns >= LAZY_NS;
}

void queue_note_lazy(struct queue_lazies *lazies, const struct queue *queue, queue_could_go *could_go,
	const void *of)
{
	struct queue_lazies now = { need_zeroed(queue->waiting + 1, sizeof(*now.all)), 0 };

	for (size_t i = 0; i < queue->waiting; i++) {
		const struct queue_place *place = &queue->places[i];
		const struct queue_lazy *lazy = find(lazies, place);

		if (!could_go(of, place))
			continue;
		memcpy(now.all[now.count].name, place->name, sizeof(now.all[0].name));
		now.all[now.count++].since_ns = lazy ? lazy->since_ns : clock_ns();
	}
	queue_forget_lazy(lazies);
	*lazies = now;
}

void queue_forget_lazy(struct queue_lazies *lazies)
{
	free(lazies->all);
	*lazies = (struct queue_lazies){ NULL, 0 };
}
