/*
 * names.c - handles of functions and streams -> number and name, open addressing.
 *
 * Kept without a trace as well: one may begin later, and drivers before 12.3 tell no names. A handle
 * whose module was unloaded may come back as another kernel, which has a number of its own.
 */
#include "names.h"

#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "grant.h"
#include "lock.h"
#include "share.h"
#include "trace.h"

#define PLACES 65536u
#define TEXT_BYTES 65536u /* names come out of pieces of so much */

/* Of a kernel, or of a module: those of one module are a list. Both may have been at one address. */
struct place {
	uint64_t handle; /* 0: empty; set last, and for good */
	const char *name;
	uint32_t function; /* the number of that name; 0: gone */
	uint32_t told;     /* the number it last had */
	uint32_t owner;    /* place of its module + 1, 0: none */
	uint32_t next;     /* of the same module, + 1 */
	uint32_t first;    /* of those this one is the module of, + 1 */
	uint32_t stream_told; /* as a stream, to the trace of that number */
};

static struct names {
	uint32_t lock;
	uint32_t used;      /* places */
	uint32_t functions; /* numbers given out */
	uint32_t text_left;
	char *text;
	struct place *table;
} WHOLE_PAGES names;

/* Handles are addresses, and near ones come together: so do their places, in few pages. */
static struct place *place_of(uint64_t handle)
{
	uint32_t i = ((handle >> 4) + (handle >> 20) * 0x9e3779b1u) % PLACES;
	uint64_t there;

	while ((there = __atomic_load_n(&names.table[i].handle, __ATOMIC_ACQUIRE)) && there != handle)
		i = (i + 1) % PLACES;
	return &names.table[i];
}

static const char *name_of(const struct place *place)
{
	return __atomic_load_n(&place->name, __ATOMIC_RELAXED);
}

static const struct place *find(uint64_t handle)
{
	const struct place *place = NULL;

	if (__atomic_load_n(&names.table, __ATOMIC_ACQUIRE))
		place = place_of(handle);
	return place && __atomic_load_n(&place->function, __ATOMIC_ACQUIRE) ? place : NULL;
}

static const char *keep(const char *name)
{
	size_t bytes = strlen(name) + 1;
	char *copy = names.text;

	if (bytes > TEXT_BYTES / 4) {
		copy = share_private(bytes);
	} else if (bytes > names.text_left) {
		copy = names.text = share_private(TEXT_BYTES);
		names.text_left = copy ? TEXT_BYTES : 0;
	}
	if (!copy)
		return NULL;
	memcpy(copy, name, bytes);
	if (copy == names.text) {
		names.text += bytes;
		names.text_left -= bytes;
	}
	return copy;
}

static bool table_is_there(void)
{
	if (!names.table) {
		share_wipe_on_fork(&names, sizeof(names));
		__atomic_store_n(&names.table, share_private(PLACES * sizeof(*names.table)), __ATOMIC_RELEASE);
	}
	return names.table;
}

/* The place of a handle, taken if need be. NULL: all are in use. */
static struct place *take_place(uint64_t handle)
{
	struct place *place = table_is_there() ? place_of(handle) : NULL;

	if (!place || place->handle)
		return place;
	if (names.used >= PLACES / 4 * 3)
		return NULL;
	names.used++;
	__atomic_store_n(&place->handle, handle, __ATOMIC_RELEASE);
	return place;
}

static void leave_owner(struct place *place)
{
	uint32_t *at = place->owner ? &names.table[place->owner - 1].first : NULL;

	while (at && *at && &names.table[*at - 1] != place)
		at = &names.table[*at - 1].next;
	if (at && *at)
		*at = place->next;
	place->next = 0;
	__atomic_store_n(&place->owner, 0, __ATOMIC_RELAXED);
}

static void set_owner(struct place *place, uint64_t handle)
{
	struct place *owner = handle ? take_place(handle) : NULL;
	uint32_t number = owner ? owner - names.table + 1 : 0;

	if (place->owner == number)
		return;
	leave_owner(place);
	if (!owner)
		return;
	place->next = owner->first;
	owner->first = place - names.table + 1;
	__atomic_store_n(&place->owner, number, __ATOMIC_RELAXED);
}

/* Give the handle this name. Returns whether it is a new one, with its number. */
static bool set(uint64_t handle, const char *name, uint64_t owner, uint32_t *function)
{
	struct place *place = take_place(handle);
	bool is_new = !place || !place->name || strcmp(place->name, name) != 0;
	const char *kept = !is_new ? place->name : place ? keep(name) : NULL;

	/* What has no place is told anew each time. */
	*function = is_new ? ++names.functions : place->told;
	if (!kept)
		return true;
	set_owner(place, owner);
	place->told = *function;
	__atomic_store_n(&place->name, kept, __ATOMIC_RELAXED);
	__atomic_store_n(&place->function, *function, __ATOMIC_RELEASE);
	return is_new;
}

static void tell(uint32_t function, const char *name)
{
	struct event_function event = { .process = guest.key, .function = function, .name = name };

	trace_function(&event);
}

static uint32_t define(uint64_t handle, const char *name, uint64_t owner)
{
	uint32_t function;
	bool is_new;

	lock_take(&names.lock);
	is_new = set(handle, name, owner, &function);
	lock_give_back(&names.lock);
	if (is_new && trace_on)
		tell(function, name);
	return function;
}

