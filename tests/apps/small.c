/*
 * small.c - what a driver with small numbers for handles (plugins/small.c) may confuse: `small arrays`
 * leaves two arrays and two mipmapped ones with the same numbers, and one of each that comes after one
 * that went; `small opened` opens its own memory, closes it as often, and asks for more than is left.
 */
#include <stdio.h>
#include <string.h>

#define OK(call) do { int result_ = call; if (result_) { printf(#call ": %d\n", result_); return 1; } } while (0)

#include <cuda.h>

static int arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1 };
	CUmipmappedArray mipmap;
	CUarray array;

	for (int i = 0; i < 3; i++) {
		OK(cuArray3DCreate(&array, &shape));
		OK(cuMipmappedArrayCreate(&mipmap, &shape, 1));
	}
	OK(cuArrayDestroy(array));
	OK(cuArray3DCreate(&array, &shape));
	OK(cuMipmappedArrayDestroy(mipmap));
	OK(cuMipmappedArrayCreate(&mipmap, &shape, 1));
	OK(cuMipmappedArrayDestroy(mipmap));
	OK(cuArrayDestroy(array));
	return 0;
}

static int opened(void)
{
	CUdeviceptr memory, again, more;
	CUipcMemHandle name;

	OK(cuMemAlloc(&memory, 6 << 20));
	OK(cuIpcGetMemHandle(&name, memory));
	for (int i = 0; i < 2; i++) {
		OK(cuIpcOpenMemHandle(&again, name, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
		if (again != memory || cuMemAlloc(&more, 3 << 20) != CUDA_ERROR_OUT_OF_MEMORY)
			return 1;
	}
	for (int i = 0; i < 2; i++) {
		OK(cuIpcCloseMemHandle(again));
		if (cuMemAlloc(&more, 3 << 20) != CUDA_ERROR_OUT_OF_MEMORY)
			return 1;
	}
	OK(cuMemFree(memory));
	OK(cuMemAlloc(&more, 8 << 20));
	return 0;
}

int main(int argc, char **argv)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return argc > 1 && strcmp(argv[1], "opened") == 0 ? opened() : arrays();
}
