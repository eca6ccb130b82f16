/*
 * sim_memory.c - device and managed memory: allocate, free, ask.
 */
#include "sim_context.h"
#include "sim_external.h"
#include "sim_graph.h"
#include "sim_pool.h"
#include "sim_stream.h"

#define PITCH 512

/* What cuMemFree may free. */
#define FREEABLE (FAMILY(device) | FAMILY(managed) | FAMILY(pool))

/* A context that may allocate now, or why not. */
static CUresult allocating(struct context **context)
{
	CUresult result = context_current(context);

	if (result == CUDA_SUCCESS && capture_refuses(&result))
		return result;
	return result;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct context *context;
	CUresult result = allocating(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	return heap_alloc(&context->owner->memory, bytesize, dptr);
}

/* The first ABI: addresses and sizes of 32 bits. */
CUresult sim_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct context *context;
	CUdeviceptr address;
	CUresult result = allocating(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	context = context->owner;
	if (!context->low.arena) {
		if (!arena_low(context->device))
			return CUDA_ERROR_OUT_OF_MEMORY;
		heap_open(&context->low, arena_low(context->device), FAMILY_device);
		context->low.context = context;
	}
	result = heap_alloc(&context->low, bytesize, &address);
	if (result == CUDA_SUCCESS)
		*dptr = (CUdeviceptr_v1)address;
	return result;
}

static CUresult pitch_of(
	size_t width, size_t height, unsigned element, size_t *pitch, size_t *bytes)
{
	if (!width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > SIZE_MAX - PITCH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pitch = round_up(width, PITCH);
	if (__builtin_mul_overflow(*pitch, height, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
	size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch, bytes;
	CUresult result = dptr && pPitch
				  ? pitch_of(WidthInBytes, Height, ElementSizeBytes, &pitch, &bytes)
				  : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		result = sim_cuMemAlloc_v2(dptr, bytes);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

CUresult sim_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
	unsigned int Height, unsigned int ElementSizeBytes)
{
	size_t pitch, bytes;
	CUresult result = dptr && pPitch
				  ? pitch_of(WidthInBytes, Height, ElementSizeBytes, &pitch, &bytes)
				  : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		result = bytes > UINT32_MAX ? CUDA_ERROR_OUT_OF_MEMORY
					    : sim_cuMemAlloc(dptr, (unsigned)bytes);
	if (result == CUDA_SUCCESS)
		*pPitch = (unsigned)pitch;
	return result;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct context *context;
	CUresult result = allocating(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	return heap_alloc(&context->owner->managed, bytesize, dptr);
}

static bool captured_memory(CUdeviceptr address)
{
	struct found found;

	return memory_find(address, &found) && found.heap->family == FAMILY_graph;
}

/* No context is needed to free, and it may be another one's memory. */
CUresult sim_cuMemFree_v2(CUdeviceptr dptr)
{
	CUresult result;

	if (!dptr)
		return CUDA_SUCCESS;
	if (capture_refuses(&result))
		return result;
	result = heap_free(dptr, FREEABLE);
	if (result != CUDA_SUCCESS && captured_memory(dptr))
		return graph_memory_free(dptr);
	if (result != CUDA_SUCCESS && external_unmap(dptr, false) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		count_one(&usage_process()->bad_frees);
	return result;
}

CUresult sim_cuMemFree(CUdeviceptr_v1 dptr)
{
	return sim_cuMemFree_v2(dptr);
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct found found;

	if (!memory_find(dptr, &found))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = found.start;
	if (psize)
		*psize = found.bytes;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
	CUdeviceptr base = 0;
	size_t bytes = 0;
	CUresult result = sim_cuMemGetAddressRange_v2(&base, &bytes, dptr);

	if (result == CUDA_SUCCESS && pbase)
		*pbase = (CUdeviceptr_v1)base;
	if (result == CUDA_SUCCESS && psize)
		*psize = (unsigned)bytes;
	return result;
}

/* ---- hints about managed memory: checked, then ignored ---- */

static CUresult managed_range(CUdeviceptr address, size_t bytes)
{
	struct found found;

	if (!memory_find(address, &found) || found.heap->family != FAMILY_managed || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return bytes > found.start + found.bytes - address ? CUDA_ERROR_INVALID_VALUE
							   : CUDA_SUCCESS;
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	if (device != CU_DEVICE_CPU && !device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return advice ? managed_range(devPtr, count) : CUDA_ERROR_INVALID_VALUE;
}

static bool location_is_valid(CUmemLocation location)
{
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return device_get(location.id) != NULL;
	return location.type == CU_MEM_LOCATION_TYPE_HOST ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUresult sim_cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	(void)location;
	return advice ? managed_range(devPtr, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPrefetchAsync(
	CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result == CUDA_SUCCESS && dstDevice != CU_DEVICE_CPU && !device_get(dstDevice))
		result = CUDA_ERROR_INVALID_DEVICE;
	if (result == CUDA_SUCCESS)
		result = managed_range(devPtr, count);
	if (result == CUDA_SUCCESS)
		stream_append(stream, sim_copy_ns(count));
	return result;
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream)
{
	if (flags || !location_is_valid(location))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuMemPrefetchAsync(devPtr, count,
		location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU,
		hStream);
}

/* ---- what was advised is not kept: the answers are those of memory nobody advised on ---- */

CUresult sim_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
	CUdeviceptr devPtr, size_t count)
{
	CUresult result =
		data && dataSize ? managed_range(devPtr, count) : CUDA_ERROR_INVALID_VALUE;
	int value = attribute == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : CU_DEVICE_INVALID;
	size_t i;

	if (result != CUDA_SUCCESS)
		return result;
	if (attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
		attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID ||
		dataSize % sizeof(int))
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE ||
		attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
		value = CU_MEM_LOCATION_TYPE_INVALID;
	for (i = 0; i < dataSize / sizeof(int); i++)
		((int *)data)[i] = value;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
	CUmem_range_attribute *attributes, size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult result = data && dataSizes && attributes && numAttributes
				  ? CUDA_SUCCESS
				  : CUDA_ERROR_INVALID_VALUE;
	size_t i;

	for (i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
		result = sim_cuMemRangeGetAttribute(
			data[i], dataSizes[i], attributes[i], devPtr, count);
	return result;
}
