/*
 * sim_texref.c - the rest of the old texture references: mipmaps, borders, the first ABI. What is set
 * is kept for whoever asks.
 */
#include "sim_array.h"

#include <string.h>

#define TEXREF_OR_RETURN(handle, condition) \
	struct texref *texref = object_get(KIND_texref, handle); \
	if (!texref) \
		return CUDA_ERROR_INVALID_HANDLE; \
	if (!(condition)) \
	return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuTexRefSetAddress(
	unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr, unsigned int bytes)
{
	size_t offset = 0;
	CUresult result = sim_cuTexRefSetAddress_v2(&offset, hTexRef, dptr, bytes);

	if (result == CUDA_SUCCESS && ByteOffset)
		*ByteOffset = (unsigned)offset;
	return result;
}

CUresult sim_cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
	CUdeviceptr_v1 dptr, unsigned int Pitch)
{
	CUDA_ARRAY_DESCRIPTOR wide;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY_DESCRIPTOR){ desc->Width, desc->Height, desc->Format,
		desc->NumChannels };
	return sim_cuTexRefSetAddress2D_v3(hTexRef, &wide, dptr, Pitch);
}

CUresult sim_cuTexRefGetAddress(CUdeviceptr_v1 *pdptr, CUtexref hTexRef)
{
	CUdeviceptr wide = 0;
	CUresult result = pdptr ? sim_cuTexRefGetAddress_v2(&wide, hTexRef)
				: CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*pdptr = (CUdeviceptr_v1)wide;
	return result;
}

CUresult sim_cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
	TEXREF_OR_RETURN(hTexRef, pBorderColor);
	memcpy(texref->border, pBorderColor, sizeof(texref->border));
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pBorderColor);
	memcpy(pBorderColor, texref->border, sizeof(texref->border));
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pmaxAniso);
	*pmaxAniso = (int)texref->anisotropy;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	TEXREF_OR_RETURN(hTexRef, fm <= CU_TR_FILTER_MODE_LINEAR);
	texref->mipmap_filter = fm;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pfm);
	*pfm = texref->mipmap_filter;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias)
{
	TEXREF_OR_RETURN(hTexRef, true);
	texref->bias = bias;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pbias);
	*pbias = texref->bias;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetMipmapLevelClamp(
	CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp)
{
	TEXREF_OR_RETURN(hTexRef, minMipmapLevelClamp <= maxMipmapLevelClamp);
	texref->clamp[0] = minMipmapLevelClamp;
	texref->clamp[1] = maxMipmapLevelClamp;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetMipmapLevelClamp(
	float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pminMipmapLevelClamp && pmaxMipmapLevelClamp);
	*pminMipmapLevelClamp = texref->clamp[0];
	*pmaxMipmapLevelClamp = texref->clamp[1];
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetMipmappedArray(
	CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags)
{
	TEXREF_OR_RETURN(hTexRef, object_get(KIND_mipmap, hMipmappedArray) &&
					  Flags == CU_TRSA_OVERRIDE_FORMAT);
	texref->mipmap = hMipmappedArray;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, phMipmappedArray && texref->mipmap);
	*phMipmappedArray = texref->mipmap;
	return CUDA_SUCCESS;
}
