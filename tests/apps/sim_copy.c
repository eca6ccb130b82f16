/*
 * sim_copy.c - bytes come back as they went, in one, two and three dimensions, through arrays too.
 */
#include "sim_check.h"

#include <string.h>

static unsigned char in[4096], out[4096];

static void lines(void)
{
	CUdeviceptr p, q;

	OK(cuMemAlloc_v2(&p, sizeof(in)));
	OK(cuMemAlloc_v2(&q, sizeof(in)));
	OK(cuMemcpyHtoD_v2(p, in, sizeof(in)));
	OK(cuMemcpyDtoDAsync_v2(q, p, sizeof(in), NULL));
	OK(cuMemcpyDtoH_v2(out, q, sizeof(in)));
	SAME(memcmp(in, out, sizeof(in)), 0);
	SAME(cuMemcpyHtoD_v2(p + 1, in, sizeof(in)),
		CUDA_ERROR_INVALID_VALUE); /* one byte too far */
	SAME(cuMemcpyHtoD_v2((uintptr_t)out, in, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpy((uintptr_t)out, p + 100, 10));
	SAME(memcmp(out, in + 100, 10), 0);
	OK(cuMemsetD32_v2(q, 0x01020304, 3));
	OK(cuMemsetD8_v2(q + 4, 9, 1));
	OK(cuMemcpyDtoH_v2(out, q, 16));
	SAME(memcmp(out, "\4\3\2\1\11\3\2\1\4\3\2\1", 12), 0);
	SAME(out[12], in[12]);
	SAME(cuMemsetD32_v2(q + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
	SAME(cuMemcpyDtoH_v2(out, p, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(q));
}

/* 10 x 4 bytes out of rows of 64 into rows of 512 and back. */
static void rectangles(void)
{
	CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = 64,
		.srcXInBytes = 3,
		.srcY = 2,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.WidthInBytes = 10,
		.Height = 4 };
	size_t pitch;
	int y;

	OK(cuMemAllocPitch_v2(&copy.dstDevice, &pitch, 10, 4, 4));
	copy.dstPitch = pitch;
	OK(cuMemcpy2D_v2(&copy));
	memset(out, 0, sizeof(out));
	for (y = 0; y < 4; y++) {
		OK(cuMemcpyDtoH_v2(out, copy.dstDevice + (size_t)y * pitch, 10));
		SAME(memcmp(out, in + (2 + y) * 64 + 3, 10), 0);
	}
	copy.Height = 5;
	SAME(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(copy.dstDevice));
}

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = 8, .Height = 4, .Depth = 3, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = 32,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = 32,
		.Height = 4,
		.Depth = 3 };
	CUDA_ARRAY_DESCRIPTOR flat = {
		.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4
	};
	CUDA_ARRAY3D_DESCRIPTOR mips = {
		.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	CUmipmappedArray mipmap;
	CUarray array, level;

	OK(cuArray3DCreate_v2(&copy.dstArray, &shape));
	OK(cuMemcpy3D_v2(&copy));
	memset(out, 0, sizeof(out));
	OK(cuMemcpyAtoH_v2(out, copy.dstArray, 0, 384));
	SAME(memcmp(in, out, 384), 0);
	copy.dstZ = 1;
	SAME(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(copy.dstArray));
	SAME(cuArrayDestroy(copy.dstArray), CUDA_ERROR_INVALID_HANDLE);
	OK(cuArrayCreate_v2(&array, &flat));
	memset(&flat, 0, sizeof(flat));
	OK(cuArrayGetDescriptor_v2(&flat, array));
	SAME(flat.Width, 64);
	SAME(flat.NumChannels, 4);
	OK(cuMipmappedArrayCreate(&mipmap, &mips, 10));
	OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
	SAME(cuMipmappedArrayGetLevel(&level, mipmap, 4), CUDA_ERROR_INVALID_VALUE);
	SAME(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE); /* borrowed */
	OK(cuMipmappedArrayDestroy(mipmap));
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7 + i / 256);
	check_start();
	lines();
	rectangles();
	arrays();
	return 0;
}
