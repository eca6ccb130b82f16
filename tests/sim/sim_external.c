/*
 * sim_external.c - external memory by descriptor.
 */
#include "sim_external.h"
#include "sim_array.h"
#include "sim_vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Mapped buffers: unlike mappings of IPC they are freed with cuMemFree. */
struct buffer {
	struct buffer *next;
	CUdeviceptr base, address;
	uint64_t imported;
	struct device *device;
	struct context *context;
	bool array;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;

void imported_add(struct device *device, uint64_t bytes)
{
	struct device *counted = device ? device : &devices[0];

	pthread_mutex_lock(&counted->lock);
	usage_add(counted, FAMILY_imported, bytes);
	pthread_mutex_unlock(&counted->lock);
}

void imported_remove(struct device *device, uint64_t bytes)
{
	struct device *counted = device ? device : &devices[0];

	pthread_mutex_lock(&counted->lock);
	usage_remove(counted, FAMILY_imported, bytes);
	pthread_mutex_unlock(&counted->lock);
}

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
	imported_add(context->device, external->bytes);
	*extMem_out = (CUexternalMemory)external;
	return CUDA_SUCCESS;
}

void external_close(struct external *external)
{
	imported_remove(external->object.context->device, external->bytes);
	close(external->fd);
	object_delete(external);
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct external *external = object_get(KIND_external, extMem);

	if (!external)
		return CUDA_ERROR_INVALID_HANDLE;
	external_close(external);
	return CUDA_SUCCESS;
}

CUresult external_map(const struct external_range *range, CUdeviceptr *address)
{
	uint64_t start = range->offset / SIM_BLOCK * SIM_BLOCK;
	struct buffer *buffer = malloc(sizeof(*buffer));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	CUdeviceptr base;

	if (buffer)
		result = vmm_map_file(&(struct vmm_file){ range->fd, start, range->offset - start,
					      range->bytes, range->device },
			&base);
	if (result != CUDA_SUCCESS) {
		free(buffer);
		return result;
	}
	*address = base + (range->offset - start);
	pthread_mutex_lock(&lock);
	*buffer = (struct buffer){ buffers, base, *address, range->imported, range->device,
		range->context, range->array };
	buffers = buffer;
	imported_add(buffer->device, buffer->imported);
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
	return external_map(
		&(struct external_range){ .fd = external->fd,
			.offset = bufferDesc->offset,
			.bytes = bufferDesc->size,
			.device = external->object.context->device,
			.context = external->object.context->owner },
		devPtr);
}

CUresult sim_cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap,
	CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
	struct external *external = object_get(KIND_external, extMem);
	struct mipmap *opened;
	CUdeviceptr address;
	CUresult result = CUDA_SUCCESS;

	if (!external)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!mipmap || !mipmapDesc || !mipmapDesc->numLevels ||
		!array_is_valid(&mipmapDesc->arrayDesc))
		return CUDA_ERROR_INVALID_VALUE;
	opened = mipmap_new(
		external->object.context, &mipmapDesc->arrayDesc, mipmapDesc->numLevels);
	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (opened->bytes > external->bytes ||
		mipmapDesc->offset > external->bytes - opened->bytes)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = external_map(
			&(struct external_range){ .fd = external->fd,
				.offset = mipmapDesc->offset,
				.bytes = opened->bytes,
				.array = true,
				.device = external->object.context->device,
				.context = external->object.context->owner },
			&address);
	if (result != CUDA_SUCCESS) {
		mipmap_close(opened);
		return result;
	}
	opened->external = true;
	opened->memory = address;
	mipmap_place(opened, address);
	*mipmap = (CUmipmappedArray)opened;
	return CUDA_SUCCESS;
}

static void drop(struct buffer **place)
{
	struct buffer *old = *place;

	*place = old->next;
	vmm_unmap_file(old->base);
	imported_remove(old->device, old->imported);
	free(old);
}

CUresult external_unmap(CUdeviceptr address, bool array)
{
	struct buffer **place;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (place = &buffers; *place; place = &(*place)->next)
		if ((*place)->address == address && (*place)->array == array)
			break;
	if (*place) {
		drop(place);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void external_forget(const struct context *context)
{
	struct buffer **place;

	pthread_mutex_lock(&lock);
	for (place = &buffers; *place;) {
		if ((*place)->context == context)
			drop(place);
		else
			place = &(*place)->next;
	}
	pthread_mutex_unlock(&lock);
}
