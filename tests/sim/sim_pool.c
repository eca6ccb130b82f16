/*
 * sim_pool.c - stream-ordered memory: pools, and what is freed when a stream gets there.
 */
#include "sim_pool.h"
#include "sim_external.h"
#include "sim_graph.h"
#include "sim_stream.h"

#include <stdlib.h>
#include <string.h>

#define FREEABLE (FAMILY(pool) | FAMILY(device) | FAMILY(managed))

/* Held by whoever looks at pools that may go, and at what is pending in them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Managed memory without a preferred place is counted with the first device. */
static void open_heap(struct pool *pool)
{
	struct device *device = pool->device ? pool->device : &devices[0];

	if (pool->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		heap_open(&pool->heap, &device->arenas[ARENA_MANAGED], FAMILY_managed);
	else if (pool->device)
		heap_open(&pool->heap, &device->arenas[ARENA_DEVICE], FAMILY_pool);
	else
		heap_open(&pool->heap, &host_arena, FAMILY_host);
	pool->heap.pool = pool;
}

struct pool *pool_open(struct device *device, const CUmemPoolProps *props)
{
	struct pool *pool = object_new(KIND_pool, NULL);

	if (!pool)
		return NULL;
	pool->device = device;
	pool->props = *props;
	open_heap(pool);
	pool->heap.most = props->maxSize;
	pool->reuse[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
	pool->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
	pool->reuse[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
	if (device)
		pool->access[device->index] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return pool;
}

struct pool *pool_default(struct device *device)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal } };

	if (!device->default_pool) {
		device->default_pool = pool_open(device, &props);
		if (!device->default_pool)
			return NULL;
		device->default_pool->is_default = true;
		device->current_pool = device->default_pool;
		heap_open(&device->graph_heap, &device->arenas[ARENA_MANAGED], FAMILY_graph);
	}
	return device->default_pool;
}

static struct pool *pool_get(CUmemoryPool handle)
{
	struct pool *pool = object_get(KIND_pool, handle);

	return pool && !pool->destroyed ? pool : NULL;
}

/* A destroyed pool goes with its last allocation. The lock is held. */
static void destroy_if_empty(struct pool *pool)
{
	if (!pool->object.alive || !pool->destroyed || pool->heap.used || pool->pending)
		return;
	heap_close(&pool->heap);
	object_delete(pool);
}

void pool_destroy_if_empty(struct pool *pool)
{
	pthread_mutex_lock(&lock);
	destroy_if_empty(pool);
	pthread_mutex_unlock(&lock);
}

/* ---- frees that wait for their stream ---- */

/*
 * Free what is due. What this stream freed it may use again at once: its work is in order. The lock
 * is held.
 */
static void settle_locked(struct pool *pool, const struct stream *stream)
{
	struct pending *_Atomic *place, *pending;
	uint64_t now;

	if (!pool->pending)
		return;
	now = sim_now();
	for (place = &pool->pending; (pending = *place);) {
		if (pending->when > now && pending->stream != stream) {
			place = &pending->next;
			continue;
		}
		*place = pending->next;
		heap_free(pending->address, FREEABLE | FAMILY_LATE);
		free(pending);
	}
}

static void settle(struct pool *pool, const struct stream *stream)
{
	if (!pool->pending)
		return;
	pthread_mutex_lock(&lock);
	settle_locked(pool, stream);
	pthread_mutex_unlock(&lock);
}

static CUresult free_later(
	struct pool *pool, CUdeviceptr address, struct stream *stream, uint64_t when)
{
	struct pending *pending = malloc(sizeof(*pending));

	if (!pending)
		return heap_free(address, FREEABLE | FAMILY_LATE);
	pthread_mutex_lock(&lock);
	*pending = (struct pending){ pool->pending, address, stream, when };
	pool->pending = pending;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

void pools_synchronised(struct device *device)
{
	struct pool *pool = NULL;

	pthread_mutex_lock(&lock);
	while ((pool = object_next(KIND_pool, pool))) {
		if (!pool->heap.arena || (pool->device && pool->device != device))
			continue;
		settle_locked(pool, NULL);
		if (pool->device)
			heap_trim(&pool->heap, pool->threshold);
		destroy_if_empty(pool);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- allocate and free ---- */

CUresult pool_alloc(struct pool *pool, uint64_t bytes, struct stream *stream, CUdeviceptr *address)
{
	settle(pool, stream);
	return heap_alloc(&pool->heap, bytes, address);
}

/* In a capture it is a node: the graph owns the memory, at an address that is fixed now. */
static CUresult capture_alloc(
	struct node *node, struct pool *pool, uint64_t bytes, CUdeviceptr *dptr)
{
	node->is.alloc =
		(CUDA_MEM_ALLOC_NODE_PARAMS){ .poolProps = pool->props, .bytesize = bytes };
	return graph_reserve(node, pool->device, dptr);
}

static CUresult alloc_from(
	struct pool *pool, CUdeviceptr *dptr, size_t bytes, struct stream *stream)
{
	struct node *node;
	CUresult result;

	if (!dptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node, &result))
		return pool_alloc(pool, bytes, stream, dptr);
	return node ? capture_alloc(node, pool, bytes, dptr) : result;
}

/* The stream says which device; the current context does not matter. */
CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	return alloc_from(stream->object.context->device->current_pool, dptr, bytesize, stream);
}

CUresult sim_cuMemAllocFromPoolAsync(
	CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool_get(pool) || pool_get(pool)->imported)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_from(pool_get(pool), dptr, bytesize, stream);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct stream *stream;
	struct found found;
	struct node *node;
	CUresult result = stream_of(hStream, &stream);
	uint64_t when;

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &node, &result)) {
		if (node)
			node->is.free = dptr;
		return result;
	}
	if (memory_find(dptr, &found) && found.heap->family == FAMILY_graph)
		return graph_memory_free(dptr);
	result = heap_free_later(dptr, FREEABLE, &found);
	if (result != CUDA_SUCCESS && external_unmap(dptr, false) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (result != CUDA_SUCCESS) {
		count_one(&usage_process()->bad_frees);
		return result;
	}
	when = stream_append(stream, 0);
	if (when && when > sim_now() && found.heap->pool)
		return free_later(found.heap->pool, dptr, stream, when);
	result = heap_free(dptr, FREEABLE | FAMILY_LATE);
	if (found.heap->pool && found.heap->pool->destroyed)
		pool_destroy_if_empty(found.heap->pool);
	return result;
}

