/* links: shim/array_size.c */
/*
 * test_array_size.c - bytes of arrays and mipmaps: every format of the header, every shape and flag.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "array_formats.h"
#include "array_size.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOO_MUCH UINT64_MAX

/* Bytes of 16 x 8 elements with one, two and four channels. */
static const struct {
	int format;
	uint64_t bytes[3];
} formats[] = {
	{ CU_AD_FORMAT_UNSIGNED_INT8, { 128, 256, 512 } },
	{ CU_AD_FORMAT_UNSIGNED_INT16, { 256, 512, 1024 } },
	{ CU_AD_FORMAT_UNSIGNED_INT32, { 512, 1024, 2048 } },
	{ CU_AD_FORMAT_SIGNED_INT8, { 128, 256, 512 } },
	{ CU_AD_FORMAT_SIGNED_INT16, { 256, 512, 1024 } },
	{ CU_AD_FORMAT_SIGNED_INT32, { 512, 1024, 2048 } },
	{ CU_AD_FORMAT_HALF, { 256, 512, 1024 } },
	{ CU_AD_FORMAT_FLOAT, { 512, 1024, 2048 } },
	/* Channels are part of these formats, whatever is said beside them. */
	{ CU_AD_FORMAT_UNORM_INT8X1, { 128, 128, 128 } },
	{ CU_AD_FORMAT_UNORM_INT8X2, { 256, 256, 256 } },
	{ CU_AD_FORMAT_UNORM_INT8X4, { 512, 512, 512 } },
	{ CU_AD_FORMAT_UNORM_INT16X1, { 256, 256, 256 } },
	{ CU_AD_FORMAT_UNORM_INT16X2, { 512, 512, 512 } },
	{ CU_AD_FORMAT_UNORM_INT16X4, { 1024, 1024, 1024 } },
	{ CU_AD_FORMAT_SNORM_INT8X1, { 128, 128, 128 } },
	{ CU_AD_FORMAT_SNORM_INT8X2, { 256, 256, 256 } },
	{ CU_AD_FORMAT_SNORM_INT8X4, { 512, 512, 512 } },
	{ CU_AD_FORMAT_SNORM_INT16X1, { 256, 256, 256 } },
	{ CU_AD_FORMAT_SNORM_INT16X2, { 512, 512, 512 } },
	{ CU_AD_FORMAT_SNORM_INT16X4, { 1024, 1024, 1024 } },
	{ CU_AD_FORMAT_UNORM_INT_101010_2, { 512, 512, 512 } },
	{ CU_AD_FORMAT_AYUV, { 512, 512, 512 } },
	{ CU_AD_FORMAT_Y410, { 512, 512, 512 } },
	{ CU_AD_FORMAT_Y416, { 1024, 1024, 1024 } },
	{ CU_AD_FORMAT_YUY2, { 256, 256, 256 } },
	{ CU_AD_FORMAT_Y210, { 512, 512, 512 } },
	{ CU_AD_FORMAT_Y216, { 512, 512, 512 } },
	/* Planes: with 4:2:0 there is half as much colour as light, with 4:2:2 as much, with 4:4:4 twice. */
	{ CU_AD_FORMAT_NV12, { 192, 192, 192 } },
	{ CU_AD_FORMAT_P010, { 384, 384, 384 } },
	{ CU_AD_FORMAT_P016, { 384, 384, 384 } },
	{ CU_AD_FORMAT_NV16, { 256, 256, 256 } },
	{ CU_AD_FORMAT_P210, { 512, 512, 512 } },
	{ CU_AD_FORMAT_P216, { 512, 512, 512 } },
	{ CU_AD_FORMAT_Y444_PLANAR8, { 384, 384, 384 } },
	{ CU_AD_FORMAT_Y444_PLANAR10, { 768, 768, 768 } },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, { 384, 384, 384 } },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, { 768, 768, 768 } },
	/* Names of newer headers, CU_AD_FORMAT_UINT... */
	{ 0x51, { 256, 256, 256 } }, /* 8_PACKED_422 */
	{ 0x52, { 512, 512, 512 } }, /* 8_PACKED_444 */
	{ 0x53, { 192, 192, 192 } }, /* 8_SEMIPLANAR_420 */
	{ 0x54, { 384, 384, 384 } }, /* 16_SEMIPLANAR_420 */
	{ 0x55, { 256, 256, 256 } }, /* 8_SEMIPLANAR_422 */
	{ 0x56, { 512, 512, 512 } }, /* 16_SEMIPLANAR_422 */
	{ 0x57, { 384, 384, 384 } }, /* 8_SEMIPLANAR_444 */
	{ 0x58, { 768, 768, 768 } }, /* 16_SEMIPLANAR_444 */
	{ 0x59, { 192, 192, 192 } }, /* 8_PLANAR_420 */
	{ 0x5a, { 384, 384, 384 } }, /* 16_PLANAR_420 */
	{ 0x5b, { 256, 256, 256 } }, /* 8_PLANAR_422 */
	{ 0x5c, { 512, 512, 512 } }, /* 16_PLANAR_422 */
	{ 0x5d, { 384, 384, 384 } }, /* 8_PLANAR_444 */
	{ 0x5e, { 768, 768, 768 } }, /* 16_PLANAR_444 */
	/* Blocks of 4 x 4: four by two of them. */
	{ CU_AD_FORMAT_BC1_UNORM, { 64, 64, 64 } },
	{ CU_AD_FORMAT_BC1_UNORM_SRGB, { 64, 64, 64 } },
	{ CU_AD_FORMAT_BC2_UNORM, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC2_UNORM_SRGB, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC3_UNORM, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC3_UNORM_SRGB, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC4_UNORM, { 64, 64, 64 } },
	{ CU_AD_FORMAT_BC4_SNORM, { 64, 64, 64 } },
	{ CU_AD_FORMAT_BC5_UNORM, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC5_SNORM, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC6H_UF16, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC6H_SF16, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC7_UNORM, { 128, 128, 128 } },
	{ CU_AD_FORMAT_BC7_UNORM_SRGB, { 128, 128, 128 } },
};

