/*
 * sim_array.c - arrays and mipmaps. Their bytes lie in rows without padding, so copies round-trip.
 */
#include "sim_array.h"
#include "sim_external.h"
#include "sim_stream.h"

#include <string.h>

/* Formats that hold their channels already; in half bytes a pixel (block compressed ones apart). */
static const struct {
	unsigned short format, half_bytes;
} formats[] = {
	{ CU_AD_FORMAT_UNORM_INT8X1, 2 },
	{ CU_AD_FORMAT_UNORM_INT8X2, 4 },
	{ CU_AD_FORMAT_UNORM_INT8X4, 8 },
	{ CU_AD_FORMAT_UNORM_INT16X1, 4 },
	{ CU_AD_FORMAT_UNORM_INT16X2, 8 },
	{ CU_AD_FORMAT_UNORM_INT16X4, 16 },
	{ CU_AD_FORMAT_SNORM_INT8X1, 2 },
	{ CU_AD_FORMAT_SNORM_INT8X2, 4 },
	{ CU_AD_FORMAT_SNORM_INT8X4, 8 },
	{ CU_AD_FORMAT_SNORM_INT16X1, 4 },
	{ CU_AD_FORMAT_SNORM_INT16X2, 8 },
	{ CU_AD_FORMAT_SNORM_INT16X4, 16 },
	{ CU_AD_FORMAT_UNORM_INT_101010_2, 8 },
	{ CU_AD_FORMAT_AYUV, 8 },
	{ CU_AD_FORMAT_Y410, 8 },
	{ CU_AD_FORMAT_Y416, 16 },
	{ CU_AD_FORMAT_YUY2, 4 },
	{ CU_AD_FORMAT_Y210, 8 },
	{ CU_AD_FORMAT_Y216, 8 },
	{ CU_AD_FORMAT_NV12, 3 },
	{ CU_AD_FORMAT_P010, 6 },
	{ CU_AD_FORMAT_P016, 6 },
	{ CU_AD_FORMAT_NV16, 4 },
	{ CU_AD_FORMAT_P210, 8 },
	{ CU_AD_FORMAT_P216, 8 },
	{ CU_AD_FORMAT_Y444_PLANAR8, 6 },
	{ CU_AD_FORMAT_Y444_PLANAR10, 12 },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 6 },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 12 },
};

/*
 * CU_AD_FORMAT_UINT8_PACKED_422 to CU_AD_FORMAT_UINT16_PLANAR_444 of newer headers: packed, then
 * semi-planar and planar ones, 8 and 16 bits wide in turn, with 420, 422 and 444.
 */
static unsigned picture_half_bytes(int format)
{
	static const unsigned char samples[] = { 3, 4, 6 };

	if (format == 0x51 || format == 0x52)
		return format == 0x51 ? 4 : 8;
	if (format < 0x53 || format > 0x5e)
		return 0;
	return samples[(format - 0x53) / 2 % 3] << (format - 0x53) % 2;
}

unsigned format_half_bytes(CUarray_format format, unsigned channels)
{
	size_t i;

	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 2 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 4 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 8 * channels;
	}
	for (i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i].format == format)
			return formats[i].half_bytes;
	return picture_half_bytes(format);
}

/* Bytes of one 4 x 4 block, or 0. */
static unsigned compressed_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_BC1_UNORM:
	case CU_AD_FORMAT_BC1_UNORM_SRGB:
	case CU_AD_FORMAT_BC4_UNORM:
	case CU_AD_FORMAT_BC4_SNORM:
		return 8;
	default:
		return format >= CU_AD_FORMAT_BC2_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB
			       ? 16
			       : 0;
	}
}

static uint64_t row_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	unsigned block = compressed_bytes(d->Format);

	if (block)
		return (d->Width + 3) / 4 * block;
	return d->Width * format_half_bytes(d->Format, d->NumChannels) / 2;
}

uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	uint64_t rows = larger(d->Height, 1), layers = larger(d->Depth, 1);
	unsigned block = compressed_bytes(d->Format);

	if (block)
		return (d->Width + 3) / 4 * ((rows + 3) / 4) * layers * block;
	return d->Width * rows * layers * format_half_bytes(d->Format, d->NumChannels) / 2;
}

/* ---- life ---- */

#define LARGEST 131072
#define UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static bool channels_are_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4 ||
	       d->NumChannels == 3;
}

