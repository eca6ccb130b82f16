/*
 * sim_object.h - everything that has a handle.
 *
 * A handle is the address of an object. Objects of one kind live in a region of their own that is
 * never unmapped, so any value a program may pass can be checked without following it: a stale or
 * invented handle is told from a live one, and freed places are used again as late as possible.
 */
#ifndef SIM_OBJECT_H
#define SIM_OBJECT_H

#include "sim.h"

#define SIM_KINDS(X) \
	X(context, 1 << 14) \
	X(green, 1 << 12) \
	X(stream, 1 << 18) \
	X(event, 1 << 22) \
	X(module, 1 << 18) \
	X(function, 1 << 20) \
	X(library, 1 << 18) \
	X(array, 1 << 20) \
	X(mipmap, 1 << 16) \
	X(texture, 1 << 20) \
	X(texref, 1 << 16) \
	X(pool, 1 << 12) \
	X(physical, 1 << 20) \
	X(external, 1 << 12) \
	X(semaphore, 1 << 12) \
	X(listener, 1 << 12) \
	X(link, 1 << 12) \
	X(user, 1 << 18) \
	X(graph, 1 << 18) \
	X(inner, 1 << 18) \
	X(node, 1 << 20) \
	X(exec, 1 << 18)

#define SIM_KIND_NUMBER(kind, most) KIND_##kind,
enum kind { SIM_KINDS(SIM_KIND_NUMBER) KINDS };

struct object {
	bool alive;
	uint8_t kind;
	uint8_t given; /* enum sim_given: a program has its handle and has not given it back */
	struct context *context; /* dies with it; NULL: with the process */
	struct object *next_free;
	struct object *next; /* for whoever owns several: a module its functions */
};

struct slab {
	char *base;
	_Atomic size_t used; /* bytes handed out at least once */
	size_t stride;       /* a power of two */
	size_t capacity;     /* bytes */
	struct object *first_free, *last_free;
	size_t free;
	size_t live;
};
extern struct slab slabs[KINDS];

void *object_new(enum kind kind, struct context *context);
void object_delete(void *object);
size_t object_live(enum kind kind);

/* A program was given the handle; it gave it back, which object_delete() says by itself. */
void object_give(void *object, enum sim_given what);
void object_take_back(void *object);

/* Every live object of a kind, in any order; start with NULL. */
void *object_next(enum kind kind, const void *previous);

static inline void *object_get(enum kind kind, const void *handle)
{
	const struct slab *slab = &slabs[kind];
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)slab->base;
	struct object *object = (struct object *)handle;

	if (offset >= atomic_load_explicit(&slab->used, memory_order_relaxed) ||
		(offset & (slab->stride - 1)))
		return NULL;
	return object->alive ? object : NULL;
}

#endif
