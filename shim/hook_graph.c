/*
 * hook_graph.c - nodes that allocate, and the calls that bring their memory to life or end it.
 */
#include "grant.h"
#include "graph_memory.h"
#include "traced.h"

static int location_device(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? guest_device_index(location->id) : -1;
}

CUresult on_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	uint64_t began_ns = traced_begin();
	CUresult result = nodeParams ? graph_memory_node(
		location_device(&nodeParams->poolProps.location), nodeParams->bytesize) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS) {
		result = real.cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies,
			nodeParams);
		if (result == CUDA_SUCCESS)
			graph_memory_made();
	}
	return traced_end(CALL_cuGraphAddMemAllocNode, result, began_ns);
}

/* The one call for nodes of all types. */
#define ADD_NODE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		bool cw_allocates = nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC; \
		CUresult cw_result = cw_allocates ? graph_memory_node( \
			location_device(&nodeParams->alloc.poolProps.location), \
			nodeParams->alloc.bytesize) : CUDA_SUCCESS; \
\
		if (cw_result == CUDA_SUCCESS) { \
			cw_result = real.name ARGS_##name; \
			if (cw_allocates && cw_result == CUDA_SUCCESS) \
				graph_memory_made(); \
		} \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

ADD_NODE(cuGraphAddNode)
ADD_NODE(cuGraphAddNode_v2)
#ifdef PARAMS_cuGraphAddNode_v3
ADD_NODE(cuGraphAddNode_v3)
#endif

/* ---- executable graphs ---- */

static void instantiated(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);

	grant_object_created(OBJECT_GRAPH_EXEC, (uint64_t)exec, device, NULL);
	graph_memory_instantiated(exec, graph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
}

#define INSTANTIATE(name, flags) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			instantiated(*phGraphExec, hGraph, flags); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

INSTANTIATE(cuGraphInstantiate, 0)
INSTANTIATE(cuGraphInstantiate_v2, 0)
INSTANTIATE(cuGraphInstantiateWithFlags, flags)

/* It may be uploaded at once, which takes the memory that its first launch would. */
#define INSTANTIATE_AND_UPLOAD(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		bool cw_uploads = instantiateParams && \
			instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD; \
		struct graph_use cw_use; \
		CUresult cw_result = cw_uploads ? graph_memory_open_new(&cw_use, hGraph) : CUDA_SUCCESS; \
\
		if (cw_result != CUDA_SUCCESS) \
			return traced_end(CALL_##name, cw_result, cw_began_ns); \
		cw_result = real.name ARGS_##name; \
		if (cw_uploads) \
			graph_memory_close(&cw_use, cw_result, false); \
		if (cw_result == CUDA_SUCCESS) \
			instantiated(*phGraphExec, hGraph, instantiateParams->flags); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

INSTANTIATE_AND_UPLOAD(cuGraphInstantiateWithParams)
INSTANTIATE_AND_UPLOAD(cuGraphInstantiateWithParams_ptsz)

CUresult on_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct ledger_record exec;
	struct release release;
	CUresult result;
	int device = -1;

	if (graph_memory_possible() && grant_object_find(OBJECT_GRAPH_EXEC, (uint64_t)hGraphExec, &exec) &&
	    exec.bytes && exec.device < guest.device_count)
		device = exec.device;
	grant_object_open(&release, OBJECT_GRAPH_EXEC, (uint64_t)hGraphExec);
	result = release_close(&release, real.cuGraphExecDestroy(hGraphExec));
	graph_memory_look(device);
	return result;
}

#define UPLOAD(name, exec) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		struct graph_use cw_use; \
		CUresult cw_result; \
\
		if (likely(!graph_memory_possible())) \
			return traced_end(CALL_##name, real.name ARGS_##name, cw_began_ns); \
		cw_result = graph_memory_open(&cw_use, exec); \
		if (cw_result == CUDA_SUCCESS) \
			cw_result = graph_memory_close(&cw_use, real.name ARGS_##name, false); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

UPLOAD(cuGraphUpload, hGraph)
UPLOAD(cuGraphUpload_ptsz, hGraphExec)

/* ---- what the device keeps ---- */

CUresult on_cuDeviceGraphMemTrim(CUdevice device)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuDeviceGraphMemTrim(device);

	graph_memory_look(guest_device_index(device));
	return traced_end(CALL_cuDeviceGraphMemTrim, result, began_ns);
}
