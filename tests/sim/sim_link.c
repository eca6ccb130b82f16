/*
 * sim_link.c - the linker: what was added, one after the other, is the image.
 */
#include "sim_module.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_cuLinkCreate_v2(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	struct context *context;
	struct link *link;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!stateOut || (numOptions && (!options || !optionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	link = object_new(KIND_link, context);
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(link, GIVEN_link);
	*stateOut = (CUlinkState)link;
	return CUDA_SUCCESS;
}

CUresult sim_cuLinkCreate(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	return sim_cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

static CUresult append(struct link *link, const void *data, size_t bytes)
{
	char *more = realloc(link->image, link->bytes + bytes + 2);

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	link->image = more;
	memcpy(more + link->bytes, data, bytes);
	link->bytes += bytes;
	while (link->bytes && !more[link->bytes - 1])
		link->bytes--; /* text ends with zeros, which must not end the image */
	more[link->bytes++] = '\n';
	more[link->bytes] = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	struct link *link = object_get(KIND_link, state);

	(void)name, (void)numOptions, (void)options, (void)optionValues;
	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size || type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	return append(link, data, size);
}

CUresult sim_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	return sim_cuLinkAddData_v2(
		state, type, data, size, name, numOptions, options, optionValues);
}

CUresult sim_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	struct link *link = object_get(KIND_link, state);
	CUresult result;
	void *image;

	(void)type, (void)numOptions, (void)options, (void)optionValues;
	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	result = path ? read_file(path, &image) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	result = append(link, image, strlen(image));
	free(image);
	return result;
}

CUresult sim_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	return sim_cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

/* The image stays the linker's until that is destroyed. */
CUresult sim_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct link *link = object_get(KIND_link, state);

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cubinOut || !link->image)
		return CUDA_ERROR_INVALID_VALUE;
	*cubinOut = link->image;
	if (sizeOut)
		*sizeOut = link->bytes + 1;
	return CUDA_SUCCESS;
}

CUresult sim_cuLinkDestroy(CUlinkState state)
{
	struct link *link = object_get(KIND_link, state);

	if (!link)
		return CUDA_ERROR_INVALID_HANDLE;
	free(link->image);
	object_delete(link);
	return CUDA_SUCCESS;
}
