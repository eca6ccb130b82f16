/*
 * sim_memory.c - device memory: blocks really held, addresses, frees that must fail, and
 * attributes.
 */
#include "sim_check.h"

#include <string.h>

static size_t used(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	return total - available;
}

/* Small allocations of one size share a block, large ones round up to blocks. */
static void blocks(void)
{
	CUdeviceptr p[4096], large;
	size_t before = used(), i;

	for (i = 0; i < 4096; i++)
		OK(cuMemAlloc_v2(&p[i], 512));
	SAME(used() - before, 2 * MIB);
	OK(cuMemAlloc_v2(&large, 3 * MIB));
	SAME(used() - before, 6 * MIB);
	OK(cuMemFree_v2(large));
	for (i = 0; i + 1 < 4096; i++)
		OK(cuMemFree_v2(p[i]));
	SAME(used() - before, 2 * MIB); /* one left: the block stays */
	OK(cuMemFree_v2(p[4095]));
	SAME(used(), before);
}

static void wrong_frees(void)
{
	CUdeviceptr p, untouched = 42;

	SAME(cuMemAlloc_v2(&untouched, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(untouched, 42);
	OK(cuMemFree_v2(0));
	SAME(cuMemFree_v2(0xdead0000), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc_v2(&p, 10000));
	SAME(cuMemFree_v2(p + 256), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemFree_v2(p + 5000), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemAlloc_v2(&untouched, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(untouched, 42);
}

/* Fill the device, fail, free one, succeed. */
static void full(void)
{
	CUdeviceptr p[64], one;
	int n = 0;

	while (cuMemAlloc_v2(&p[n], 64 * MIB) == CUDA_SUCCESS)
		TRUE(++n < 64);
	SAME(n, (512 - 300) / 64);
	SAME(cuMemAlloc_v2(&one, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(p[--n]));
	OK(cuMemAlloc_v2(&one, 64 * MIB));
	OK(cuMemFree_v2(one));
	while (n)
		OK(cuMemFree_v2(p[--n]));
}

static void ranges(void)
{
	CUdeviceptr p, base;
	CUdeviceptr_v1 low;
	size_t bytes, pitch;
	unsigned type;
	int ordinal = -1;

	OK(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4));
	SAME(pitch, 512);
	OK(cuMemGetAddressRange_v2(&base, &bytes, p + 1000));
	SAME(base, p);
	SAME(bytes, 5120);
	SAME(cuMemGetAddressRange_v2(&base, &bytes, p + 5120), CUDA_ERROR_NOT_FOUND);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	SAME(type, CU_MEMORYTYPE_DEVICE);
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	SAME(ordinal, 0);
	OK(cuMemFree_v2(p));
	SAME(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p),
		CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc(&low, 100));
	TRUE(low != 0);
	OK(cuMemFree(low));
	SAME(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemAllocPitch_v2(&p, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4),
		CUDA_ERROR_OUT_OF_MEMORY);
}

static void host(void)
{
	static char page[4096];
	CUdeviceptr seen, managed;
	void *pinned;
	size_t before = used();

	OK(cuMemHostAlloc(&pinned, 5 * MIB, CU_MEMHOSTALLOC_DEVICEMAP));
	memset(pinned, 1, 5 * MIB);
	OK(cuMemHostGetDevicePointer_v2(&seen, pinned, 0));
	SAME(seen, (uintptr_t)pinned);
	SAME(cuMemFree_v2(seen), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(pinned));
	SAME(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostRegister_v2(page, sizeof(page), 0));
	SAME(cuMemHostRegister_v2(page + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	OK(cuMemHostUnregister(page));
	SAME(cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	OK(cuMemAllocManaged(&managed, 4096 * MIB, CU_MEM_ATTACH_GLOBAL)); /* more than there is */
	memset((void *)managed, 7, 100);
	OK(cuMemFree_v2(managed));
	SAME(used(), before);
}

/* Needs a device of 512M and contexts of 300M. */
int main(void)
{
	check_start();
	SAME(used(), 300 * MIB);
	blocks();
	wrong_frees();
	full();
	ranges();
	host();
	return 0;
}
