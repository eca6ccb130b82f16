/*
 * sim_pool.h - stream-ordered memory.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "sim_context.h"

/* Freed by a stream that has not got there yet. */
struct pending {
	struct pending *_Atomic next;
	CUdeviceptr address;
	struct stream *stream;
	uint64_t when;
};

struct pool {
	struct object object;
	struct device *device; /* NULL: host memory */
	struct heap heap;
	bool is_default, destroyed;
	bool imported; /* it gives nothing, and takes pointers from elsewhere */
	uint64_t threshold;
	CUmemPoolProps props;
	int reuse[4]; /* attributes that only say how memory may be reused */
	CUmemAccess_flags access[SIM_DEVICES];
	struct pending *_Atomic pending;
};

struct pool *pool_open(struct device *device, const CUmemPoolProps *props);
struct pool *pool_default(struct device *device);
void pool_destroy_if_empty(struct pool *pool);

/* Somebody waited for work on this device: pools give back what is over their threshold. */
void pools_synchronised(struct device *device);

CUresult pool_alloc(struct pool *pool, uint64_t bytes, struct stream *stream, CUdeviceptr *address);

#endif
