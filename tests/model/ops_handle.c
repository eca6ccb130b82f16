/*
 * ops_handle.c - what holds no memory of its own and has a handle: kernels, textures, surfaces, links, copies of graphs.
 */
#include "model.h"

static void kernels(const struct step *s)
{
	int place;
	CUlibrary library = (CUlibrary)pick(T_LIBRARY, s->a, &place);
	CUkernel kernel[2] = { NULL, NULL };
	CUfunction function = NULL;

	switch (s->b % 4) {
	case 0:
		CALL(cuLibraryEnumerateKernels, kernel, 1 + s->c % 2, library);
		break;
	case 1:
		CALL(cuLibraryGetKernel, kernel, library, "no such kernel");
		break;
	default:
		CALL(cuLibraryGetKernel, kernel, library, "kernel");
	}
	if (kernel[0])
		CALL(cuKernelGetFunction, &function, kernel[0]);
}

/* Of an array, or of memory that is there or not. */
static CUDA_RESOURCE_DESC resource(const struct step *s)
{
	int place;
	CUDA_RESOURCE_DESC what = { .resType = CU_RESOURCE_TYPE_ARRAY };

	if (s->c % 3) {
		what.res.array.hArray = (CUarray)pick(T_ARRAY, s->b, &place);
		return what;
	}
	what.resType = CU_RESOURCE_TYPE_LINEAR;
	what.res.linear.devPtr = pick(T_MEMORY, s->b, &place);
	what.res.linear.format = CU_AD_FORMAT_FLOAT;
	what.res.linear.numChannels = 1;
	what.res.linear.sizeInBytes = 4;
	return what;
}

static void texture(const struct step *s)
{
	int place = place_empty(T_TEXTURE, s->a);
	CUDA_RESOURCE_DESC what = resource(s);
	CUDA_TEXTURE_DESC how = { 0 };
	CUtexObject made = 0;

	if (place < 0 || s->c >> 31) {
		made = pick(T_TEXTURE, s->a, &place);
		place_settle(T_TEXTURE, place, CALL(cuTexObjectDestroy, made));
	} else if (CALL(cuTexObjectCreate, &made, &what, &how, NULL) == CUDA_SUCCESS) {
		place_fill(T_TEXTURE, place, made, 0);
	}
}

static void surface(const struct step *s)
{
	int place = place_empty(T_SURFACE, s->a);
	CUDA_RESOURCE_DESC what = resource(s);
	CUsurfObject made = 0;

	if (place < 0 || s->c >> 31) {
		made = pick(T_SURFACE, s->a, &place);
		place_settle(T_SURFACE, place, CALL(cuSurfObjectDestroy, made));
	} else if (CALL(cuSurfObjectCreate, &made, &what) == CUDA_SUCCESS) {
		place_fill(T_SURFACE, place, made, 0);
	}
}

static void texture_reference(const struct step *s)
{
	int place = place_empty(T_TEXREF, s->a);
	CUtexref made = NULL;

	if (place < 0 || s->b % 2) {
		made = (CUtexref)pick(T_TEXREF, s->a, &place);
		place_settle(T_TEXREF, place, CALL(cuTexRefDestroy, made));
	} else if (CALL(cuTexRefCreate, &made) == CUDA_SUCCESS) {
		place_fill(T_TEXREF, place, (uint64_t)made, 0);
	}
}

static void link_state(const struct step *s)
{
	int place = place_empty(T_LINK, s->a);
	CUlinkState made = NULL;
	CUresult result;

	if (place < 0 || s->b % 2) {
		made = (CUlinkState)pick(T_LINK, s->a, &place);
		place_settle(T_LINK, place, CALL(cuLinkDestroy, made));
		return;
	}
	result = s->b & 2 ? CALL(cuLinkCreate, 0, NULL, NULL, &made) : CALL(cuLinkCreate_v2, 0, NULL, NULL, &made);
	if (result == CUDA_SUCCESS)
		place_fill(T_LINK, place, (uint64_t)made, 0);
}

static void graph_clone(const struct step *s)
{
	int graph_place, place = place_empty(T_GRAPH, s->a);
	CUgraph graph = (CUgraph)pick(T_GRAPH, s->b, &graph_place), clone = NULL;

	if (place >= 0 && CALL(cuGraphClone, &clone, graph) == CUDA_SUCCESS)
		place_fill(T_GRAPH, place, (uint64_t)clone, 0);
}

const struct operation operations_handle[] = {
	{ "kernels", FAM_module, 3, kernels, false },
	{ "texture", FAM_object, 4, texture, false },
	{ "surface", FAM_object, 4, surface, false },
	{ "texture_reference", FAM_object, 2, texture_reference, false },
	{ "link", FAM_object, 2, link_state, false },
	{ "graph_clone", FAM_graph, 2, graph_clone, false },
	{ 0 },
};
