/*
 * sim_object.c - regions of handles: see sim_object.h.
 */
#include "sim_object.h"
#include "sim_array.h"
#include "sim_context.h"
#include "sim_external.h"
#include "sim_graph.h"
#include "sim_green.h"
#include "sim_knobs.h"
#include "sim_memory.h"
#include "sim_module.h"
#include "sim_pool.h"
#include "sim_semaphore.h"
#include "sim_stream.h"
#include "sim_vmm.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

struct slab slabs[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	size_t bytes, most;
} sizes[KINDS] = {
#define SIZE(kind, most) { sizeof(struct kind), most },
	SIM_KINDS(SIZE)
};

/* A freed place is used again only after this many younger ones. */
#define QUARANTINE 64

/* Where addresses are rationed, fewer must do. */
static bool slab_open(struct slab *slab, enum kind kind)
{
	void *base = MAP_FAILED;

	for (slab->stride = 64; slab->stride < sizes[kind].bytes; slab->stride *= 2)
		;
	for (slab->capacity = slab->stride * sizes[kind].most; slab->capacity >= 1 << 16;
		slab->capacity /= 2) {
		base = mmap(NULL, slab->capacity, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base != MAP_FAILED)
			break;
	}
	if (base == MAP_FAILED)
		return false;
	slab->base = base;
	return true;
}

static size_t quarantine(void)
{
	return *knobs.handles == 'i' ? 0 : QUARANTINE;
}

static struct object *take_place(struct slab *slab, enum kind kind)
{
	struct object *object = slab->first_free;

	if (!slab->base && !slab_open(slab, kind))
		return NULL;
	if (slab->free > quarantine() || (object && slab->used == slab->capacity)) {
		slab->first_free = object->next_free;
		slab->free--;
		memset(object, 0, slab->stride);
		return object;
	}
	if (slab->used == slab->capacity)
		return NULL;
	object = (struct object *)(slab->base + slab->used);
	slab->used += slab->stride;
	return object;
}

void *object_new(enum kind kind, struct context *context)
{
	struct slab *slab = &slabs[kind];
	struct object *object;

	pthread_mutex_lock(&lock);
	object = take_place(slab, kind);
	if (object) {
		object->kind = (uint8_t)kind;
		object->context = context;
		object->alive = true;
		slab->live++;
	}
	pthread_mutex_unlock(&lock);
	return object;
}

void object_give(void *handle, enum sim_given what)
{
	struct sim_handles *count = &usage_process()->objects[what];
	struct object *object = handle;

	pthread_mutex_lock(&lock);
	if (!object->given) {
		object->given = (uint8_t)what;
		count->created++;
		count->live++;
	}
	pthread_mutex_unlock(&lock);
}

static void take_back(struct object *object)
{
	if (object->given)
		usage_process()->objects[object->given].live--;
	object->given = GIVEN_nothing;
}

void object_take_back(void *handle)
{
	pthread_mutex_lock(&lock);
	take_back(handle);
	pthread_mutex_unlock(&lock);
}

void object_delete(void *handle)
{
	struct object *object = handle;
	struct slab *slab = &slabs[object->kind];

	pthread_mutex_lock(&lock);
	if (object->alive) {
		take_back(object);
		object->alive = false;
		object->next_free = NULL;
		if (slab->first_free)
			slab->last_free->next_free = object;
		else
			slab->first_free = object;
		slab->last_free = object;
		slab->free++;
		slab->live--;
	}
	pthread_mutex_unlock(&lock);
}

size_t object_live(enum kind kind)
{
	return slabs[kind].live;
}

void *object_next(enum kind kind, const void *previous)
{
	struct slab *slab = &slabs[kind];
	char *place = previous ? (char *)previous + slab->stride : slab->base;

	for (; place && place < slab->base + slab->used; place += slab->stride)
		if (((struct object *)place)->alive)
			return place;
	return NULL;
}
