/*
 * sim_arena.c - addresses: one reservation for all devices, cut into arenas of equal size.
 *
 * Nothing here is backed by memory until a copy touches it. Free spans are coalesced (a free span
 * is entered in the table at both its ends) and kept in bins: exact up to 32 blocks, by power of
 * two above.
 */
#include "sim_device.h"
#include "sim_external.h"
#include "sim_knobs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXACT_BINS 32
#define LOW_BYTES ((uint64_t)256 << 20)

struct arena host_arena;
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t region_base;
static unsigned region_shift;
static int region_arenas;

/* ---- reservation ---- */

static void *reserve(uint64_t bytes, int protection)
{
	void *place =
		mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (place == MAP_FAILED)
		return NULL;
	madvise(place, bytes, MADV_DONTDUMP);
	return place;
}

static bool reserve_with(int arenas, uint64_t spare)
{
	char *place;

	for (region_shift = 40; region_shift >= 28; region_shift--) {
		uint64_t bytes = ((uint64_t)arenas << region_shift) + SIM_BLOCK;

		place = reserve(bytes + spare, PROT_READ | PROT_WRITE);
		if (!place)
			continue;
		if (spare)
			munmap(place + bytes, spare);
		region_base = round_up((uintptr_t)place, SIM_BLOCK);
		region_arenas = arenas;
		return true;
	}
	return false;
}

/* Where address space is limited, the devices' low arenas and the program have some later, if there is any. */
static bool reserve_region(int arenas)
{
	return reserve_with(arenas, (uint64_t)(arenas / 2) * LOW_BYTES + ((uint64_t)1 << 30)) ||
		reserve_with(arenas, 0);
}

/* The program's view of the arena becomes unreadable; copies go through a second mapping. */
static bool hide(struct arena *arena)
{
	int fd = memfd_create("sim-device", MFD_CLOEXEC);
	void *alias = MAP_FAILED;

	if (fd < 0)
		return false;
	if (!ftruncate(fd, (off_t)arena->bytes))
		alias = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			fd, 0);
	close(fd);
	if (alias == MAP_FAILED)
		return false;
	madvise(alias, arena->bytes, MADV_DONTDUMP);
	arena->alias = (intptr_t)alias - (intptr_t)arena->base;
	return !mprotect((void *)arena->base, arena->bytes, PROT_NONE);
}

static bool arena_open(struct arena *arena, uint64_t base, uint64_t bytes, pthread_mutex_t *lock)
{
	struct block **table = reserve(bytes / SIM_BLOCK * sizeof(*table), PROT_READ | PROT_WRITE);

	if (!table)
		return false;
	arena->base = base;
	arena->lock = lock;
	arena->table = table;
	/* From now on others may find an address in it. */
	__atomic_store_n(&arena->bytes, bytes, __ATOMIC_RELEASE);
	return true;
}

static bool device_arena(struct device *device, enum arena_kind kind, int place)
{
	struct arena *arena = &device->arenas[kind];
	uint64_t bytes = (uint64_t)1 << region_shift;

	arena->device = device;
	arena->physical = kind != ARENA_MANAGED;
	if (!arena_open(arena, region_base + (uint64_t)place * bytes, bytes, &device->lock))
		return false;
	return !knobs.unreadable || kind != ARENA_DEVICE || hide(arena);
}

bool arenas_open(void)
{
	int i;

	if (!reserve_region(2 * device_count + 1))
		return false;
	for (i = 0; i < device_count; i++)
		if (!device_arena(&devices[i], ARENA_DEVICE, 2 * i) ||
			!device_arena(&devices[i], ARENA_MANAGED, 2 * i + 1))
			return false;
	return arena_open(&host_arena, region_base + ((uint64_t)2 * device_count << region_shift),
		(uint64_t)1 << region_shift, &host_lock);
}

/* The first ABI of the memory calls has 32-bit addresses: a small arena below 4 GiB, when asked. */
struct arena *arena_low(struct device *device)
{
	struct arena *arena = &device->arenas[ARENA_LOW];
	uint64_t hint;
	void *place = NULL;

	pthread_mutex_lock(&device->lock);
	for (hint = 0x40000000; !arena->table && hint < 0xe0000000; hint += LOW_BYTES) {
		place = mmap((void *)hint, LOW_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (place == MAP_FAILED)
			continue;
		if (place == (void *)hint) {
			arena->device = device;
			arena->physical = true;
			arena_open(arena, hint, LOW_BYTES, &device->lock);
		} else {
			munmap(place, LOW_BYTES);
		}
	}
	pthread_mutex_unlock(&device->lock);
	return arena->table ? arena : NULL;
}

struct arena *arena_of(uint64_t address)
{
	uint64_t place = (address - region_base) >> region_shift;
	int i;

	if (place < (uint64_t)region_arenas) {
		if (place == (uint64_t)region_arenas - 1)
			return &host_arena;
		return &devices[place / 2].arenas[place % 2 ? ARENA_MANAGED : ARENA_DEVICE];
	}
	for (i = 0; address >> 32 == 0 && i < device_count; i++) {
		struct arena *low = &devices[i].arenas[ARENA_LOW];
		uint64_t bytes = __atomic_load_n(&low->bytes, __ATOMIC_ACQUIRE);

		if (address - low->base < bytes)
			return low;
	}
	return NULL;
}

/* ---- spans ---- */

static unsigned bin_of(uint32_t count)
{
	return count <= EXACT_BINS ? count : EXACT_BINS - 4 + (31 - (unsigned)__builtin_clz(count));
}

static uint64_t index_of(const struct arena *arena, const struct block *span)
{
	return (span->start - arena->base) / SIM_BLOCK;
}

static struct block *descriptor_new(struct arena *arena)
{
	struct block *block = arena->unused;

