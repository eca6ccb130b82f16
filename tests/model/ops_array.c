/*
 * ops_array.c - arrays and mipmaps, with memory, without, and with it mapped later.
 */
#include "array_formats.h"
#include "model.h"

/* Every format of the header, those that newer ones name, and one that nobody knows. */
static const int formats[] = {
#define X(name) name,
	ARRAY_FORMATS(X)
#undef X
	0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x7777,
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* The shape most often, and any flags beside it; both kinds without memory less often. */
static unsigned any_flags(uint32_t random)
{
	static const unsigned shapes[] = { 0, 0, 0, CUDA_ARRAY3D_LAYERED, CUDA_ARRAY3D_CUBEMAP,
		CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING,
		CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP };

	return shapes[random % 8] | ((random >> 3) % 4 ? 0 : (random >> 5) & (CUDA_ARRAY3D_SURFACE_LDST |
		CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
		CUDA_ARRAY3D_VIDEO_ENCODE_DECODE));
}

static CUDA_ARRAY3D_DESCRIPTOR shape(const struct step *s)
{
	static const unsigned channels[] = { 1, 2, 4, 1, 2, 4, 3, 0 };
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = s->b % 700,
		.Height = (s->b >> 10) % 3 ? (s->b >> 12) % 600 : 0,
		.Depth = (s->b >> 22) % 4 == 3 ? (s->b >> 24) % 20 : 0,
		.Format = (CUarray_format)formats[s->c % FORMATS],
		.NumChannels = channels[(s->c >> 8) % 8],
		.Flags = any_flags(s->c >> 12),
	};

	if (d.Flags & CUDA_ARRAY3D_CUBEMAP && s->c >> 30) {
		d.Height = d.Width;
		d.Depth = d.Flags & CUDA_ARRAY3D_LAYERED ? 12 : 6;
	}
	return d;
}

static void array_destroy(const struct step *s)
{
	int place;
	CUarray array = (CUarray)pick(T_ARRAY, s->a, &place);

	place_settle(T_ARRAY, place, CALL(cuArrayDestroy, array));
}

static void array_create(const struct step *s)
{
	CUDA_ARRAY3D_DESCRIPTOR d = shape(s);
	CUDA_ARRAY_DESCRIPTOR flat = { d.Width, d.Height, d.Format, d.NumChannels };
	CUDA_ARRAY_DESCRIPTOR_v1 flat_v1 = { (unsigned)d.Width, (unsigned)d.Height, d.Format,
		d.NumChannels };
	CUDA_ARRAY3D_DESCRIPTOR_v1 d_v1 = { (unsigned)d.Width, (unsigned)d.Height,
		(unsigned)d.Depth, d.Format, d.NumChannels, d.Flags };
	int place = place_empty(T_ARRAY, s->a);
	CUarray array = NULL;
	CUresult result;

	if (place < 0) {
		array_destroy(s);
		return;
	}
	switch (s->a % 5) {
	case 0:
		result = CALL(cuArrayCreate, &array, &flat_v1);
		break;
	case 1:
		result = CALL(cuArrayCreate_v2, &array, &flat);
		break;
	case 2:
		result = CALL(cuArray3DCreate, &array, &d_v1);
		break;
	default:
		result = CALL(cuArray3DCreate_v2, &array, &d);
	}
	if (result == CUDA_SUCCESS)
		place_fill(T_ARRAY, place, (uint64_t)array, d.Flags);
}

static void mipmap_destroy(const struct step *s)
{
	int place;
	CUmipmappedArray mipmap = (CUmipmappedArray)pick(T_MIPMAP, s->a, &place);

	place_settle(T_MIPMAP, place, CALL(cuMipmappedArrayDestroy, mipmap));
}

static void mipmap_create(const struct step *s)
{
	CUDA_ARRAY3D_DESCRIPTOR d = shape(s);
	int place = place_empty(T_MIPMAP, s->a);
	CUmipmappedArray mipmap = NULL;

	if (place < 0) {
		mipmap_destroy(s);
		return;
	}
	if (CALL(cuMipmappedArrayCreate, &mipmap, &d, s->a % 14) == CUDA_SUCCESS)
		place_fill(T_MIPMAP, place, (uint64_t)mipmap, d.Flags);
}

/* A level is borrowed: it cannot be destroyed. */
static void mipmap_level(const struct step *s)
{
	int place;
	CUmipmappedArray mipmap = (CUmipmappedArray)pick(T_MIPMAP, s->a, &place);
	CUarray level = NULL;

	if (CALL(cuMipmappedArrayGetLevel, &level, mipmap, s->b % 4) == CUDA_SUCCESS)
		CALL(cuArrayDestroy, level);
}

static void map_sparse(const struct step *s)
{
	int place, physical;
	CUarrayMapInfo info = {
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource.array = (CUarray)pick(T_ARRAY, s->a, &place),
		.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
		.subresource.sparseLevel = { .extentWidth = 64, .extentHeight = 64, .extentDepth = 1 },
		.memOperationType = s->b & 1 ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.memHandle.memHandle = pick(T_PHYSICAL, s->b >> 1, &physical),
		.deviceBitMask = 1,
	};

	CALL_TWIN(cuMemMapArrayAsync, s->c & 1, &info, 1, any_stream(s->c >> 1));
}

const struct operation operations_array[] = {
	{ "array_create", FAM_array, 16, array_create, false },
	{ "array_destroy", FAM_array, 14, array_destroy, false },
	{ "mipmap_create", FAM_array, 5, mipmap_create, false },
	{ "mipmap_destroy", FAM_array, 5, mipmap_destroy, false },
	{ "mipmap_level", FAM_array, 2, mipmap_level, false },
	{ "map_sparse", FAM_array, 3, map_sparse, false },
	{ 0 },
};
