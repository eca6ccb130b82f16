/*
 * sim_heap.c - allocations: small ones share a block of their size class, large ones own a span.
 *
 * A pair of heap_alloc and heap_free costs two locks and a few dozen instructions however many
 * allocations are live: benchmarks measure what an interposer adds to it.
 */
#include "sim_device.h"
#include "sim_knobs.h"
#include "sim_pool.h"

#include <stdlib.h>

static _Atomic uint32_t next_id = 1;
/* Arrays of slots that closed blocks left behind. */
static struct slot *spare_slots[CLASSES];
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- size classes ---- */

static unsigned class_of(uint64_t bytes)
{
	uint32_t units = (uint32_t)((bytes + CLASS_UNIT - 1) / CLASS_UNIT);
	unsigned octave;

	if (units <= 8)
		return units;
	octave = 31 - (unsigned)__builtin_clz(units - 1); /* >= 3 */
	return 8 * (octave - 2) + ((units - 1) >> (octave - 3)) - 8 + 1;
}

static uint32_t class_units(unsigned size_class)
{
	unsigned octave = (size_class - 1) / 8, step = (size_class - 1) % 8;

	return octave ? (8 + step + 1) << (octave - 1) : size_class;
}

/* ---- physical memory ---- */

static void reserved_changed(struct heap *heap, int64_t change)
{
	if (!heap->pool)
		return;
	usage_reserved(heap->arena->device, change);
	heap->reserved_high = larger(heap->reserved_high, heap->held + heap->idle);
}

static bool hold(struct heap *heap, uint64_t bytes)
{
	uint64_t idle = bytes < heap->idle ? bytes : heap->idle;

	if (!heap->arena->physical)
		return true;
	if (bytes > idle && !device_take(heap->arena->device, bytes - idle))
		return false;
	heap->idle -= idle;
	heap->held += bytes;
	reserved_changed(heap, (int64_t)(bytes - idle));
	return true;
}

static void let_go(struct heap *heap, uint64_t bytes)
{
	if (!heap->arena->physical)
		return;
	heap->held -= bytes;
	if (heap->pool)
		heap->idle += bytes;
	else
		device_give(heap->arena->device, bytes);
}

/* Give back what a pool keeps beyond this many bytes; what is in use stays. */
void heap_trim(struct heap *heap, uint64_t keep)
{
	uint64_t surplus = 0;

	pthread_mutex_lock(heap->arena->lock);
	if (heap->held + heap->idle > keep)
		surplus = heap->held + heap->idle - keep;
	surplus = surplus < heap->idle ? surplus : heap->idle;
	if (surplus) {
		heap->idle -= surplus;
		device_give(heap->arena->device, surplus);
		reserved_changed(heap, -(int64_t)surplus);
	}
	pthread_mutex_unlock(heap->arena->lock);
}

/* ---- blocks ---- */

static void open_add(struct block *block)
{
	struct block **list = &block->heap->open[block->size_class];

	block->previous_open = NULL;
	block->next_open = *list;
	if (*list)
		(*list)->previous_open = block;
	*list = block;
	block->open = true;
}

static void open_remove(struct block *block)
{
	if (block->previous_open)
		block->previous_open->next_open = block->next_open;
	else
		block->heap->open[block->size_class] = block->next_open;
	if (block->next_open)
		block->next_open->previous_open = block->previous_open;
	block->open = false;
}

static struct block *block_take(struct heap *heap, uint32_t count)
{
	struct block *block;

	if (!hold(heap, count * SIM_BLOCK))
		return NULL;
	block = span_take(heap->arena, count);
	if (!block) {
		let_go(heap, count * SIM_BLOCK);
		return NULL;
	}
	block->heap = heap;
	block->held = true;
	block->freeing = false;
	block->previous = NULL;
	block->next = heap->blocks;
	if (heap->blocks)
		heap->blocks->previous = block;
	heap->blocks = block;
	return block;
}

static void block_give(struct block *block)
{
	struct heap *heap = block->heap;

	if (block->previous)
		block->previous->next = block->next;
	else
		heap->blocks = block->next;
	if (block->next)
		block->next->previous = block->previous;
	if (block->held)
		let_go(heap, block->count * SIM_BLOCK);
	span_give(heap->arena, block);
}

/* Arrays of slots are kept for ever, so that a late look at a dead block is harmless. */
static struct slot *slots_take(unsigned size_class, uint32_t count)
{
	struct slot *slots;