/* ---- pools ---- */

static bool location_is_valid(const CUmemLocation *location, struct device **device)
{
	*device = NULL;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
		*device = device_get(location->id);
		return *device != NULL;
	}
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0) ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* May a pool be of this, there? */
static bool props_are_valid(const CUmemPoolProps *props, struct device **device)
{
	if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) {
		*device = NULL;
		return props->location.type == CU_MEM_LOCATION_TYPE_NONE ||
		       location_is_valid(&props->location, device);
	}
	return props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       location_is_valid(&props->location, device);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct device *device;
	struct pool *opened;

	if (!pool || !poolProps || !props_are_valid(poolProps, &device))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	opened = pool_open(device, poolProps);
	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(opened, GIVEN_mem_pool);
	*pool = (CUmemoryPool)opened;
	return CUDA_SUCCESS;
}

/* Its device falls back to the default pool; its memory stays until the last allocation is freed.
 */
CUresult sim_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool = pool_get(handle);

	if (!pool || pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->device && pool->device->current_pool == pool)
		pool->device->current_pool = pool->device->default_pool;
	pthread_mutex_lock(&lock);
	settle_locked(pool, NULL);
	pool->destroyed = true;
	object_take_back(pool);
	destroy_if_empty(pool);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct pool *pool = pool_get(handle);

	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	settle(pool, NULL);
	if (pool->device)
		heap_trim(&pool->heap, minBytesToKeep);
	return CUDA_SUCCESS;
}

static uint64_t *wide_attribute(struct pool *pool, CUmemPool_attribute attr)
{
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->heap.reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->heap.used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->heap.used_high;
	default:
		return NULL;
	}
}

static bool is_narrow(CUmemPool_attribute attr)
{
	return attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct pool *pool = pool_get(handle);
	CUresult result = CUDA_SUCCESS;

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	settle(pool, NULL);
	pthread_mutex_lock(pool->heap.arena->lock);
	if (is_narrow(attr))
		*(int *)value = pool->reuse[attr];
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		*(uint64_t *)value = pool->heap.held + pool->heap.idle;
	else if (wide_attribute(pool, attr))
		*(uint64_t *)value = *wide_attribute(pool, attr);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(pool->heap.arena->lock);
	return result;
}

/* High-water marks can be set to zero only, which makes them start again from what is now. */
CUresult sim_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct pool *pool = pool_get(handle);

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_narrow(attr)) {
		pool->reuse[attr] = *(int *)value;
		return CUDA_SUCCESS;
	}
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		pool->threshold = *(uint64_t *)value;
		return CUDA_SUCCESS;
	}
	if (*(uint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		pool->heap.reserved_high = pool->heap.held + pool->heap.idle;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		pool->heap.used_high = pool->heap.used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	struct pool *pool = pool_get(handle);
	struct device *device;
	size_t i;

	if (!pool || (count && !map))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!location_is_valid(&map[i].location, &device) || !device)
			return CUDA_ERROR_INVALID_DEVICE;
	for (i = 0; i < count; i++)
		pool->access[device_get(map[i].location.id)->index] = map[i].flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(
	CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	struct pool *pool = pool_get(memPool);
	struct device *device;

	if (!flags || !pool || !location || !location_is_valid(location, &device) || !device)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = pool->access[device->index];
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool_out = (CUmemoryPool)device_get(dev)->default_pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)device_get(dev)->current_pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool_get(pool) || pool_get(pool)->device != device_get(dev) ||
		pool_get(pool)->imported ||
		pool_get(pool)->props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	device_get(dev)->current_pool = pool_get(pool);
	return CUDA_SUCCESS;
}
