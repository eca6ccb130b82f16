/*
 * sim_pointer.c - what cuPointerGetAttribute tells about an address.
 */
#include "sim_external.h"
#include "sim_physical.h"
#include "sim_host.h"
#include "sim_pool.h"

#include <string.h>

#include <fcntl.h>

static bool is_host(const struct found *found)
{
	return !found->heap || found->heap->family == FAMILY_host;
}

static struct context *owner_of(const struct found *found)
{
	if (!found->heap)
		return sim_thread.current;
	return found->heap->context;
}

static int ordinal_of(const struct found *found)
{
	if (found->device)
		return found->device->ordinal;
	return owner_of(found) ? owner_of(found)->device->ordinal : 0;
}

static bool may_be_sent(const struct found *found)
{
	return found->heap && found->heap->family == FAMILY_device;
}

#define VALUE(type, expression) \
	do { \
		type typed = (type)(expression); \
		memcpy(data, &typed, sizeof(typed)); \
	} while (0)

/* Where the allocation lies, and how it may be shared. */
static CUresult answer_range(void *data, CUpointer_attribute attribute, const struct found *found)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		VALUE(CUdeviceptr, found->start);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		VALUE(size_t, found->bytes);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		VALUE(bool, true);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		VALUE(unsigned long long, 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		VALUE(bool, false);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		VALUE(unsigned, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		VALUE(CUmemoryPool, found->heap ? found->heap->pool : NULL);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult answer(
	void *data, CUpointer_attribute attribute, CUdeviceptr ptr, const struct found *found)
{
	bool host = is_host(found);

	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		VALUE(CUcontext, owner_of(found));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		VALUE(unsigned, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		VALUE(CUdeviceptr, ptr);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && found->heap->family != FAMILY_managed)
			return CUDA_ERROR_INVALID_VALUE;
		VALUE(void *, ptr);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		VALUE(unsigned, 0);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		VALUE(unsigned long long, found->id);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		VALUE(unsigned, found->heap && found->heap->family == FAMILY_managed);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		VALUE(int, ordinal_of(found));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		VALUE(bool, may_be_sent(found));
		return CUDA_SUCCESS;
	default:
		return answer_range(data, attribute, found);
	}
}

static bool find(CUdeviceptr ptr, struct found *found)
{
	return memory_find(ptr, found) || host_registered(ptr, found);
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct found found;

	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	if (!find(ptr, &found))
		return CUDA_ERROR_INVALID_VALUE;
	return answer(data, attribute, ptr, &found);
}

static size_t attribute_bytes(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return sizeof(bool);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return sizeof(unsigned);
	default:
		return sizeof(uint64_t);
	}
}

/* Several at once never fail for an address CUDA does not know: the answers are zero then. */
CUresult sim_cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	struct found found;
	unsigned i;

	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < numAttributes; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		memset(data[i], 0, attribute_bytes(attributes[i]));
		if (find(ptr, &found))
			answer(data[i], attributes[i], ptr, &found);
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = -2;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct found found;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find(ptr, &found))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* A descriptor of the bytes, as a network card would want it; the caller's to close. */
CUresult sim_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType handleType, unsigned long long flags)
{
	CUmemGenericAllocationHandle physical;
	struct found found;
	uint64_t start;
	int fd = -1;

	if (!handle || !size || dptr % 4096 || size % 4096 ||
		handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags & ~1ull ||
		!memory_find(dptr, &found) || !found.device ||
		size > found.start + found.bytes - dptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (found.arena) {
		pthread_mutex_lock(found.arena->lock);
		fd = span_share(found.arena,
			found.arena->table[(found.start - found.arena->base) / SIM_BLOCK], &start);
		pthread_mutex_unlock(found.arena->lock);
	} else if (sim_cuMemRetainAllocationHandle(&physical, (void *)dptr) == CUDA_SUCCESS) {
		pthread_mutex_lock(&vmm_lock);
		fd = physical_file(physical_get(physical));
		pthread_mutex_unlock(&vmm_lock);
		sim_cuMemRelease(physical);
	}
	fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (fd < 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	*(int *)handle = fd;
	return CUDA_SUCCESS;
}
