/*
 * ops_graph.c - memory that graphs allocate: nodes made by hand and by capture, launches, trims.
 */
#include "model.h"

static void graph_create(const struct step *s)
{
	int place = place_empty(T_GRAPH, s->a);
	CUgraph graph = NULL;

	if (place < 0) {
		graph = (CUgraph)pick(T_GRAPH, s->a, &place);
		place_settle(T_GRAPH, place, CALL(cuGraphDestroy, graph));
		return;
	}
	if (CALL(cuGraphCreate, &graph, 0) == CUDA_SUCCESS)
		place_fill(T_GRAPH, place, (uint64_t)graph, 0);
}

static void graph_destroy(const struct step *s)
{
	int place;
	CUgraph graph = (CUgraph)pick(T_GRAPH, s->a, &place);

	place_settle(T_GRAPH, place, CALL(cuGraphDestroy, graph));
}

/* One node that allocates, and mostly one that frees it. */
static void add_nodes(const struct step *s)
{
	int place;
	CUgraph graph = (CUgraph)pick(T_GRAPH, s->a, &place);
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(s->c % 2) } },
		.bytesize = size_of_random(s->b) };
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = { .poolProps = alloc.poolProps, .bytesize = alloc.bytesize } };
	CUgraphNodeParams free = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE };
	CUgraphNode node = NULL, last = NULL;
	CUdeviceptr address;
	CUresult result;

	switch (s->c % 6) {
	case 0:
		result = CALL(cuGraphAddNode, &node, graph, NULL, 0, &any);
		address = any.alloc.dptr;
		break;
	case 1:
		result = CALL(cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &any);
		address = any.alloc.dptr;
		break;
	default:
		result = CALL(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &alloc);
		address = alloc.dptr;
	}
	if (result != CUDA_SUCCESS || s->c % 5 == 0)
		return;
	free.free.dptr = address;
	if (s->c % 7 == 0)
		CALL(cuGraphAddNode, &last, graph, &node, 1, &free);
	else
		CALL(cuGraphAddMemFreeNode, &last, graph, &node, 1, address);
}

/* What a stream is told while it is captured allocates nothing yet. */
static void capture(const struct step *s)
{
	int stream_place, place = place_empty(T_GRAPH, s->b);
	CUstream stream = (CUstream)pick(T_STREAM, s->a, &stream_place);
	CUdeviceptr pointer = 0;
	CUgraph graph = NULL;

	if (place < 0 || stream_place < 0 ||
		CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return;
	if (CALL(cuMemAllocAsync, &pointer, size_of_random(s->c) % (8 * MiB), stream) == CUDA_SUCCESS &&
		s->c % 3)
		CALL(cuMemFreeAsync, pointer, stream);
	if (cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph)
		place_fill(T_GRAPH, place, (uint64_t)graph, 0);
}

static void exec_destroy(const struct step *s)
{
	int place;
	CUgraphExec exec = (CUgraphExec)pick(T_EXEC, s->a, &place);

	place_settle(T_EXEC, place, CALL(cuGraphExecDestroy, exec));
}

static void instantiate(const struct step *s)
{
	int graph_place, place = place_empty(T_EXEC, s->a);
	CUgraph graph = (CUgraph)pick(T_GRAPH, s->b, &graph_place);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { 0 };
	CUgraphExec exec = NULL;
	CUgraphNode node = NULL;
	char log[64];
	CUresult result;

	if (place < 0) {
		exec_destroy(s);
		return;
	}
	params.flags = s->c % 3 ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0;
	switch ((s->c >> 4) % 5) {
	case 0:
		result = CALL(cuGraphInstantiate, &exec, graph, &node, log, sizeof(log));
		break;
	case 1:
		result = CALL(cuGraphInstantiate_v2, &exec, graph, &node, log, sizeof(log));
		break;
	case 2:
		result = CALL(cuGraphInstantiateWithFlags, &exec, graph, params.flags);
		break;
	default:
		params.flags |= s->c >> 30 ? 0 : CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
		params.hUploadStream = any_stream(s->c >> 8);
		result = CALL_TWIN(cuGraphInstantiateWithParams, s->c & 1, &exec, graph, &params);
	}
	if (result == CUDA_SUCCESS)
		place_fill(T_EXEC, place, (uint64_t)exec, 0);
}

static void graph_launch(const struct step *s)
{
	int place;
	CUgraphExec exec = (CUgraphExec)pick(T_EXEC, s->a, &place);

	if (s->b % 4 == 0)
		CALL_TWIN(cuGraphUpload, s->c & 1, exec, any_stream(s->c >> 1));
	else
		CALL_TWIN(cuGraphLaunch, s->c & 1, exec, any_stream(s->c >> 1));
}

static void graph_memory(const struct step *s)
{
	cuuint64_t value = s->b % 2;

	switch (s->a % 3) {
	case 0:
		CALL(cuDeviceGetGraphMemAttribute, (int)(s->b % 3), s->c % 5, &value);
		break;
	case 1:
		CALL(cuDeviceSetGraphMemAttribute, (int)(s->b % 3), s->c % 5, &value);
		break;
	default:
		CALL(cuDeviceGraphMemTrim, (int)(s->b % 3));
	}
}

const struct operation operations_graph[] = {
	{ "graph_create", FAM_graph, 3, graph_create, false },
	{ "graph_destroy", FAM_graph, 3, graph_destroy, false },
	{ "graph_nodes", FAM_graph, 6, add_nodes, false },
	{ "graph_capture", FAM_graph, 4, capture, false },
	{ "graph_exec", FAM_graph, 5, instantiate, false },
	{ "graph_exec_destroy", FAM_graph, 4, exec_destroy, false },
	{ "graph_launch", FAM_graph, 12, graph_launch, false },
	{ "graph_memory", FAM_graph, 4, graph_memory, false },
	{ 0 },
};
