/*
 * steps.c - places for handles, random choices, and what is done around each driver call.
 */
#include "parts.h"

#include <string.h>

__thread struct world *world;
int sim_calls[CALLS];

static const char *const names[CALLS] = {
#define X(name, params, args) #name,
	DRIVER_CALLS(X)
#undef X
};

void calls_find(void)
{
	for (int i = 0; i < CALLS; i++)
		sim_calls[i] = sim->call(names[i]);
}

const char *call_name(int call)
{
	return names[call];
}

/* ---- around a call ---- */

uint64_t call_begins(enum call call)
{
	world->hits[call]++;
	if (world->fault)
		sim->fault(sim_calls[call], world->fault);
	return sim->thread_count(sim_calls[call]);
}

static void wrong(enum call call, CUresult result, const char *why)
{
	if (world->wrong)
		return;
	snprintf(world->what, sizeof(world->what), "%s answers %d: %s", names[call], (int)result, why);
	world->wrong = world->what;
}

CUresult call_ended(enum call call, uint64_t before, CUresult result)
{
	bool reached = sim->thread_count(sim_calls[call]) != before;

	if (!world->called) {
		world->called = true;
		world->last = result;
	}
	if (result == CUDA_SUCCESS)
		world->good[call]++;
	if (world->fault && reached && result != (CUresult)world->fault)
		wrong(call, result, "not the code that the driver gave");
	if (!reached && result != CUDA_ERROR_OUT_OF_MEMORY)
		wrong(call, result, "and the driver was not asked");
	if (world->fault)
		sim->fault(-1, 0);
	world->fault = 0;
	return result;
}

/* ---- places ---- */

/* How many of the places a kind uses: some things cost the simulator much. */
static unsigned places(enum table_kind kind)
{
	switch (kind) {
	case T_MEMORY:
	case T_ARRAY:
	case T_PHYSICAL:
		return PLACES;
	case T_CONTEXT:
	case T_GREEN:
	case T_MODULE:
	case T_LIBRARY:
		return 4;
	default:
		return 8;
	}
}

static int find(enum table_kind kind, uint32_t random, bool full)
{
	unsigned count = places(kind);

	for (unsigned i = 0; i < count; i++) {
		unsigned place = (random + i) % count;

		if ((table_of(kind)->handle[place] != 0) == full)
			return (int)place;
	}
	return -1;
}

/* The more there are the sooner the answer is: no room. */
int place_empty(enum table_kind kind, uint32_t random)
{
	unsigned place = random % places(kind);

	return table_of(kind)->handle[place] ? -1 : (int)place;
}

int place_full(enum table_kind kind, uint32_t random)
{
	return find(kind, random, true);
}

void place_fill(enum table_kind kind, int place, uint64_t handle, uint64_t bytes)
{
	struct table *table = table_of(kind);

	table->handle[place] = handle;
	table->bytes[place] = bytes;
	table->extra[place] = 0;
	table->owner[place] = NULL;
	if (!world->alone)
		cuCtxGetCurrent(&table->owner[place]);
}

void place_fill_free(enum table_kind kind, int place, uint64_t handle, uint64_t bytes)
{
	place_fill(kind, place, handle, bytes);
	table_of(kind)->owner[place] = NULL;
}

void world_forget(struct world *its, CUcontext context)
{
	static const enum table_kind owned[] = { T_MEMORY, T_HOST, T_REGISTERED, T_STREAM, T_EVENT,
		T_MODULE, T_ARRAY, T_MIPMAP, T_EXTERNAL, T_IPC, T_TEXTURE, T_SURFACE, T_TEXREF, T_LINK };

	for (unsigned i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		for (int place = 0; place < PLACES; place++)
			if (its->tables[owned[i]].owner[place] == context)
				its->tables[owned[i]].handle[place] = 0;
}

void place_clear(enum table_kind kind, int place)
{
	struct table *table = table_of(kind);

	table->stale[table->stale_next++ % STALE] = table->handle[place];
	table->handle[place] = 0;
}

void place_settle(enum table_kind kind, int place, CUresult result)
{
	if (place < 0)
		return;
	switch ((int)result) {
	case CUDA_SUCCESS:
		break;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
		if (world->step->fault)
			return;
		break;
	case CUDA_ERROR_INVALID_HANDLE: /* of the stream, not of the memory */
	case CUDA_ERROR_INVALID_CONTEXT:
		if (world->step->fault || kind == T_MEMORY || kind == T_HOST || kind == T_REGISTERED)
			return;
		break;
	default:
		return;
	}
	place_clear(kind, place);
}

/*
 * What another thread holds must not be hit by chance: freeing what it was given this very moment is a
 * race that nobody can win. So no stale handles then, and only odd numbers.
 */
static uint64_t wrong_handle(enum table_kind kind, uint32_t random)
{
	enum table_kind other = (kind + 1 + (random >> 8) % (T_COUNT - 1)) % T_COUNT;
	int place = place_full(kind, random >> 16);
	uint64_t odd = !world->alone;

	switch (random % 5) {
	case 0:
		return world->alone ? table_of(kind)->stale[(random >> 16) % STALE] : 0x7000;
	case 1:
		return table_of(other)->handle[(random >> 16) % PLACES];
	case 2:
		return place < 0 ? 64 : (table_of(kind)->handle[place] + (random >> 20) % 300) | odd;
	case 3:
		return 0;
	default:
		return (uint64_t)random << 8 | odd;
	}
}

uint64_t pick(enum table_kind kind, uint32_t random, int *place)
{
	uint32_t mixed = (random ^ random >> 15) * 2654435761u;

	*place = -1;
	if ((mixed >> 24) % 3 != 0)
		*place = place_full(kind, mixed >> 4);
	if (*place >= 0)
		return table_of(kind)->handle[*place];
	return wrong_handle(kind, (mixed ^ mixed >> 13) * 2246822519u);
}

size_t size_of_random(uint32_t random)
{
	uint32_t bits = random >> 8;

	switch (random % 32) {
	case 0:
		return 0;
	case 1:
		return bits % 2 ? SIZE_MAX - bits : 1ull << (40 + bits % 24);
	case 2:
		return bits % (100 * MiB);
	case 3:
	case 4:
	case 5:
		return bits % (8 * MiB);
	case 6:
		return BLOCK;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		return bits % MiB;
	default:
		return 1 + bits % 5000;
	}
}

CUstream any_stream(uint32_t random)
{
	int place;

	if (random % 4 < 2)
		return (CUstream)(uint64_t)(random % 8 < 6 ? 0 : random % 3);
	return (CUstream)pick(T_STREAM, random * 2246822519u, &place);
}
