/*
 * model.h - what the parts of the model-based test share; model.c says how it works.
 *
 * A step is one operation with three random numbers. What it does depends only on the steps before
 * it, so any list of steps can be run again, and a part of it too.
 */
#ifndef MODEL_H
#define MODEL_H

#include <cuda.h>

#include "seen.h"
#include "driver_calls.h"

#define MODEL_NUMBER(name, params, args) CALL_##name,
enum call { DRIVER_CALLS(MODEL_NUMBER) CALLS };

#define MiB (1ull << 20)
#define BLOCK (2 * MiB)

/* ---- families: what is compared, and which operations run ---- */

#define FAMILIES(X) \
	X(context) X(device) X(pinned) X(managed) X(pool) X(object) X(module) \
	X(vmm) X(array) X(graph) X(imported) X(green) X(managed_pool)

enum family {
#define X(name) FAM_##name,
	FAMILIES(X)
#undef X
	FAM_COUNT,
};

/* ---- what a thread holds ---- */

/* A few places for handles of one kind, and some that were destroyed. */
#define PLACES 24
#define STALE 8

struct table {
	uint64_t handle[PLACES];
	uint64_t bytes[PLACES];
	uint32_t extra[PLACES];
	CUcontext owner[PLACES]; /* with several threads: dies with it */
	uint64_t stale[STALE];
	unsigned stale_next;
};

enum table_kind {
	T_MEMORY, /* whatever cuMemFree may free */
	T_HOST, T_REGISTERED, T_POOL, T_STREAM, T_EVENT, T_CONTEXT, T_MODULE, T_LIBRARY,
	T_PHYSICAL, T_RANGE, T_ARRAY, T_MIPMAP, T_GRAPH, T_EXEC, T_EXTERNAL, T_IPC, T_POOL_IMPORT,
	T_GREEN, T_SPARSE, T_TEXTURE, T_SURFACE, T_TEXREF, T_LINK,
	T_COUNT,
};

struct step {
	uint16_t operation;
	int16_t fault; /* the code that the first call answers, 0: what it likes */
	uint32_t a, b, c;
};

/* Another process that has memory to share. */
struct exporter {
	CUipcMemHandle ipc;
	CUmemPoolPtrExportData pointer;
	int physical_fd, pool_fd, bytes_fd;
	bool there;
};

struct world {
	int thread; /* its number; 0 may do what needs quiet */
	bool alone; /* no other threads */
	struct table tables[T_COUNT];
	CUcontext primary[SEEN_DEVICES];
	const struct exporter *exporter;
	int fault;              /* armed for the next call */
	const struct step *step;
	CUresult last;          /* what the first call of the step answered */
	bool called;
	const char *wrong;      /* set by whoever saw something wrong */
	char what[256];
	uint32_t hits[CALLS];
	uint32_t good[CALLS];
};

extern __thread struct world *world;
extern int sim_calls[CALLS];

/* Before and after a driver call: count it, arm its fault, see what became of it. */
uint64_t call_begins(enum call call);
CUresult call_ended(enum call call, uint64_t before, CUresult result);

#define CALL(name, ...) \
	({ \
		uint64_t call_before = call_begins(CALL_##name); \
		call_ended(CALL_##name, call_before, name(__VA_ARGS__)); \
	})

/* The per-thread twin, or not. */
#define CALL_TWIN(name, twin, ...) \
	((twin) ? CALL(name##_ptsz, __VA_ARGS__) : CALL(name, __VA_ARGS__))

/* ---- places ---- */

static inline struct table *table_of(enum table_kind kind)
{
	return &world->tables[kind];
}

/* An empty place, or -1: then free something first. */
int place_empty(enum table_kind kind, uint32_t random);
int place_full(enum table_kind kind, uint32_t random);
void place_fill(enum table_kind kind, int place, uint64_t handle, uint64_t bytes);
/* The same for what belongs to no context, whatever its kind. */
void place_fill_free(enum table_kind kind, int place, uint64_t handle, uint64_t bytes);
/* The handle is gone; it may turn up as a stale one. */
void place_clear(enum table_kind kind, int place);
/* The same if it was destroyed, or turns out to have gone with something else. */
void place_settle(enum table_kind kind, int place, CUresult result);

/*
 * A context is gone. With several threads what was in it must be forgotten, here or by all of them:
 * another thread may be given the same handles.
 */
void context_died(CUcontext context, bool everywhere);

/*
 * A handle to destroy: two of three times one that is there, *place says which; else a wrong one,
 * *place < 0.
 */
uint64_t pick(enum table_kind kind, uint32_t random, int *place);
/* Mostly a small size, sometimes one that is absurd. */
size_t size_of_random(uint32_t random);
CUstream any_stream(uint32_t random);

/* ---- operations ---- */

typedef void operation_run(const struct step *step);

struct operation {
	const char *name;
	enum family family;
	unsigned weight;
	operation_run *run;
	bool quiet; /* only while nothing else runs */
};

extern const struct operation operations_memory[], operations_pool[], operations_context[],
	operations_object[], operations_vmm[], operations_array[], operations_graph[],
	operations_import[], operations_handle[];

/* ---- exporter.c ---- */

/* Before this process calls CUDA. */
void exporter_start(struct exporter *exporter);
/* At the end; one that crashes leaves it to find out. */
void exporter_stop(void);

#endif