bool array_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (!d->Width || d->Width > LARGEST || d->Height > LARGEST || d->Depth > 16384)
		return false;
	if (!channels_are_valid(d) || (d->NumChannels == 3 && d->Format < CU_AD_FORMAT_BC1_UNORM))
		return false;
	if (!format_half_bytes(d->Format, d->NumChannels) && !compressed_bytes(d->Format))
		return false;
	if (d->Flags & CUDA_ARRAY3D_LAYERED && !d->Depth)
		return false;
	return !(d->Flags & CUDA_ARRAY3D_CUBEMAP) ||
	       (d->Width == d->Height && d->Depth && d->Depth % 6 == 0);
}

static struct array *array_new(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct array *array = object_new(KIND_array, context);

	if (!array)
		return NULL;
	array->descriptor = *d;
	array->row_bytes = row_bytes(d);
	array->bytes = array_bytes(d);
	return array;
}

/* Arrays without memory count too, with no bytes. */
static void count_unbacked(const struct context *context, bool there)
{
	pthread_mutex_lock(&context->device->lock);
	if (there)
		usage_add(context->device, FAMILY_array, 0);
	else
		usage_remove(context->device, FAMILY_array, 0);
	pthread_mutex_unlock(&context->device->lock);
}

static CUresult array_open(
	struct array **opened, struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct array *array = array_new(context, d);
	CUresult result = CUDA_SUCCESS;

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!(d->Flags & UNBACKED))
		result = heap_alloc(&context->owner->arrays, array->bytes, &array->memory);
	else
		count_unbacked(context, true);
	if (result != CUDA_SUCCESS)
		object_delete(array);
	else
		*opened = array;
	return result;
}

static void array_close(struct array *array)
{
	if (array->memory && !array->mipmap)
		heap_free(array->memory, FAMILY(array));
	array_swept(array);
}

void array_swept(struct array *array)
{
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(array->plane); i++)
		if (array->plane[i])
			object_delete(array->plane[i]);
	if (array->descriptor.Flags & UNBACKED && !array->mipmap && !array->borrowed) {
		sparse_forget(&array->object, NULL);
		count_unbacked(array->object.context, false);
	}
	object_delete(array);
}

static CUresult creating(struct context **context)
{
	CUresult result = context_current(context);

	if (result == CUDA_SUCCESS)
		capture_refuses(&result);
	return result;
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct context *context;
	struct array *array;
	CUresult result = creating(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !pAllocateArray || !array_is_valid(pAllocateArray))
		return CUDA_ERROR_INVALID_VALUE;
	result = array_open(&array, context, pAllocateArray);
	if (result == CUDA_SUCCESS)
		*pHandle = (CUarray)array;
	return result;
}

/* Both ABIs and both shapes have fields of the same names. */
#define COMMON(d) \
	.Width = (d)->Width, .Height = (d)->Height, .Format = (d)->Format, \
	.NumChannels = (d)->NumChannels

CUresult sim_cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){ COMMON(pAllocateArray), .Depth = pAllocateArray->Depth,
		.Flags = pAllocateArray->Flags };
	return sim_cuArray3DCreate_v2(pHandle, &wide);
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){ COMMON(pAllocateArray) };
	return sim_cuArray3DCreate_v2(pHandle, &wide);
}

CUresult sim_cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){ COMMON(pAllocateArray) };
	return sim_cuArray3DCreate_v2(pHandle, &wide);
}

CUresult sim_cuArrayDestroy(CUarray hArray)
{
	struct array *array = object_get(KIND_array, hArray);

	if (!array || array->mipmap || array->borrowed)
		return CUDA_ERROR_INVALID_HANDLE;
	array_close(array);
	return CUDA_SUCCESS;
}

/* ---- what an array is ---- */

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct array *array = object_get(KIND_array, hArray);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = array->descriptor;
	return CUDA_SUCCESS;
}

/* The other three answer with some of its fields, narrower or not. */
#define GET_DESCRIPTOR(name, type, ...) \
	CUresult sim_##name(type *pArrayDescriptor, CUarray hArray) \
	{ \
		struct array *array = object_get(KIND_array, hArray); \
		const CUDA_ARRAY3D_DESCRIPTOR *d; \
		if (!array) \
			return CUDA_ERROR_INVALID_HANDLE; \
		if (!pArrayDescriptor) \
			return CUDA_ERROR_INVALID_VALUE; \
		d = &array->descriptor; \
		*pArrayDescriptor = (type){ __VA_ARGS__ }; \
		return CUDA_SUCCESS; \
	}
#define NARROW(d) \
	.Width = (unsigned)(d)->Width, .Height = (unsigned)(d)->Height, .Format = (d)->Format, \
	.NumChannels = (d)->NumChannels