static uint64_t owner_of(const struct place *place)
{
	uint32_t owner = __atomic_load_n(&place->owner, __ATOMIC_RELAXED);

	return owner ? names.table[owner - 1].handle : 0;
}

/* Most look-ups are of what was looked up before. */
void names_define(uint64_t handle, const char *name, uint64_t owner)
{
	const struct place *place = find(handle);

	if (!place || owner_of(place) != owner || strcmp(name_of(place), name) != 0)
		define(handle, name, owner);
}

void names_alias(uint64_t handle, uint64_t known)
{
	const struct place *place = find(known);

	if (place)
		names_define(handle, name_of(place), owner_of(place));
}

void names_unload(uint64_t owner)
{
	bool any = __atomic_load_n(&names.table, __ATOMIC_ACQUIRE);
	struct place *module = any ? place_of(owner) : NULL;

	if (!module || !__atomic_load_n(&module->handle, __ATOMIC_ACQUIRE))
		return;
	lock_take(&names.lock);
	while (module->first) {
		struct place *place = &names.table[module->first - 1];

		__atomic_store_n(&place->function, 0, __ATOMIC_RELEASE);
		leave_owner(place);
	}
	lock_give_back(&names.lock);
}

/* The driver is not asked: it may be why the thread waits. */
__attribute__((noinline, cold)) void names_launched(struct ledger_thread *counts)
{
	uint64_t handle = counts->launched;
	const struct place *place = handle > LAUNCHED_GRAPH ? find(handle) : NULL;
	const char *name = place ? name_of(place) : handle == LAUNCHED_GRAPH ? "a graph" : "";
	size_t bytes = strnlen(name, sizeof(counts->launched_name) - 1);

	__atomic_store_n(&counts->launched_named, 0, __ATOMIC_RELAXED);
	memcpy(counts->launched_name, name, bytes);
	counts->launched_name[bytes] = 0;
	__atomic_store_n(&counts->launched_named, handle, __ATOMIC_RELEASE);
}

/* ---- look-ups that told no name: the driver knows it (12.3 and newer), or a number must do ---- */

static const char *name_of_kernel(CUkernel kernel, uint64_t *owner)
{
	const char *name = NULL;
	CUlibrary library;

	if (real.cuKernelGetName(&name, kernel) != CUDA_SUCCESS)
		return NULL;
	if (real.cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS)
		*owner = (uint64_t)library;
	return name;
}

static const char *name_of_function(CUfunction function, uint64_t *owner)
{
	const char *name = NULL;
	CUmodule module;

	if (real.cuFuncGetName(&name, function) != CUDA_SUCCESS)
		return NULL;
	if (real.cuFuncGetModule(&module, function) == CUDA_SUCCESS)
		*owner = (uint64_t)module;
	return name;
}

static __attribute__((noinline)) uint32_t ask_driver(uint64_t handle)
{
	struct ledger_record record;
	uint64_t owner = 0;
	const char *name;
	char number[32];

	if (!handle)
		return 0;
	/* A kernel is no function to those who ask for its name. */
	if (grant_object_find(OBJECT_KERNEL, handle, &record))
		name = name_of_kernel((CUkernel)handle, &owner);
	else
		name = name_of_function((CUfunction)handle, &owner);
	if (name)
		return define(handle, name, owner);
	snprintf(number, sizeof(number), "kernel@%#llx", (unsigned long long)handle);
	return define(handle, number, 0);
}

uint32_t names_of(uint64_t handle)
{
	const struct place *place = find(handle);

	return likely(place) ? __atomic_load_n(&place->function, __ATOMIC_RELAXED) : ask_driver(handle);
}

/* ---- streams: the number of their place ---- */

#define STREAM_NUMBER(place) ((uint32_t)((place) - names.table) + 3)

/* Told before that is noted: two threads may tell it twice, none uses it untold. */
static __attribute__((noinline)) uint32_t tell_stream(uint64_t stream)
{
	struct event_stream_number event = { .process = guest.key, .stream = stream };
	uint32_t trace = __atomic_load_n(&trace_number, __ATOMIC_ACQUIRE);
	struct place *place;

	lock_take(&names.lock);
	place = take_place(stream);
	lock_give_back(&names.lock);
	if (!place)
		return 0;
	event.number = STREAM_NUMBER(place);
	trace_stream_number(&event);
	__atomic_store_n(&place->stream_told, trace, __ATOMIC_RELEASE);
	return event.number;
}

uint32_t names_of_stream(uint64_t stream)
{
	const struct place *place = NULL;

	if (__atomic_load_n(&names.table, __ATOMIC_ACQUIRE))
		place = place_of(stream);
	if (likely(place && __atomic_load_n(&place->stream_told, __ATOMIC_ACQUIRE) == trace_number))
		return STREAM_NUMBER(place);
	return tell_stream(stream);
}

void names_replay(void)
{
	for (uint32_t i = 0; names.table && i < PLACES; i++) {
		const struct place *place = &names.table[i];
		uint32_t function = __atomic_load_n(&place->function, __ATOMIC_ACQUIRE);

		if (function)
			tell(function, name_of(place));
	}
}

void names_forget(void)
{
	memset(&names, 0, sizeof(names));
}
