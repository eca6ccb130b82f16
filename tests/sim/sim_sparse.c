/*
 * sim_sparse.c - arrays without memory of their own: sparse ones, and those mapped as a whole later.
 *
 * What is mapped only counts: the physical memory lives as long as something is mapped to it. Copies
 * from and to such arrays are refused.
 */
#include "sim_array.h"
#include "sim_physical.h"
#include "sim_stream.h"

#include <stdlib.h>
#include <string.h>

#define TILE_BYTES 65536

/* A part of an array with memory behind it. */
struct part {
	struct part *next;
	struct object *of; /* array or mipmap */
	CUarrayMapInfo info;
	struct physical *physical;
};

static struct part *parts; /* vmm_lock is held */

/* A level of a mipmap is borrowed: it is mapped by way of that. */
static struct object *resource_of(const CUarrayMapInfo *info)
{
	struct array *array;

	if (info->resourceType == CU_RESOURCE_TYPE_ARRAY) {
		array = object_get(KIND_array, info->resource.array);
		return array && !array->mipmap && !array->borrowed ? &array->object : NULL;
	}
	if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return object_get(KIND_mipmap, info->resource.mipmap);
	return NULL;
}

static unsigned flags_of(struct object *object)
{
	const struct array *array = (struct array *)object;

	if (object->kind == KIND_mipmap)
		array = ((struct mipmap *)object)->level[0];
	return array->descriptor.Flags;
}

static bool is_valid(const CUarrayMapInfo *info, struct object *of)
{
	bool maps = info->memOperationType == CU_MEM_OPERATION_TYPE_MAP;
	struct physical *physical = physical_get(info->memHandle.memHandle);

	if (!of || info->flags || !info->deviceBitMask || info->memHandleType ||
		!(flags_of(of) & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) ||
		(!maps && info->memOperationType != CU_MEM_OPERATION_TYPE_UNMAP))
		return false;
	return !maps || (physical && !physical->multicast && info->offset < physical->bytes);
}

static bool same_part(const struct part *part, const struct object *of, const CUarrayMapInfo *info)
{
	return part->of == of && part->info.subresourceType == info->subresourceType &&
	       !memcmp(&part->info.subresource, &info->subresource, sizeof(info->subresource));
}

static void drop(struct part **place)
{
	struct part *old = *place;

	*place = old->next;
	old->physical->mappings--;
	physical_release(old->physical);
	free(old);
}

/* Mapping over what is mapped replaces it. */
static void change(const CUarrayMapInfo *info, struct object *of)
{
	struct part **place = &parts, *new;

	while (*place && !same_part(*place, of, info))
		place = &(*place)->next;
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
		new = malloc(sizeof(*new));
		if (!new)
			abort();
		*new = (struct part){ parts, of, *info, physical_get(info->memHandle.memHandle) };
		new->physical->mappings++;
		if (*place)
			drop(place);
		new->next = parts;
		parts = new;
	} else if (*place) {
		drop(place);
	}
}

CUresult sim_cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);
	unsigned i;

	if (result != CUDA_SUCCESS)
		return result;
	if (!mapInfoList || !count)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (!is_valid(&mapInfoList[i], resource_of(&mapInfoList[i])))
			result = CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		change(&mapInfoList[i], resource_of(&mapInfoList[i]));
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

void sparse_forget(const struct object *of, const struct context *context)
{
	struct part **place;

	pthread_mutex_lock(&vmm_lock);
	for (place = &parts; *place;) {
		if ((*place)->of == of || (context && (*place)->of->context->owner == context))
			drop(place);
		else
			place = &(*place)->next;
	}
	pthread_mutex_unlock(&vmm_lock);
}

static CUresult properties(
	CUDA_ARRAY_SPARSE_PROPERTIES *out, const struct array *array, unsigned levels)
{
	unsigned pixel = (unsigned)larger(array->row_bytes / array->descriptor.Width, 1);

	if (!(array->descriptor.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	memset(out, 0, sizeof(*out));
	out->tileExtent.width = 256;
	out->tileExtent.height = TILE_BYTES / 256 / pixel;
	out->tileExtent.depth = 1;
	out->miptailFirstLevel = levels;
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetSparseProperties(
	CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray handle)
{
	struct array *array = object_get(KIND_array, handle);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	return sparseProperties ? properties(sparseProperties, array, 1) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMipmappedArrayGetSparseProperties(
	CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUmipmappedArray handle)
{
	struct mipmap *mipmap = object_get(KIND_mipmap, handle);

	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	return sparseProperties ? properties(sparseProperties, mipmap->level[0], mipmap->levels)
				: CUDA_ERROR_INVALID_VALUE;
}
