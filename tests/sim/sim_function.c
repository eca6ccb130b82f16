/*
 * sim_function.c - functions: attributes, names, and how many blocks would fit.
 */
#include "sim_module.h"

#include <string.h>

static int attribute(const struct function *function, CUfunction_attribute attrib)
{
	switch ((int)attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		return 1024;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		return 32;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		return 10 * device_attribute(
				    &devices[0], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
		       device_attribute(&devices[0], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		return function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return function->carveout;
	default:
		return 0;
	}
}

static CUresult get(int *value, CUfunction_attribute attrib, struct function *function)
{
	if (!value || (int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*value = attribute(function, attrib);
	return CUDA_SUCCESS;
}

static CUresult set(struct function *function, CUfunction_attribute attrib, int value)
{
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	switch ((int)attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || value > 101376)
			return CUDA_ERROR_INVALID_VALUE;
		function->max_dynamic_shared = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		function->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	return get(pi, attrib, function_get(hfunc));
}

CUresult sim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	return set(function_get(hfunc), attrib, value);
}

CUresult sim_cuKernelGetAttribute(
	int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return get(pi, attrib, function_get((CUfunction)kernel));
}

CUresult sim_cuKernelSetAttribute(
	CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return set(function_get((CUfunction)kernel), attrib, val);
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct function *function = function_get(hfunc);

	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function || !function->module)
		return CUDA_ERROR_INVALID_HANDLE;
	*hmod = (CUmodule)function->module;
	return CUDA_SUCCESS;
}

/* A kernel of a library may be launched like a function; to those who ask for names it is another thing. */
static CUresult name_of(const char **name, const struct function *function, bool kernel)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function || kernel != !!function->library)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = function->name;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc)
{
	return name_of(name, function_get(hfunc), false);
}

CUresult sim_cuKernelGetName(const char **name, CUkernel hfunc)
{
	return name_of(name, function_get((CUfunction)hfunc), true);
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_get(function))
		return CUDA_ERROR_INVALID_HANDLE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncLoad(CUfunction function)
{
	return function_get(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	if (config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuFuncLoad(hfunc);
}

CUresult sim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return sim_cuFuncSetCacheConfig((CUfunction)kernel, config);
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	(void)config;
	return sim_cuFuncLoad(hfunc);
}

/* ---- occupancy: 1536 threads, 16 blocks and 100 KiB of shared memory a multiprocessor ---- */

static int blocks_that_fit(int threads, size_t shared)
{
	int warps = (threads + 31) / 32, blocks = 48 / warps;

	blocks = blocks < 16 ? blocks : 16;
	if (shared && (size_t)blocks > 102400 / (shared + 1024))
		blocks = (int)(102400 / (shared + 1024));
	return blocks;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	if (!numBlocks || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_get(func))
		return CUDA_ERROR_INVALID_HANDLE;
	*numBlocks = blockSize > 1024 ? 0 : blocks_that_fit(blockSize, dynamicSMemSize);
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(
		numBlocks, func, blockSize, dynamicSMemSize);
}

/* The largest block that fills a multiprocessor, down to one warp if shared memory demands it. */
CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
	CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)
{
	int limit = blockSizeLimit > 0 && blockSizeLimit < 1024 ? blockSizeLimit : 1024;
	int size, best = 0, best_threads = 0;
	size_t shared;

	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_get(func))
		return CUDA_ERROR_INVALID_HANDLE;
	for (size = larger((uint64_t)limit / 32 * 32, 32); size > 0; size -= 32) {
		shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size)
						    : dynamicSMemSize;
		if (size * blocks_that_fit(size, shared) <= best_threads)
			continue;
		best = size;
		best_threads = size * blocks_that_fit(size, shared);
	}
	*blockSize = best;
	*minGridSize = best ? 48 * (best_threads / best) : 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit, unsigned int flags)
{
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func,
		blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_get(func))
		return CUDA_ERROR_INVALID_HANDLE;
	*dynamicSmemSize = (size_t)102400 / (size_t)numBlocks - 1024;
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveClusters(
	int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	if (!numClusters || !config || !function_get(func))
		return CUDA_ERROR_INVALID_VALUE;
	*numClusters = 48;
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialClusterSize(
	int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
	if (!clusterSize || !config || !function_get(func))
		return CUDA_ERROR_INVALID_VALUE;
	*clusterSize = 8;
	return CUDA_SUCCESS;
}