	pthread_mutex_lock(&spare_lock);
	slots = spare_slots[size_class];
	if (slots)
		spare_slots[size_class] = *(struct slot **)slots;
	pthread_mutex_unlock(&spare_lock);
	return slots ? slots : malloc(larger(count * sizeof(*slots), sizeof(struct slot *)));
}

static void slots_give(struct block *block)
{
	pthread_mutex_lock(&spare_lock);
	*(struct slot **)block->slot = spare_slots[block->size_class];
	spare_slots[block->size_class] = block->slot;
	pthread_mutex_unlock(&spare_lock);
	block->slot = NULL;
}

static struct block *small_block(struct heap *heap, unsigned size_class)
{
	uint32_t units = class_units(size_class);
	uint32_t slots = (uint32_t)(SIM_BLOCK / CLASS_UNIT) / units;
	struct block *block;
	struct slot *slot = slots_take(size_class, slots);

	block = slot ? block_take(heap, 1) : NULL;
	if (!block)
		return NULL; /* the simulated device is full: a few bytes less of the real memory */
	block->small = true;
	block->size_class = (uint16_t)size_class;
	block->slots = slots;
	block->fresh = block->live = block->free_slot = 0;
	block->units = units;
	block->reciprocal = (uint32_t)(((uint64_t)1 << 32) / units) + (units > 1);
	block->slot = slot;
	open_add(block);
	return block;
}

/* ---- allocation ---- */

static void used_changed(struct heap *heap, int64_t change)
{
	heap->used += (uint64_t)change;
	heap->used_high = larger(heap->used_high, heap->used);
}

static struct device *device_of(const struct heap *heap)
{
	return heap->arena->device ? heap->arena->device : &devices[0];
}

static uint32_t slot_take(struct block *block, uint64_t bytes)
{
	uint32_t index = block->free_slot;

	if (index)
		block->free_slot = block->slot[--index].id;
	else
		index = block->fresh++;
	block->slot[index].bytes = (uint32_t)bytes;
	block->slot[index].id = next_id++;
	block->live++;
	if (!block->free_slot && block->fresh == block->slots)
		open_remove(block);
	return index;
}

static uint64_t small_alloc(struct heap *heap, uint64_t bytes)
{
	unsigned size_class = class_of(bytes);
	struct block *block = heap->open[size_class];

	if (!block)
		block = small_block(heap, size_class);
	else if (!block->held && hold(heap, SIM_BLOCK))
		block->held = true;
	if (!block || !block->held)
		return 0;
	return block->start + (uint64_t)slot_take(block, bytes) * block->units * CLASS_UNIT;
}

static uint64_t large_alloc(struct heap *heap, uint64_t bytes)
{
	struct block *block;

	if (bytes > heap->arena->bytes)
		return 0;
	block = block_take(heap, (uint32_t)((bytes + SIM_BLOCK - 1) / SIM_BLOCK));
	if (!block)
		return 0;
	block->small = false;
	block->bytes = bytes;
	block->id = next_id++;
	return block->start;
}