	if (!block)
		return calloc(1, sizeof(*block));
	arena->unused = block->next;
	memset(block, 0, sizeof(*block));
	return block;
}

static void descriptor_drop(struct arena *arena, struct block *block)
{
	block->heap = NULL;
	block->next = arena->unused;
	arena->unused = block;
}

static void bin_add(struct arena *arena, struct block *span)
{
	struct block **bin = &arena->bins[bin_of(span->count)];
	uint64_t index = index_of(arena, span);

	span->heap = NULL;
	span->previous = NULL;
	span->next = *bin;
	if (*bin)
		(*bin)->previous = span;
	*bin = span;
	arena->table[index] = arena->table[index + span->count - 1] = span;
}

static void bin_remove(struct arena *arena, struct block *span)
{
	uint64_t index = index_of(arena, span);

	if (span->previous)
		span->previous->next = span->next;
	else
		arena->bins[bin_of(span->count)] = span->next;
	if (span->next)
		span->next->previous = span->previous;
	arena->table[index] = arena->table[index + span->count - 1] = NULL;
}

static struct block *bin_find(struct arena *arena, uint32_t count)
{
	struct block *span;
	unsigned bin;

	for (bin = bin_of(count); bin < SPAN_BINS; bin++)
		for (span = arena->bins[bin]; span; span = span->next)
			if (span->count >= count)
				return span;
	return NULL;
}

static struct block *span_fresh(struct arena *arena, uint32_t count)
{
	struct block *span;

	if (arena->bytes / SIM_BLOCK - arena->fresh < count)
		return NULL;
	span = descriptor_new(arena);
	if (!span)
		return NULL;
	span->start = arena->base + arena->fresh * SIM_BLOCK;
	span->count = count;
	arena->fresh += count;
	return span;
}

static void split(struct arena *arena, struct block *span, uint32_t count)
{
	struct block *rest = span->count > count ? descriptor_new(arena) : NULL;

	if (!rest)
		return;
	rest->start = span->start + count * SIM_BLOCK;
	rest->count = span->count - count;
	span->count = count;
	bin_add(arena, rest);
}

struct block *span_take(struct arena *arena, uint32_t count)
{
	struct block *span = bin_find(arena, count);
	uint64_t i, index;

	if (span) {
		bin_remove(arena, span);
		split(arena, span, count);
	} else {
		span = span_fresh(arena, count);
	}
	if (!span)
		return NULL;
	index = index_of(arena, span);
	for (i = 0; i < span->count; i++)
		arena->table[index + i] = span;
	return span;
}

/* The neighbour is free: make it part of the span. */
static void join(struct arena *arena, struct block *span, struct block *neighbour)
{
	if (!neighbour || neighbour->heap)
		return;
	bin_remove(arena, neighbour);
	span->count += neighbour->count;
	if (neighbour->start < span->start)
		span->start = neighbour->start;
	descriptor_drop(arena, neighbour);
}

/* ---- bytes that another process may map ---- */

static bool copy_to_file(int fd, const struct arena *arena, const struct block *span)
{
	const char *bytes = (const char *)((intptr_t)span->start + arena->alias);
	uint64_t size = span->count * SIM_BLOCK;
	void *place;

	if (ftruncate(fd, (off_t)size))
		return false;
	place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (place == MAP_FAILED)
		return false;
	if (span->touched)
		memcpy(place, bytes, size);
	munmap(place, size);
	return mmap((void *)bytes, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
	       MAP_FAILED;
}

int span_share(struct arena *arena, struct block *span, uint64_t *offset)
{
	int fd;

	*offset = span->start;
	if (span->shared)
		return span->shared - 1;
	fd = memfd_create("sim-ipc", MFD_CLOEXEC);
	if (fd >= 0 && !copy_to_file(fd, arena, span)) {
		close(fd);
		return -1;
	}
	span->shared = fd + 1;
	return fd;
}

/* Whoever mapped the file keeps its bytes; here there are new ones. */
static void stop_sharing(struct arena *arena, struct block *span)
{
	close(span->shared - 1);
	span->shared = 0;
	mmap((void *)((intptr_t)span->start + arena->alias), span->count * SIM_BLOCK,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		0);
}

void span_give(struct arena *arena, struct block *span)
{
	uint64_t i, index = index_of(arena, span);
	bool never = *knobs.reuse == 'n';

	if (span->shared)
		stop_sharing(arena, span);
	else if (span->touched)
		madvise((void *)((intptr_t)span->start + arena->alias), span->count * SIM_BLOCK,
			arena->alias ? MADV_REMOVE : MADV_DONTNEED);
	for (i = 0; i < span->count; i++)
		arena->table[index + i] = NULL;
	if (never) {
		descriptor_drop(arena, span);
		return;
	}
	span->touched = false;
	if (index > 0)
		join(arena, span, arena->table[index - 1]);
	if (index_of(arena, span) + span->count < arena->bytes / SIM_BLOCK)
		join(arena, span, arena->table[index_of(arena, span) + span->count]);
	bin_add(arena, span);
}
