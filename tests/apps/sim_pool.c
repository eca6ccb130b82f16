/*
 * sim_pool.c - pools: what they keep, when they give it back, and frees that wait for their stream.
 */
#include "sim_check.h"

static CUmemoryPool pool;

static size_t attribute(CUmemPool_attribute which)
{
	cuuint64_t value;

	OK(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

#define RESERVED attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
#define USED attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)

static void threshold_zero(CUstream stream)
{
	CUdeviceptr p;

	OK(cuMemAllocAsync(&p, MIB, stream));
	SAME(USED, MIB);
	SAME(RESERVED, 2 * MIB);
	OK(cuMemFreeAsync(p, stream));
	SAME(USED, 0);
	SAME(RESERVED, 2 * MIB);
	OK(cuStreamSynchronize(stream));
	SAME(RESERVED, 0);
}

static void threshold_high(CUstream stream)
{
	cuuint64_t most = UINT64_MAX, none = 0;
	CUdeviceptr p, q;

	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
	OK(cuMemAllocAsync(&p, 10 * MIB, stream));
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	SAME(RESERVED, 10 * MIB);
	OK(cuMemAllocAsync(&p, 4 * MIB, stream)); /* out of what is kept */
	OK(cuMemAllocAsync(&q, 6 * MIB, stream));
	SAME(RESERVED, 10 * MIB);
	OK(cuMemFree_v2(p));
	SAME(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolTrimTo(pool, 8 * MIB));
	SAME(RESERVED, 8 * MIB);
	OK(cuMemPoolTrimTo(pool, 0));
	SAME(RESERVED, 6 * MIB);
	OK(cuMemFreeAsync(q, stream));
	OK(cuMemPoolTrimTo(pool, 0));
	SAME(RESERVED, 0);
	SAME(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 10 * MIB);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none));
	SAME(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

/* The stream is busy for 20 ms: until then the memory is not free for others, but is for itself. */
static void frees_wait(CUstream stream, CUfunction slow)
{
	CUdeviceptr p, q;

	OK(cuMemAllocAsync(&p, 4 * MIB, stream));
	OK(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	OK(cuMemFreeAsync(p, stream));
	SAME(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	SAME(USED, 4 * MIB);
	OK(cuMemPoolTrimTo(pool, 0));
	SAME(RESERVED, 4 * MIB);
	OK(cuMemAllocAsync(&q, 4 * MIB, stream));
	SAME(RESERVED, 4 * MIB);
	OK(cuMemFreeAsync(q, stream));
	OK(cuStreamSynchronize(stream));
	SAME(USED, 0);
	SAME(RESERVED, 0);
}

static void own_pool(CUstream stream)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.maxSize = 8 * MIB };
	CUmemoryPool own, current;
	CUdeviceptr p, q = 42;

	OK(cuMemPoolCreate(&own, &props));
	OK(cuMemAllocFromPoolAsync(&p, 6 * MIB, own, stream));
	SAME(cuMemAllocFromPoolAsync(&q, 3 * MIB, own, stream), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(q, 42);
	OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	TRUE(current == own);
	OK(cuDeviceSetMemPool(0, own));
	OK(cuMemPoolDestroy(own)); /* returns at once; the memory stays */
	OK(cuDeviceGetMemPool(&current, 0));
	TRUE(current == pool);
	SAME(cuMemAllocFromPoolAsync(&q, MIB, own, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(p, stream));
	SAME(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

/* Needs CUWARD_SIM_KERNEL_NS=slow=20000000. */
int main(void)
{
	size_t available, total, again;
	CUfunction slow;
	CUmodule module;
	CUstream stream;

	check_start();
	OK(cuModuleLoadData(&module, ".version 7.0\n.entry slow() {}\n"));
	OK(cuModuleGetFunction(&slow, module, "slow"));
	OK(cuStreamCreate(&stream, 0));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemGetInfo_v2(&available, &total));
	threshold_zero(stream);
	threshold_high(stream);
	frees_wait(stream, slow);
	own_pool(stream);
	OK(cuMemGetInfo_v2(&again, &total));
	SAME(again, available);
	return 0;
}