CUresult heap_alloc(struct heap *heap, uint64_t bytes, CUdeviceptr *address)
{
	uint64_t start = 0;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(heap->arena->lock);
	if (heap->closed) {
		pthread_mutex_unlock(heap->arena->lock);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	if (!heap->most || bytes <= heap->most - heap->used)
		start = bytes <= SMALL_BYTES ? small_alloc(heap, bytes) : large_alloc(heap, bytes);
	if (start) {
		used_changed(heap, (int64_t)bytes);
		usage_add(device_of(heap), heap->family, bytes);
	}
	pthread_mutex_unlock(heap->arena->lock);
	if (!start)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = start;
	return CUDA_SUCCESS;
}

/* ---- free ---- */

#define SLOT_FREEING 0x80000000u

/* The slot an address lies in; the reciprocal is exact for offsets within a block. */
static uint32_t slot_of(const struct block *block, uint64_t address)
{
	uint32_t units = (uint32_t)(address - block->start) / CLASS_UNIT;

	if (block->units == 1)
		return units;
	return (uint32_t)(((uint64_t)units * block->reciprocal) >> 32);
}

bool heap_find(struct arena *arena, uint64_t address, struct found *found)
{
	struct block *block = arena->table[(address - arena->base) / SIM_BLOCK];
	uint32_t index;

	if (!block || !block->heap)
		return false;
	found->heap = block->heap;
	found->arena = arena;
	found->device = arena->device;
	if (!block->small) {
		found->start = block->start;
		found->bytes = block->bytes;
		found->id = block->id;
		found->freeing = block->freeing;
		return true;
	}
	index = slot_of(block, address);
	if (index >= block->fresh || !block->slot[index].bytes)
		return false;
	found->start = block->start + (uint64_t)index * block->units * CLASS_UNIT;
	found->bytes = block->slot[index].bytes & ~SLOT_FREEING;
	found->id = block->slot[index].id;
	found->freeing = block->slot[index].bytes & SLOT_FREEING;
	return true;
}

/* An empty block keeps its addresses as long as its class has no other, but holds no memory. */
static void small_emptied(struct block *block)
{
	struct heap *heap = block->heap;

	if (heap->open[block->size_class] == block && !block->next_open) {
		let_go(heap, SIM_BLOCK);
		block->held = false;
		return;
	}
	if (block->open)
		open_remove(block);
	slots_give(block);
	block_give(block);
}

static void small_free(struct block *block, uint64_t address)
{
	uint32_t index = slot_of(block, address);
	bool never = *knobs.reuse == 'n';

	block->slot[index].bytes = 0;
	if (!never) {
		block->slot[index].id = block->free_slot;
		block->free_slot = index + 1;
		if (!block->open)
			open_add(block);
	}
	if (!--block->live)
		small_emptied(block);
}

static void release(struct found *found)
{
	struct block *block = found->arena->table[(found->start - found->arena->base) / SIM_BLOCK];

	used_changed(found->heap, -(int64_t)found->bytes);
	if (block->small)
		small_free(block, found->start);
	else
		block_give(block);
}

static bool find_exact(
	struct arena *arena, uint64_t address, unsigned families, struct found *found)
{
	unsigned family;

	if (!heap_find(arena, address, found) || found->start != address)
		return false;
	/* Whatever a pool is of, its memory is freed as that of a pool. */
	family = found->heap->pool ? (unsigned)FAMILY_pool : (unsigned)found->heap->family;
	return families >> family & 1;
}

CUresult heap_free(CUdeviceptr address, unsigned families)
{
	struct arena *arena = arena_of(address);
	struct found found;
	bool exact;

	if (!arena)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(arena->lock);
	exact = find_exact(arena, address, families, &found) &&
		found.freeing == !!(families & FAMILY_LATE);
	if (exact) {
		if (!found.freeing)
			usage_remove(device_of(found.heap), found.heap->family, found.bytes);
		release(&found);
	}
	pthread_mutex_unlock(arena->lock);
	return exact ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult heap_free_later(CUdeviceptr address, unsigned families, struct found *found)
{
	struct arena *arena = arena_of(address);
	struct block *block;
	bool exact;

	if (!arena)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(arena->lock);
	exact = find_exact(arena, address, families, found) && !found->freeing;
	if (exact) {
		block = arena->table[(address - arena->base) / SIM_BLOCK];
		if (block->small)
			block->slot[slot_of(block, address)].bytes |= SLOT_FREEING;
		else
			block->freeing = true;
		usage_remove(device_of(found->heap), found->heap->family, found->bytes);
	}
	pthread_mutex_unlock(arena->lock);
	return exact ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- heaps ---- */

void heap_open(struct heap *heap, struct arena *arena, enum sim_family family)
{
	heap->arena = arena;
	heap->family = family;
	heap->closed = false;
}

static void forget(struct heap *heap, struct block *block)
{
	uint32_t i;

	if (!block->small && !block->freeing)
		usage_remove(device_of(heap), heap->family, block->bytes);
	for (i = 0; block->small && i < block->fresh; i++)
		if (block->slot[i].bytes && !(block->slot[i].bytes & SLOT_FREEING))
			usage_remove(device_of(heap), heap->family, block->slot[i].bytes);
}

/* Its owner is gone: everything on it is freed. */
void heap_close(struct heap *heap)
{
	struct block *block, *next;
	int i;

	if (!heap->arena)
		return;
	pthread_mutex_lock(heap->arena->lock);
	for (block = heap->blocks; block; block = next) {
		next = block->next;
		forget(heap, block);
		if (block->small)
			slots_give(block);
		block_give(block);
	}
	for (i = 0; i < CLASSES; i++)
		heap->open[i] = NULL;
	heap->used = 0;
	heap->closed = true;
	pthread_mutex_unlock(heap->arena->lock);
	heap_trim(heap, 0);
}
