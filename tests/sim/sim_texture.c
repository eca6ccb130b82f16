/*
 * sim_texture.c - texture and surface objects, and the references they replaced. Kept, not used.
 */
#include "sim_array.h"
#include "sim_module.h"

#include <string.h>

static bool resource_is_valid(const CUDA_RESOURCE_DESC *resource)
{
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return object_get(KIND_array, resource->res.array.hArray);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return object_get(KIND_mipmap, resource->res.mipmap.hMipmappedArray);
	case CU_RESOURCE_TYPE_LINEAR:
		return memory_known(resource->res.linear.devPtr);
	case CU_RESOURCE_TYPE_PITCH2D:
		return memory_known(resource->res.pitch2D.devPtr);
	default:
		return false;
	}
}

static CUresult texture_open(struct texture **opened, const CUDA_RESOURCE_DESC *resource)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!resource || !resource_is_valid(resource))
		return CUDA_ERROR_INVALID_VALUE;
	*opened = object_new(KIND_texture, context);
	if (!*opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*opened)->resource = *resource;
	return CUDA_SUCCESS;
}

static struct texture *texture_get(uint64_t handle, bool surface)
{
	struct texture *texture = object_get(KIND_texture, (void *)handle);

	return texture && texture->surface == surface ? texture : NULL;
}

CUresult sim_cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
	const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	struct texture *texture;
	CUresult result = pTexObject && pTexDesc ? texture_open(&texture, pResDesc)
						 : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	texture->texture = *pTexDesc;
	texture->has_view = pResViewDesc != NULL;
	if (pResViewDesc)
		texture->view = *pResViewDesc;
	object_give(texture, GIVEN_texture);
	*pTexObject = (uintptr_t)texture;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexObjectDestroy(CUtexObject texObject)
{
	struct texture *texture = texture_get(texObject, false);

	if (!texture)
		return CUDA_ERROR_INVALID_VALUE;
	object_delete(texture);
	return CUDA_SUCCESS;
}

CUresult sim_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	struct texture *texture = texture_get(texObject, false);

	if (!pResDesc || !texture)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = texture->resource;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	struct texture *texture = texture_get(texObject, false);

	if (!pTexDesc || !texture)
		return CUDA_ERROR_INVALID_VALUE;
	*pTexDesc = texture->texture;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexObjectGetResourceViewDesc(
	CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
{
	struct texture *texture = texture_get(texObject, false);

	if (!pResViewDesc || !texture || !texture->has_view)
		return CUDA_ERROR_INVALID_VALUE;
	*pResViewDesc = texture->view;
	return CUDA_SUCCESS;
}

CUresult sim_cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	struct texture *surface;
	CUresult result = pSurfObject && pResDesc && pResDesc->resType == CU_RESOURCE_TYPE_ARRAY
				  ? texture_open(&surface, pResDesc)
				  : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	surface->surface = true;
	object_give(surface, GIVEN_surface);
	*pSurfObject = (uintptr_t)surface;
	return CUDA_SUCCESS;
}

CUresult sim_cuSurfObjectDestroy(CUsurfObject surfObject)
{
	struct texture *surface = texture_get(surfObject, true);

	if (!surface)
		return CUDA_ERROR_INVALID_VALUE;
	object_delete(surface);
	return CUDA_SUCCESS;
}

CUresult sim_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	struct texture *surface = texture_get(surfObject, true);

	if (!pResDesc || !surface)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = surface->resource;
	return CUDA_SUCCESS;
}

/* ---- references: a module says they exist, by any name ---- */

static CUresult reference(struct texref **opened, CUmodule handle)
{
	struct module *module = object_get(KIND_module, handle);

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	*opened = object_new(KIND_texref, module->object.context);
	if (!*opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*opened)->format = CU_AD_FORMAT_FLOAT;
	(*opened)->channels = 1;
	return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
	struct texref *texref;
	CUresult result = pTexRef && name ? reference(&texref, hmod) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*pTexRef = (CUtexref)texref;
	return result;
}

CUresult sim_cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
	return sim_cuModuleGetTexRef((CUtexref *)pSurfRef, hmod, name);
}

CUresult sim_cuTexRefCreate(CUtexref *pTexRef)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pTexRef)
		return CUDA_ERROR_INVALID_VALUE;
	*pTexRef = object_new(KIND_texref, context);
	if (!*pTexRef)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(*pTexRef, GIVEN_texture_reference);
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefDestroy(CUtexref hTexRef)
{
	if (!object_get(KIND_texref, hTexRef))
		return CUDA_ERROR_INVALID_HANDLE;
	object_delete(hTexRef);
	return CUDA_SUCCESS;
}

#define TEXREF_OR_RETURN(handle, condition) \
	struct texref *texref = object_get(KIND_texref, handle); \
	if (!texref) \
		return CUDA_ERROR_INVALID_HANDLE; \
	if (!(condition)) \
	return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuTexRefSetAddress_v2(
	size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
	TEXREF_OR_RETURN(hTexRef, !dptr || memory_known(dptr));
	(void)bytes;
	texref->address = dptr;
	if (ByteOffset)
		*ByteOffset = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetAddress2D_v3(
	CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch)
{
	TEXREF_OR_RETURN(hTexRef, desc && memory_known(dptr) && Pitch);
	texref->address = dptr;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetAddress2D_v2(
	CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch)
{
	return sim_cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
}

CUresult sim_cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pdptr && texref->address);
	*pdptr = texref->address;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
	TEXREF_OR_RETURN(
		hTexRef, object_get(KIND_array, hArray) && Flags == CU_TRSA_OVERRIDE_FORMAT);
	texref->array = hArray;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, phArray && texref->array);
	*phArray = texref->array;
	return CUDA_SUCCESS;
}

CUresult sim_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
	TEXREF_OR_RETURN(hSurfRef, object_get(KIND_array, hArray) && !Flags);
	texref->array = hArray;
	return CUDA_SUCCESS;
}

CUresult sim_cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
	return sim_cuTexRefGetArray(phArray, (CUtexref)hSurfRef);
}

CUresult sim_cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
	TEXREF_OR_RETURN(hTexRef, format_half_bytes(fmt, 1) && NumPackedComponents > 0);
	texref->format = fmt;
	texref->channels = NumPackedComponents;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pFormat && pNumChannels);
	*pFormat = texref->format;
	*pNumChannels = texref->channels;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
	TEXREF_OR_RETURN(hTexRef, dim >= 0 && dim < 3);
	texref->mode[dim] = am;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
	TEXREF_OR_RETURN(hTexRef, pam && dim >= 0 && dim < 3);
	*pam = texref->mode[dim];
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
	TEXREF_OR_RETURN(hTexRef, fm <= CU_TR_FILTER_MODE_LINEAR);
	texref->filter = fm;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pfm);
	*pfm = texref->filter;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
	TEXREF_OR_RETURN(hTexRef, true);
	texref->flags = Flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef)
{
	TEXREF_OR_RETURN(hTexRef, pFlags);
	*pFlags = texref->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso)
{
	TEXREF_OR_RETURN(hTexRef, maxAniso <= 16);
	texref->anisotropy = maxAniso;
	return CUDA_SUCCESS;
}