GET_DESCRIPTOR(cuArrayGetDescriptor, CUDA_ARRAY_DESCRIPTOR_v1, NARROW(d))
GET_DESCRIPTOR(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR, COMMON(d))
GET_DESCRIPTOR(cuArray3DGetDescriptor, CUDA_ARRAY3D_DESCRIPTOR_v1, NARROW(d),
	.Depth = (unsigned)d->Depth, .Flags = d->Flags)

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, unsigned flags, uint64_t bytes)
{
	if (!(flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){ .size = round_up(bytes, 65536),
		.alignment = 65536 };
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array, CUdevice device)
{
	struct array *it = object_get(KIND_array, array);

	if (!memoryRequirements || !device_get(device))
		return CUDA_ERROR_INVALID_VALUE;
	return it ? requirements(memoryRequirements, it->descriptor.Flags, it->bytes)
		  : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuMipmappedArrayGetMemoryRequirements(
	CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray mipmap,
	CUdevice device)
{
	struct mipmap *it = object_get(KIND_mipmap, mipmap);

	if (!memoryRequirements || !device_get(device))
		return CUDA_ERROR_INVALID_VALUE;
	return it ? requirements(memoryRequirements, it->level[0]->descriptor.Flags, it->bytes)
		  : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- mipmaps: one allocation, an array a level ---- */

static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	uint64_t extent = larger(d->Width, d->Height);

	if (!(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		extent = larger(extent, d->Depth);
	return 64 - (unsigned)__builtin_clzll(extent);
}

static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	CUDA_ARRAY3D_DESCRIPTOR small = *d;

	small.Width = larger(d->Width >> level, 1);
	small.Height = d->Height ? larger(d->Height >> level, 1) : 0;
	if (d->Depth && !(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		small.Depth = larger(d->Depth >> level, 1);
	return small;
}

void mipmap_swept(struct mipmap *mipmap)
{
	if (!mipmap->memory && mipmap->counted)
		count_unbacked(mipmap->object.context, false);
	object_delete(mipmap);
}

void mipmap_close(struct mipmap *mipmap)
{
	sparse_forget(&mipmap->object, NULL);
	if (mipmap->external)
		external_unmap(mipmap->memory, true);
	else if (mipmap->memory)
		heap_free(mipmap->memory, FAMILY(array));
	while (mipmap->levels)
		array_close(mipmap->level[--mipmap->levels]);
	mipmap_swept(mipmap);
}

static bool add_levels(struct mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR level;
	struct array *array;

	while (mipmap->levels < levels) {
		level = level_of(d, mipmap->levels);
		array = array_new(mipmap->object.context, &level);
		if (!array)
			return false;
		array->mipmap = mipmap;
		mipmap->level[mipmap->levels++] = array;
		mipmap->bytes += array->bytes;
	}
	return true;
}

void mipmap_place(struct mipmap *mipmap, CUdeviceptr memory)
{
	unsigned i;

	for (i = 0; memory && i < mipmap->levels; i++) {
		mipmap->level[i]->memory = memory;
		memory += mipmap->level[i]->bytes;
	}
}

struct mipmap *mipmap_new(
	struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	struct mipmap *mipmap = object_new(KIND_mipmap, context);
	unsigned most = most_levels(d);

	if (mipmap && !add_levels(mipmap, d, levels < most ? levels : most)) {
		mipmap_close(mipmap);
		mipmap = NULL;
	}
	return mipmap;
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
	const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	struct context *context;
	struct mipmap *mipmap;
	CUresult result = creating(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !pMipmappedArrayDesc || !numMipmapLevels || !array_is_valid(pMipmappedArrayDesc))
		return CUDA_ERROR_INVALID_VALUE;
	mipmap = mipmap_new(context, pMipmappedArrayDesc, numMipmapLevels);
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!(pMipmappedArrayDesc->Flags & UNBACKED))
		result = heap_alloc(&context->owner->arrays, mipmap->bytes, &mipmap->memory);
	else
		count_unbacked(context, mipmap->counted = true);
	if (result != CUDA_SUCCESS) {
		mipmap_close(mipmap);
		return result;
	}
	mipmap_place(mipmap, mipmap->memory);
	*pHandle = (CUmipmappedArray)mipmap;
	return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct mipmap *mipmap = object_get(KIND_mipmap, hMipmappedArray);

	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	mipmap_close(mipmap);
	return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetLevel(
	CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	struct mipmap *mipmap = object_get(KIND_mipmap, hMipmappedArray);

	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pLevelArray || level >= mipmap->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*pLevelArray = (CUarray)mipmap->level[level];
	return CUDA_SUCCESS;
}
