/*
 * array_size.c - sizes of arrays and mipmaps, from their shape and format.
 */
#include "array_size.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define NO_LAYERS (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)
#define NO_MEMORY (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

struct format {
	int from, to;        /* values of CUarray_format */
	unsigned half_bytes; /* of an element, or of a block of 4 x 4; planar formats have odd ones */
	enum { PER_CHANNEL, WHOLE, BLOCK } per;
};

static const struct format formats[] = {
	{ CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT8, 2, PER_CHANNEL },
	{ CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT16, 4, PER_CHANNEL },
	{ CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_UNSIGNED_INT32, 8, PER_CHANNEL },
	{ CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8, 2, PER_CHANNEL },
	{ CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16, 4, PER_CHANNEL },
	{ CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32, 8, PER_CHANNEL },
	{ CU_AD_FORMAT_HALF, CU_AD_FORMAT_HALF, 4, PER_CHANNEL },
	{ CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_FLOAT, 8, PER_CHANNEL },
	{ CU_AD_FORMAT_UNORM_INT_101010_2, CU_AD_FORMAT_UNORM_INT_101010_2, 8, WHOLE },
	{ CU_AD_FORMAT_BC1_UNORM, CU_AD_FORMAT_BC1_UNORM_SRGB, 16, BLOCK },
	{ CU_AD_FORMAT_BC2_UNORM, CU_AD_FORMAT_BC3_UNORM_SRGB, 32, BLOCK },
	{ CU_AD_FORMAT_BC4_UNORM, CU_AD_FORMAT_BC4_SNORM, 16, BLOCK },
	{ CU_AD_FORMAT_BC5_UNORM, CU_AD_FORMAT_BC7_UNORM_SRGB, 32, BLOCK },
	{ CU_AD_FORMAT_P010, CU_AD_FORMAT_P010, 6, WHOLE },
	{ CU_AD_FORMAT_P016, CU_AD_FORMAT_P016, 6, WHOLE },
	{ CU_AD_FORMAT_NV16, CU_AD_FORMAT_NV16, 4, WHOLE },
	{ CU_AD_FORMAT_P210, CU_AD_FORMAT_P216, 8, WHOLE },
	{ CU_AD_FORMAT_YUY2, CU_AD_FORMAT_YUY2, 4, WHOLE },
	{ CU_AD_FORMAT_Y210, CU_AD_FORMAT_Y216, 8, WHOLE },
	{ CU_AD_FORMAT_AYUV, CU_AD_FORMAT_Y410, 8, WHOLE },
	{ CU_AD_FORMAT_NV12, CU_AD_FORMAT_NV12, 3, WHOLE },
	{ CU_AD_FORMAT_Y416, CU_AD_FORMAT_Y416, 16, WHOLE },
	{ CU_AD_FORMAT_Y444_PLANAR8, CU_AD_FORMAT_Y444_PLANAR8, 6, WHOLE },
	{ CU_AD_FORMAT_Y444_PLANAR10, CU_AD_FORMAT_Y444_PLANAR10, 12, WHOLE },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 6, WHOLE },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 12, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT8X1, CU_AD_FORMAT_UNORM_INT8X1, 2, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT8X2, CU_AD_FORMAT_UNORM_INT8X2, 4, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT8X4, CU_AD_FORMAT_UNORM_INT8X4, 8, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT16X1, CU_AD_FORMAT_UNORM_INT16X1, 4, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT16X2, CU_AD_FORMAT_UNORM_INT16X2, 8, WHOLE },
	{ CU_AD_FORMAT_UNORM_INT16X4, CU_AD_FORMAT_UNORM_INT16X4, 16, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT8X1, CU_AD_FORMAT_SNORM_INT8X1, 2, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT8X2, CU_AD_FORMAT_SNORM_INT8X2, 4, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT8X4, CU_AD_FORMAT_SNORM_INT8X4, 8, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT16X1, CU_AD_FORMAT_SNORM_INT16X1, 4, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT16X2, CU_AD_FORMAT_SNORM_INT16X2, 8, WHOLE },
	{ CU_AD_FORMAT_SNORM_INT16X4, CU_AD_FORMAT_SNORM_INT16X4, 16, WHOLE },
	/* By number, as the names are those of headers newer than 13.0. */
	{ 0x51, 0x51, 4, WHOLE },  /* CU_AD_FORMAT_UINT8_PACKED_422 */
	{ 0x52, 0x52, 8, WHOLE },  /* 8 bit, 444 packed */
	{ 0x53, 0x53, 3, WHOLE },  /* 8 bit, 420 semi-planar; then 16 bit, and so on in pairs */
	{ 0x54, 0x54, 6, WHOLE },
	{ 0x55, 0x55, 4, WHOLE },  /* 422 */
	{ 0x56, 0x56, 8, WHOLE },
	{ 0x57, 0x57, 6, WHOLE },  /* 444 */
	{ 0x58, 0x58, 12, WHOLE },
	{ 0x59, 0x59, 3, WHOLE },  /* 420 planar */
	{ 0x5a, 0x5a, 6, WHOLE },
	{ 0x5b, 0x5b, 4, WHOLE },  /* 422 */
	{ 0x5c, 0x5c, 8, WHOLE },
	{ 0x5d, 0x5d, 6, WHOLE },  /* 444 */
	{ 0x5e, 0x5e, 12, WHOLE }, /* CU_AD_FORMAT_UINT16_PLANAR_444 */
};