static void every_format(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(formats); i++) {
		for (unsigned k = 0; k < 3; k++) {
			CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 16, .Height = 8,
				.Format = (CUarray_format)formats[i].format, .NumChannels = 1u << k };
			bool known;
			uint64_t bytes = array_size(&shape, &known);

			if (!known || bytes != formats[i].bytes[k])
				fail_msg("format %#x, %u channels: %llu bytes%s, not %llu", formats[i].format,
					1u << k, (unsigned long long)bytes, known ? "" : " guessed",
					(unsigned long long)formats[i].bytes[k]);
		}
	}
}

static void none_is_missing(void **state)
{
	static const struct {
		const char *name;
		int format;
	} header[] = {
#define X(name) { #name, name },
		ARRAY_FORMATS(X)
#undef X
	};

	(void)state;
	assert_true(COUNT(header) >= 51);
	for (size_t i = 0; i < COUNT(header); i++) {
		size_t k = 0;

		while (k < COUNT(formats) && formats[k].format != header[i].format)
			k++;
		if (k == COUNT(formats))
			fail_msg("a new format: say in shim/array_size.c and here how large it is: %s",
				header[i].name);
	}
}

static void unknown_formats(void **state)
{
	static const int values[] = { 0, 4, 0x11, 0x21, 0x4f, 0x5f, 0x90, 0xa0, 0xaa, 0xb6, 0xcc, 0x7777, -1 };

	(void)state;
	for (size_t i = 0; i < COUNT(values); i++) {
		CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 10, .Height = 10, .NumChannels = 2,
			.Format = (CUarray_format)values[i] };
		bool known;

		assert_int_equal(array_size(&shape, &known), 800);
		assert_false(known);
		assert_int_equal(array_mipmap_size(&shape, 1, &known), 800);
		assert_false(known);
	}
}

#define LAYERED CUDA_ARRAY3D_LAYERED
#define CUBE CUDA_ARRAY3D_CUBEMAP
#define BC1 CU_AD_FORMAT_BC1_UNORM
#define BC7 CU_AD_FORMAT_BC7_UNORM

