/*
 * sim_external.c - external memory by descriptor.
 */
#include "sim_external.h"
#include "sim_vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Mapped buffers: unlike mappings of IPC they are freed with cuMemFree. */
struct buffer {
	struct buffer *next;
	CUdeviceptr base, address;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;

CUresult sim_cuImportExternalMemory(
	CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	struct context *context;
	struct external *external;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!extMem_out || !memHandleDesc || !memHandleDesc->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fcntl(memHandleDesc->handle.fd, F_GETFD) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	external = object_new(KIND_external, context);
	if (!external)
		return CUDA_ERROR_OUT_OF_MEMORY;
	external->fd = memHandleDesc->handle.fd; /* from now on the driver's */
	external->bytes = memHandleDesc->size;
	*extMem_out = (CUexternalMemory)external;
	return CUDA_SUCCESS;
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct external *external = object_get(KIND_external, extMem);

	if (!external)
		return CUDA_ERROR_INVALID_HANDLE;
	close(external->fd);
	object_delete(external);
	return CUDA_SUCCESS;
}

CUresult external_map(
	int fd, uint64_t offset, uint64_t bytes, struct device *device, CUdeviceptr *address)
{
	uint64_t start = offset / SIM_BLOCK * SIM_BLOCK;
	struct buffer *buffer = malloc(sizeof(*buffer));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	CUdeviceptr base;

	if (buffer)
		result = vmm_map_file(fd, start, offset - start + bytes, device, &base);
	if (result != CUDA_SUCCESS) {
		free(buffer);
		return result;
	}
	*address = base + (offset - start);
	pthread_mutex_lock(&lock);
	*buffer = (struct buffer){ buffers, base, *address };
	buffers = buffer;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* The mapping is freed with cuMemFree, and may outlive the import. */
CUresult sim_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
	const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
	struct external *external = object_get(KIND_external, extMem);

	if (!external)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!devPtr || !bufferDesc || !bufferDesc->size || bufferDesc->flags ||
		bufferDesc->size > external->bytes ||
		bufferDesc->offset > external->bytes - bufferDesc->size)
		return CUDA_ERROR_INVALID_VALUE;
	return external_map(external->fd, bufferDesc->offset, bufferDesc->size,
		external->object.context->device, devPtr);
}

CUresult external_unmap(CUdeviceptr address)
{
	struct buffer **place, *old;

	pthread_mutex_lock(&lock);
	for (place = &buffers; (old = *place) && old->address != address; place = &old->next)
		;
	if (old)
		*place = old->next;
	pthread_mutex_unlock(&lock);
	if (!old)
		return CUDA_ERROR_INVALID_VALUE;
	vmm_unmap_file(old->base);
	free(old);
	return CUDA_SUCCESS;
}