static struct format format_of(int value, bool *known)
{
	for (unsigned i = 0; i < COUNT(formats); i++) {
		if (value >= formats[i].from && value <= formats[i].to)
			return formats[i];
	}
	*known = false;
	return (struct format){ value, value, 8, PER_CHANNEL };
}

static uint64_t at_least_one(uint64_t n)
{
	return n ? n : 1;
}

static uint64_t blocks(uint64_t n)
{
	return n / 4 + (n % 4 != 0);
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return a == UINT64_MAX || b == UINT64_MAX || __builtin_mul_overflow(a, b, &product) ?
		UINT64_MAX : product;
}

static uint64_t size_of(uint64_t width, uint64_t height, uint64_t depth, unsigned channels,
	const struct format *format)
{
	uint64_t halves;

	height = at_least_one(height);
	if (format->per == BLOCK) {
		width = blocks(width);
		height = blocks(height);
	}
	halves = times(times(times(width, height), at_least_one(depth)), format->half_bytes);
	if (format->per == PER_CHANNEL)
		halves = times(halves, channels);
	return halves == UINT64_MAX ? halves : halves / 2;
}

uint64_t array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, bool *known)
{
	struct format format;

	*known = true;
	if (shape->Flags & NO_MEMORY)
		return 0;
	format = format_of(shape->Format, known);
	return size_of(shape->Width, shape->Height, shape->Depth, shape->NumChannels, &format);
}

/* Layers and faces are no extent: they do not shrink. */
static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t extent = shape->Width | shape->Height;

	if (!(shape->Flags & NO_LAYERS))
		extent |= shape->Depth;
	return extent ? 64 - __builtin_clzll(extent) : 1;
}

uint64_t array_mipmap_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels, bool *known)
{
	unsigned most = most_levels(shape);
	struct format format;
	uint64_t sum = 0;

	*known = true;
	if (shape->Flags & NO_MEMORY)
		return 0;
	format = format_of(shape->Format, known);
	for (unsigned level = 0; level < levels && level < most; level++) {
		uint64_t depth = shape->Flags & NO_LAYERS ? shape->Depth :
			at_least_one(shape->Depth >> level);
		uint64_t bytes = size_of(at_least_one(shape->Width >> level),
			at_least_one(shape->Height >> level), depth, shape->NumChannels, &format);

		if (__builtin_add_overflow(sum, bytes, &sum))
			return UINT64_MAX;
	}
	return sum;
}
