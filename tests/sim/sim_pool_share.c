/*
 * sim_pool_share.c - pools and pointers from them that another process imports.
 *
 * The descriptor of a pool only says which device it is of; the bytes come with each pointer.
 */
#include "sim_external.h"
#include "sim_pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x6c6f6f70u

/* What a descriptor, and what an exported pointer says. */
struct token {
	uint32_t magic;
	int32_t pid, fd, device;
	uint64_t offset, bytes;
};
_Static_assert(
	sizeof(struct token) <= sizeof(CUmemPoolPtrExportData), "exported data holds all of it");

static struct pool *pool_get(CUmemoryPool handle)
{
	struct pool *pool = object_get(KIND_pool, handle);

	return pool && !pool->destroyed ? pool : NULL;
}

CUresult sim_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct pool *pool = pool_get(handle);
	struct token token = { .magic = MAGIC };
	int fd;

	if (!handle_out || !pool || !pool->device || flags ||
		handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!(pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	token.device = pool->device->index;
	fd = memfd_create("sim-pool", MFD_CLOEXEC);
	if (fd < 0 || pwrite(fd, &token, sizeof(token), 0) != (ssize_t)sizeof(token))
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)handle_out = fd;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
	CUmemAllocationHandleType handleType, unsigned long long flags)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	struct token token;
	struct pool *pool;

	if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		pread((int)(intptr_t)handle, &token, sizeof(token), 0) != (ssize_t)sizeof(token) ||
		token.magic != MAGIC || token.device < 0 || token.device >= device_count)
		return CUDA_ERROR_INVALID_VALUE;
	props.location.id = devices[token.device].ordinal;
	pool = pool_open(&devices[token.device], &props);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->imported = true;
	object_give(pool, GIVEN_mem_pool);
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct token token = { .magic = MAGIC, .pid = (int32_t)getpid() };
	struct found found;
	uint64_t start;

	if (!shareData_out || !memory_find(ptr, &found) || !found.heap->pool || !found.device ||
		found.freeing)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(found.heap->pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(found.arena->lock);
	token.fd = span_share(found.arena,
		found.arena->table[(found.start - found.arena->base) / SIM_BLOCK], &start);
	pthread_mutex_unlock(found.arena->lock);
	if (token.fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	token.device = found.device->index;
	token.offset = found.start - start;
	token.bytes = found.bytes;
	memset(shareData_out, 0, sizeof(*shareData_out));
	memcpy(shareData_out, &token, sizeof(token));
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportPointer(
	CUdeviceptr *ptr_out, CUmemoryPool handle, CUmemPoolPtrExportData *shareData)
{
	struct pool *pool = pool_get(handle);
	struct token token;
	CUresult result;
	char path[64];
	int fd;

	if (!ptr_out || !shareData || !pool || !pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&token, shareData, sizeof(token));
	if (token.magic != MAGIC || token.device != pool->device->index)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", token.pid, token.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = external_map(&(struct external_range){ .fd = fd,
				      .offset = token.offset,
				      .bytes = token.bytes,
				      .imported = token.bytes,
				      .device = pool->device },
		ptr_out);
	close(fd);
	return result;
}

/* ---- pools by location ---- */

/* The pools of hosts and of managed memory are made when somebody first asks for them. */
static struct {
	struct pool *its, *current;
} elsewhere[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct place {
	struct device *device; /* or */
	unsigned elsewhere;
};

static CUresult locate(
	const CUmemLocation *location, CUmemAllocationType type, struct place *place)
{
	bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;

	place->device = NULL;
	place->elsewhere = managed;
	if (!location || (type != CU_MEM_ALLOCATION_TYPE_PINNED && !managed))
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		if (!device_get(location->id))
			return CUDA_ERROR_INVALID_DEVICE;
		place->device = managed ? NULL : device_get(location->id);
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_NONE:
		return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_HOST:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static struct pool *elsewhere_default(unsigned which)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST } };

	if (which)
		props = (CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED };
	pthread_mutex_lock(&lock);
	if (!elsewhere[which].its) {
		elsewhere[which].its = pool_open(NULL, &props);
		if (elsewhere[which].its)
			elsewhere[which].its->is_default = true;
	}
	pthread_mutex_unlock(&lock);
	return elsewhere[which].its;
}

static struct pool *default_of(const struct place *place)
{
	return place->device ? place->device->default_pool : elsewhere_default(place->elsewhere);
}

static struct pool *current_of(const struct place *place)
{
	struct pool *current = elsewhere[place->elsewhere].current;

	if (place->device)
		return place->device->current_pool;
	return pool_get((CUmemoryPool)current) ? current : elsewhere_default(place->elsewhere);
}

static CUresult answer(CUmemoryPool *out, const struct pool *pool)
{
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetDefaultMemPool(
	CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	struct place place;
	CUresult result = pool_out ? locate(location, type, &place) : CUDA_ERROR_INVALID_VALUE;

	return result == CUDA_SUCCESS ? answer(pool_out, default_of(&place)) : result;
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	struct place place;
	CUresult result = pool ? locate(location, type, &place) : CUDA_ERROR_INVALID_VALUE;

	return result == CUDA_SUCCESS ? answer(pool, current_of(&place)) : result;
}

CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct place place;
	CUresult result = locate(location, type, &place);
	struct pool *it = pool_get(pool);

	if (result != CUDA_SUCCESS)
		return result;
	if (place.device)
		return sim_cuDeviceSetMemPool(place.device->ordinal, pool);
	if (!it || it->props.allocType != type || it->imported)
		return CUDA_ERROR_INVALID_VALUE;
	elsewhere[place.elsewhere].current = it;
	return CUDA_SUCCESS;
}
