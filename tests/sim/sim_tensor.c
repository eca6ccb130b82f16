/*
 * sim_tensor.c - descriptors of tensors for the copy engine. Checked as the header says; what is in
 * them is nobody's business but the driver's.
 */
#include "sim.h"

#include <string.h>

struct tensor {
	uint64_t address, dims[5];
	uint32_t type, rank, kind;
};
_Static_assert(sizeof(struct tensor) <= sizeof(CUtensorMap), "a map holds all of it");

static bool is_aligned(uint64_t value, uint64_t to)
{
	return value % to == 0;
}

static bool shape_is_valid(uint32_t rank, uint64_t address, const cuuint64_t *dims,
	const cuuint64_t *strides, CUtensorMapInterleave interleave)
{
	uint32_t i, alignment = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;

	if (!rank || rank > 5 || !address || !is_aligned(address, alignment) || !dims ||
		(interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && rank < 3) ||
		(rank > 1 && !strides))
		return false;
	for (i = 0; i < rank; i++)
		if (!dims[i] || dims[i] > (uint64_t)1 << 32)
			return false;
	for (i = 0; i + 1 < rank; i++)
		if (!is_aligned(strides[i], alignment) || strides[i] >= (uint64_t)1 << 40)
			return false;
	return true;
}

static bool steps_are_valid(uint32_t rank, const cuuint32_t *steps)
{
	uint32_t i;

	for (i = 0; steps && i < rank; i++)
		if (!steps[i] || steps[i] > 8)
			return false;
	return steps != NULL;
}

static void write_map(CUtensorMap *map, uint32_t kind, CUtensorMapDataType type, uint32_t rank,
	uint64_t address, const cuuint64_t *dims)
{
	struct tensor tensor = { .address = address, .type = type, .rank = rank, .kind = kind };

	memcpy(tensor.dims, dims, rank * sizeof(*dims));
	memset(map, 0, sizeof(*map));
	memcpy(map, &tensor, sizeof(tensor));
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

CUresult sim_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
	cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
	const cuuint64_t *globalStrides, const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
	CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
	uint32_t i;

	if (!tensorMap || !is_aligned((uintptr_t)tensorMap, 64) || !boxDim ||
		!shape_is_valid(tensorRank, (uintptr_t)globalAddress, globalDim, globalStrides,
			interleave) ||
		!steps_are_valid(tensorRank, elementStrides))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < tensorRank; i++)
		if (!boxDim[i] || boxDim[i] > 256)
			return CUDA_ERROR_INVALID_VALUE;
	write_map(tensorMap, 1, tensorDataType, tensorRank, (uintptr_t)globalAddress, globalDim);
	return CUDA_SUCCESS;
}

CUresult sim_cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
	cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
	const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner,
	const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
	const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	if (!tensorMap || !is_aligned((uintptr_t)tensorMap, 64) || tensorRank < 3 ||
		!pixelBoxLowerCorner || !pixelBoxUpperCorner || channelsPerPixel > 256 ||
		pixelsPerColumn > 1024 ||
		!shape_is_valid(tensorRank, (uintptr_t)globalAddress, globalDim, globalStrides,
			interleave) ||
		!steps_are_valid(tensorRank, elementStrides))
		return CUDA_ERROR_INVALID_VALUE;
	write_map(tensorMap, 2, tensorDataType, tensorRank, (uintptr_t)globalAddress, globalDim);
	return CUDA_SUCCESS;
}

CUresult sim_cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
	cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
	const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
	cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
	CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
	CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
	CUtensorMapFloatOOBfill oobFill)
{
	int lower[3] = { pixelBoxLowerCornerWidth }, upper[3] = { pixelBoxUpperCornerWidth };

	return sim_cuTensorMapEncodeIm2col(tensorMap, tensorDataType, tensorRank, globalAddress,
		globalDim, globalStrides, lower, upper, channelsPerPixel, pixelsPerColumn,
		elementStrides, interleave, swizzle, l2Promotion, oobFill);
}

CUresult sim_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
	uint64_t address = (uintptr_t)globalAddress;

	if (!tensorMap || !address || !is_aligned(address, 16))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(tensorMap, &address, sizeof(address));
	return CUDA_SUCCESS;
}
