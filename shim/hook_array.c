/*
 * hook_array.c - arrays and mipmapped arrays. They die with their context.
 *
 * Levels and planes of an array are borrowed handles: they hold nothing of their own.
 */
#include "array_size.h"
#include "grant.h"
#include "mapping.h"

static CUresult open_array(struct grant *grant, enum record_class class, uint64_t bytes, bool known)
{
	struct grant_request request = {
		.kind = KIND_ARRAY, .class = class, .bytes = bytes, .charged = true,
	};

	if (attention_wanted())
		guest_look();
	if (!known)
		guest_find(FINDING_UNKNOWN_FORMAT);
	request.device = guest_current_device(guest_thread(), &request.context);
	return grant_open_for(grant, &request);
}

/* The descriptors of all versions have these members; those of plain arrays lack depth and flags. */
#define FLAT(d) { .Width = (d)->Width, .Height = (d)->Height, .Format = (d)->Format, \
	.NumChannels = (d)->NumChannels }
#define SOLID(d) { .Width = (d)->Width, .Height = (d)->Height, .Depth = (d)->Depth, \
	.Format = (d)->Format, .NumChannels = (d)->NumChannels, .Flags = (d)->Flags }

#define ARRAY_CREATE(name, class, descriptor, shape_of, handle, size) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUDA_ARRAY3D_DESCRIPTOR cw_shape; \
		CUresult cw_result; \
		uint64_t cw_bytes; \
		bool cw_known; \
\
		if (!descriptor) \
			return real.name ARGS_##name; \
		cw_shape = (CUDA_ARRAY3D_DESCRIPTOR)shape_of(descriptor); \
		cw_bytes = size; \
		cw_result = open_array(&cw_grant, class, cw_bytes, cw_known); \
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		return grant_close(&cw_grant, cw_result, \
			cw_result == CUDA_SUCCESS ? (uint64_t)*handle : 0); \
	}

#define PLAIN array_size(&cw_shape, &cw_known)
#define MIPMAP array_mipmap_size(&cw_shape, numMipmapLevels, &cw_known)

ARRAY_CREATE(cuArrayCreate, CLASS_ARRAY, pAllocateArray, FLAT, pHandle, PLAIN)
ARRAY_CREATE(cuArrayCreate_v2, CLASS_ARRAY, pAllocateArray, FLAT, pHandle, PLAIN)
ARRAY_CREATE(cuArray3DCreate, CLASS_ARRAY, pAllocateArray, SOLID, pHandle, PLAIN)
ARRAY_CREATE(cuArray3DCreate_v2, CLASS_ARRAY, pAllocateArray, SOLID, pHandle, PLAIN)
ARRAY_CREATE(cuMipmappedArrayCreate, CLASS_MIPMAP, pMipmappedArrayDesc, SOLID, pHandle, MIPMAP)

/* What was mapped into a sparse array goes with it. */
#define ARRAY_DESTROY(name, class, handle) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct release cw_release; \
		struct mapping_chain cw_chain; \
		CUresult cw_result; \
\
		release_open(&cw_release, class, (uint64_t)handle); \
		mapping_open_array(&cw_chain, cw_release.record); \
		cw_result = real.name ARGS_##name; \
		mapping_close(&cw_chain, cw_result == CUDA_SUCCESS); \
		return release_close(&cw_release, cw_result); \
	}

ARRAY_DESTROY(cuArrayDestroy, CLASS_ARRAY, hArray)
ARRAY_DESTROY(cuMipmappedArrayDestroy, CLASS_MIPMAP, hMipmappedArray)