/* Sizes of a plain array, and with so many levels. */
static const struct {
	size_t width, height, depth;
	int format;
	unsigned channels, flags, levels;
	uint64_t bytes, with_levels;
} shapes[] = {
	{ 64, 64, 0, CU_AD_FORMAT_FLOAT, 4, 0, 1, 65536, 65536 },
	{ 64, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0, 9, 256, 508 },        /* 64 + 32 + ... + 1 */
	{ 64, 0, 5, CU_AD_FORMAT_UNSIGNED_INT8, 1, LAYERED, 1, 320, 320 },
	{ 64, 0, 5, CU_AD_FORMAT_UNSIGNED_INT8, 1, LAYERED, 99, 320, 635 }, /* layers stay */
	{ 32, 32, 6, CU_AD_FORMAT_HALF, 2, CUBE, 1, 24576, 24576 },
	{ 32, 32, 6, CU_AD_FORMAT_HALF, 2, CUBE, 2, 24576, 30720 },
	{ 32, 32, 12, CU_AD_FORMAT_HALF, 1, CUBE | LAYERED, 6, 24576, 32760 },
	{ 32, 32, 12, CU_AD_FORMAT_HALF, 1, CUBE | LAYERED, 7, 24576, 32760 },
	{ 8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0, 10, 256, 340 },
	{ 8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0, 256, 0 },
	{ 8, 4, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 9, 512, 512 + 64 + 8 + 2 + 1 }, /* 3D: all shrink */
	{ 8, 4, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1, LAYERED, 9, 512, 512 + 128 + 32 + 16 },
	{ 7, 5, 3, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 9, 105, 105 + 6 + 1 },
	{ 16, 16, 0, BC1, 4, 0, 1, 128, 128 },
	{ 16, 16, 0, BC1, 4, 0, 9, 128, 128 + 32 + 8 + 8 + 8 }, /* no level below one block */
	{ 18, 18, 0, BC7, 4, 0, 1, 400, 400 },
	{ 1, 1, 7, BC7, 1, LAYERED, 1, 112, 112 },
	{ 17, 0, 0, BC1, 1, 0, 1, 40, 40 },
	{ 16, 16, 0, CU_AD_FORMAT_NV12, 3, 0, 1, 384, 384 },
	{ 16, 16, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0, 1, 1024, 1024 },
	{ 0, 10, 10, CU_AD_FORMAT_FLOAT, 4, 0, 0, 0, 0 },
	/* What does not fit 64 bits is the most there is, and never little. */
	{ SIZE_MAX, 2, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1, TOO_MUCH, TOO_MUCH },
	{ 1ull << 40, 1ull << 40, 0, CU_AD_FORMAT_FLOAT, 4, 0, 3, TOO_MUCH, TOO_MUCH },
	{ 1ull << 32, 1ull << 32, 1ull << 32, BC7, 1, LAYERED, 3, TOO_MUCH, TOO_MUCH },
	{ 1ull << 62, 1, 1, CU_AD_FORMAT_FLOAT, 0xffffffff, 0, 1, TOO_MUCH, TOO_MUCH },
};

static void every_shape(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(shapes); i++) {
		CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = shapes[i].width, .Height = shapes[i].height,
			.Depth = shapes[i].depth, .Format = (CUarray_format)shapes[i].format,
			.NumChannels = shapes[i].channels, .Flags = shapes[i].flags };
		bool known;
		uint64_t bytes = array_size(&shape, &known);
		uint64_t with_levels = array_mipmap_size(&shape, shapes[i].levels, &known);

		if (bytes != shapes[i].bytes || with_levels != shapes[i].with_levels)
			fail_msg("shape %zu: %llu and %llu bytes, not %llu and %llu", i,
				(unsigned long long)bytes, (unsigned long long)with_levels,
				(unsigned long long)shapes[i].bytes, (unsigned long long)shapes[i].with_levels);
	}
}

/* Two flags mean that there is no memory yet, two are shapes, all others change nothing. */
static void every_flag(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 12, .Height = 12, .Depth = 6, .NumChannels = 1,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8 };
	bool known;

	(void)state;
	for (unsigned flags = 0; flags < 0x400; flags++) {
		bool none = flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
		bool layers = flags & (LAYERED | CUBE);

		shape.Flags = flags;
		assert_int_equal(array_size(&shape, &known), none ? 0 : 864);
		assert_true(known);
		assert_int_equal(array_mipmap_size(&shape, 2, &known), none ? 0 : 864 + (layers ? 216 : 108));
		assert_true(known);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format), cmocka_unit_test(none_is_missing),
		cmocka_unit_test(unknown_formats), cmocka_unit_test(every_shape),
		cmocka_unit_test(every_flag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
