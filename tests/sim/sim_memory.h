/*
 * sim_memory.h - devices' memory: addresses, physical blocks, and who asked for how much.
 *
 * An arena is a range of addresses. It hands out spans of 2 MiB blocks; a heap (of a context, of
 * a pool) takes spans and cuts the small allocations of one size class out of a shared block, which
 * is how real memory fragments. All bookkeeping is out of band: device memory is touched by copies
 * only. An arena's lock covers it and every heap on it.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "sim.h"

#include <pthread.h>

struct device;
struct heap;
struct pool;

enum arena_kind { ARENA_DEVICE, ARENA_MANAGED, ARENA_LOW, ARENA_KINDS };

#define SPAN_BINS 64

struct arena {
	uint64_t base, bytes;
	uint64_t fresh;        /* blocks from here on were never used */
	intptr_t alias;        /* from an address to where its bytes can be touched */
	struct device *device; /* NULL: host memory */
	bool physical;         /* its blocks use up the device */
	pthread_mutex_t *lock;
	struct block **table; /* by block: the span it belongs to */
	struct block *bins[SPAN_BINS];
	struct block *unused; /* descriptors */
};

/* Size classes: steps of 512 bytes up to 4 KiB, then eight steps an octave up to 1 MiB. */
#define CLASS_UNIT 512u
#define SMALL_BYTES (1u << 20)
#define CLASSES 73

struct slot {
	uint32_t bytes; /* as requested; 0: free */
	uint32_t id;    /* of the allocation; of a free slot, the next free one + 1 */
};

struct block {
	struct heap *heap;                       /* NULL: a free span */
	struct block *next, *previous;           /* of the heap, or of the bin */
	struct block *next_open, *previous_open; /* of the class: those with room */
	uint64_t start;
	uint32_t count; /* of 2 MiB blocks */
	uint16_t size_class;
	bool small, held, touched, freeing, open;
	int shared; /* the file its bytes are in since they were sent to another process, + 1 */
	/* a small one: */
	uint32_t slots, fresh, live, free_slot, units, reciprocal;
	struct slot *slot;
	/* a large one: */
	uint64_t bytes;
	uint32_t id;
};

struct heap {
	struct arena *arena;
	enum sim_family family;
	struct context *context; /* or */
	struct pool *pool;       /* keeps its physical memory until it is trimmed */
	struct block *open[CLASSES];
	struct block *blocks;
	uint64_t held; /* physical bytes under its spans */
	uint64_t idle; /* physical bytes it keeps for later */
	uint64_t used, used_high, reserved_high;
	uint64_t most; /* never use more than this; 0: no limit */
	bool closed;   /* its owner is gone: a call of another thread may still be on its way here */
};

/* What an address is. */
struct found {
	struct heap *heap;
	struct arena *arena;   /* NULL: mapped or registered memory */
	struct device *device; /* NULL: host memory */
	uint64_t start, bytes;
	uint32_t id;
	bool freeing;
};

/* ---- sim_arena.c ---- */

bool arenas_open(void);
struct arena *arena_of(uint64_t address);
struct arena *arena_low(struct device *device);
extern struct arena host_arena;
struct block *span_take(struct arena *arena, uint32_t count);
void span_give(struct arena *arena, struct block *span);

/* ---- sim_heap.c ---- */

void heap_open(struct heap *heap, struct arena *arena, enum sim_family family);
CUresult heap_alloc(struct heap *heap, uint64_t bytes, CUdeviceptr *address);
/* The exact start of a live allocation of one of these families, or CUDA_ERROR_INVALID_VALUE. */
CUresult heap_free(CUdeviceptr address, unsigned families);
/* Keep it until heap_free, but count it as free from now on. */
CUresult heap_free_later(CUdeviceptr address, unsigned families, struct found *found);
void heap_close(struct heap *heap);
/* What is at an address of this arena; its lock is held. */
bool heap_find(struct arena *arena, uint64_t address, struct found *found);
void heap_trim(struct heap *heap, uint64_t keep);

#define FAMILY(name) (1u << FAMILY_##name)
#define FAMILY_LATE (1u << 31) /* for heap_free: the end of what heap_free_later began */

/* ---- sim_find.c ---- */

bool memory_find(uint64_t address, struct found *found);
/* Is it an address that a device may reach? */
bool memory_known(uint64_t address);
/* Where bytes of the caller are: device memory is translated and checked, host memory is as it is.
 */
bool memory_bytes(uint64_t address, uint64_t bytes, bool write, void **place);

/* ---- sim_usage.c ---- */

bool usage_open(void);
void usage_before_fork(void);
void usage_forked(void);
struct sim_truth_process *usage_process(void);
bool device_take(struct device *device, uint64_t bytes);
void device_give(struct device *device, uint64_t bytes);
uint64_t device_physical(struct device *device);
void usage_add(struct device *device, enum sim_family family, uint64_t bytes);
void usage_remove(struct device *device, enum sim_family family, uint64_t bytes);
void usage_reserved(struct device *device, int64_t change);
void usage_graph_reserved(struct device *device, int64_t change);
void usage_contexts(struct device *device, int64_t change);

static inline void count_one(sim_count *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

#endif
