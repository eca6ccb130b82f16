/*
 * sim_green.c - green contexts, and the resources they are cut from.
 *
 * They own no memory: what is allocated in one belongs to the primary context, which each retains.
 * Their streams outlive them, but every use of those then fails.
 */
#include "sim_green.h"
#include "sim_stream.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST 4 /* multiprocessors of a part */

static CUdevResource all_of(const struct device *device)
{
	CUdevResource resource;

	memset(&resource, 0, sizeof(resource));
	resource.type = CU_DEV_RESOURCE_TYPE_SM;
	resource.sm.smCount =
		(unsigned)device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	resource.sm.minSmPartitionSize = SMALLEST;
	resource.sm.smCoscheduledAlignment = 2;
	return resource;
}

CUresult sim_cuDeviceGetDevResource(
	CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = all_of(device_get(device));
	return CUDA_SUCCESS;
}

CUresult sim_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
	const CUdevResource *input, CUdevResource *remaining, unsigned int useFlags,
	unsigned int minCount)
{
	unsigned part = (unsigned)round_up(larger(minCount, SMALLEST), 2), groups, i;

	if (!nbGroups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || useFlags & ~3u)
		return CUDA_ERROR_INVALID_VALUE;
	groups = input->sm.smCount / part;
	if (!groups)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result && *nbGroups < groups)
		groups = *nbGroups;
	for (i = 0; result && i < groups; i++) {
		result[i] = *input;
		result[i].sm.smCount = part;
	}
	if (remaining) {
		*remaining = *input;
		remaining->sm.smCount -= groups * part;
		if (!remaining->sm.smCount)
			remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
	}
	*nbGroups = groups;
	return CUDA_SUCCESS;
}

/* A descriptor is the number of multiprocessors, which is not a pointer and not zero. */
CUresult sim_cuDevResourceGenerateDesc(
	CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
	uintptr_t count = 0;
	unsigned i;

	if (!phDesc || !resources || !nbResources)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < nbResources; i++) {
		if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
			return CUDA_ERROR_INVALID_RESOURCE_TYPE;
		count += resources[i].sm.smCount;
	}
	*phDesc = (CUdevResourceDesc)count;
	return CUDA_SUCCESS;
}

static struct context *face_new(struct device *device)
{
	struct context *face = context_new(device);

	if (!face)
		return NULL;
	memcpy(face->limits, device->primary->limits, sizeof(face->limits));
	face->owner = device->primary;
	face->primary = true; /* cuCtxDestroy must leave it alone */
	face->api_version = device->primary->api_version;
	face->legacy = stream_open(face, CU_STREAM_DEFAULT, 0);
	face->id = device->primary->id + ((unsigned long long)1 << 32);
	face->active = face->legacy != NULL;
	return face;
}

CUresult sim_cuGreenCtxCreate(
	CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	struct device *device = device_get(dev);
	struct green *green;
	CUresult result;

	if (!phCtx || !desc || (uintptr_t)desc > 65536 || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	result = primary_retain(device);
	if (result != CUDA_SUCCESS)
		return result;
	green = object_new(KIND_green, NULL);
	if (green)
		green->face = face_new(device);
	if (!green || !green->face || !green->face->active) {
		primary_release(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->multiprocessors = (unsigned)(uintptr_t)desc;
	object_give(green, GIVEN_green_context);
	*phCtx = (CUgreenCtx)green;
	return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct green *green = object_get(KIND_green, hCtx);

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	green->face->active = false;
	primary_release(green->face->device);
	object_delete(green);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct green *green = object_get(KIND_green, hCtx);

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	*pContext = (CUcontext)green->face;
	return CUDA_SUCCESS;
}

static CUresult resource_of(unsigned multiprocessors, const struct device *device,
	CUdevResource *resource, CUdevResourceType type)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = all_of(device);
	if (multiprocessors)
		resource->sm.smCount = multiprocessors;
	return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetDevResource(
	CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct green *green = object_get(KIND_green, hCtx);

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	return resource_of(green->multiprocessors, green->face->device, resource, type);
}

CUresult sim_cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct context *context = hCtx ? context_get(hCtx) : sim_thread.current;

	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	return resource_of(0, context->device, resource, type);
}

CUresult sim_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct green *green = object_get(KIND_green, greenCtx);

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!greenCtxId)
		return CUDA_ERROR_INVALID_VALUE;
	*greenCtxId = green->face->id;
	return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxStreamCreate(
	CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	struct green *green = object_get(KIND_green, greenCtx);
	struct stream *stream;

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_open(green->face, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(stream, GIVEN_stream);
	*phStream = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct green *green = NULL;
	struct stream *stream;
	CUresult result = phCtx ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	while ((green = object_next(KIND_green, green)) && green->face != stream->object.context)
		;
	*phCtx = (CUgreenCtx)green;
	return CUDA_SUCCESS;
}
