/*
 * sim_graph_node.c - nodes: add them, ask about them, change them.
 */
#include "sim_graph.h"
#include "sim_module.h"

#include <string.h>

/* ---- add ---- */

static CUresult add(struct node **node, CUgraph hGraph, const CUgraphNode *needs, size_t count,
	CUgraphNodeType type)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct node *need;
	size_t i;

	if (!graph || (count && !needs))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++) {
		need = object_get(KIND_node, needs[i]);
		if (!need || need->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	*node = node_new(graph, type, (struct node *const *)needs, count);
	return *node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The body of every call that adds a node of a type with parameters of its own. */
#define ADD(type, condition, statement) \
	do { \
		struct node *node; \
		CUresult result; \
		if (!phGraphNode || !(condition)) \
			return CUDA_ERROR_INVALID_VALUE; \
		result = add(&node, hGraph, dependencies, numDependencies, type); \
		if (result != CUDA_SUCCESS) \
			return result; \
		statement; \
		*phGraphNode = (CUgraphNode)node; \
		return CUDA_SUCCESS; \
	} while (0)

static uint64_t kernel_ns(CUfunction handle)
{
	struct function *function = function_get(handle);

	return function ? function->ns : 0;
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies)
{
	ADD(CU_GRAPH_NODE_TYPE_EMPTY, true, (void)node);
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	ADD(CU_GRAPH_NODE_TYPE_KERNEL,
		nodeParams && function_get(nodeParams->func ? nodeParams->func
							    : (CUfunction)nodeParams->kern),
		(node->is.kernel = *nodeParams,
			node->ns = kernel_ns(nodeParams->func ? nodeParams->func
							      : (CUfunction)nodeParams->kern)));
}

/* The first version of the parameters is the beginning of the second. */
static CUDA_KERNEL_NODE_PARAMS kernel_v2(const CUDA_KERNEL_NODE_PARAMS_v1 *v1)
{
	CUDA_KERNEL_NODE_PARAMS v2 = { 0 };

	memcpy(&v2, v1, sizeof(*v1));
	return v2;
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS v2;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	v2 = kernel_v2(nodeParams);
	return sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &v2);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams,
	CUcontext ctx)
{
	ADD(CU_GRAPH_NODE_TYPE_MEMCPY, copyParams && context_get(ctx), node->is.copy = *copyParams);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	ADD(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams && context_get(ctx),
		node->is.set = *memsetParams);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	ADD(CU_GRAPH_NODE_TYPE_HOST, nodeParams && nodeParams->fn, node->is.host = *nodeParams);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	struct graph *child = object_get(KIND_graph, childGraph);

	ADD(CU_GRAPH_NODE_TYPE_GRAPH, child, node->is.child = graph_clone(child, false));
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	ADD(CU_GRAPH_NODE_TYPE_EVENT_RECORD, object_get(KIND_event, event), node->is.event = event);
}

CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	ADD(CU_GRAPH_NODE_TYPE_WAIT_EVENT, object_get(KIND_event, event), node->is.event = event);
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct device *device;
	struct node *node;
	CUresult result;

	if (!phGraphNode || !nodeParams || !nodeParams->bytesize ||
		nodeParams->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = device_get(nodeParams->poolProps.location.id);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	result = add(&node, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	if (result != CUDA_SUCCESS)
		return result;
	node->is.alloc = *nodeParams;
	result = graph_reserve(node, device, &nodeParams->dptr);
	if (result == CUDA_SUCCESS)
		*phGraphNode = (CUgraphNode)node;
	else
		node_delete(node);
	return result;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	struct found found;

	ADD(CU_GRAPH_NODE_TYPE_MEM_FREE,
		memory_find(dptr, &found) && found.heap->family == FAMILY_graph,
		node->is.free = dptr);
}

/* The one call for all types. Its parameters have layouts of their own. */
CUresult sim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS kernel = { 0 };
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };
	CUDA_HOST_NODE_PARAMS host;
	CUresult result;

	(void)dependencyData;
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)nodeParams->type) {
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return sim_cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies);
	case CU_GRAPH_NODE_TYPE_KERNEL:
		memcpy(&kernel, &nodeParams->kernel, sizeof(kernel));
		return sim_cuGraphAddKernelNode_v2(
			phGraphNode, hGraph, dependencies, numDependencies, &kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sim_cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies,
			&nodeParams->memcpy.copyParams, nodeParams->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_HOST:
		host = (CUDA_HOST_NODE_PARAMS){ nodeParams->host.fn, nodeParams->host.userData };
		return sim_cuGraphAddHostNode(
			phGraphNode, hGraph, dependencies, numDependencies, &host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sim_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies,
			numDependencies, nodeParams->graph.graph);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		alloc.poolProps = nodeParams->alloc.poolProps;
		alloc.bytesize = nodeParams->alloc.bytesize;
		result = sim_cuGraphAddMemAllocNode(
			phGraphNode, hGraph, dependencies, numDependencies, &alloc);
		if (result == CUDA_SUCCESS)
			nodeParams->alloc.dptr = alloc.dptr;
		return result;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return sim_cuGraphAddMemFreeNode(
			phGraphNode, hGraph, dependencies, numDependencies, nodeParams->free.dptr);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sim_cuGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies,
			(const void *)&nodeParams->memset, nodeParams->memset.ctx);
	default:
		return kept_add(
			phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
	}
}

CUresult sim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return sim_cuGraphAddNode_v2(
		phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

#ifdef PARAMS_cuGraphAddNode_v3
CUresult sim_cuGraphAddNode_v3 PARAMS_cuGraphAddNode_v3
{
	return sim_cuGraphAddNode_v2 ARGS_cuGraphAddNode_v3;
}
#endif

CUresult sim_cuGraphDestroyNode(CUgraphNode hNode)
{
	struct node *node = object_get(KIND_node, hNode);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	node_delete(node);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies(
	CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	struct node *node;
	size_t i;

	if (!object_get(KIND_graph, hGraph) || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < numDependencies; i++) {
		node = object_get(KIND_node, to[i]);
		if (!node || !object_get(KIND_node, from[i]) ||
			!tails_add(&node->needs, (struct node *)from[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return sim_cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

/* ---- ask ---- */

/* With a NULL array the answer is how many there are; else at most *count, the rest NULL. */
struct list {
	CUgraphNode *nodes;
	size_t room, found;
};

static void list_add(struct list *list, struct node *node)
{
	if (list->nodes && list->found < list->room)
		list->nodes[list->found] = (CUgraphNode)node;
	list->found++;
}

static CUresult list_end(struct list *list, size_t *count)
{
	size_t i;

	for (i = list->found; list->nodes && i < list->room; i++)
		list->nodes[i] = NULL;
	*count = list->nodes && list->found > list->room ? list->room : list->found;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct list list = { nodes, numNodes ? *numNodes : 0, 0 };
	struct node *node;

	if (!graph || !numNodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (node = graph->first; node; node = node_next(node))
		list_add(&list, node);
	return list_end(&list, numNodes);
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct list list = { rootNodes, numRootNodes ? *numRootNodes : 0, 0 };
	struct node *node;

	if (!graph || !numRootNodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (node = graph->first; node; node = node_next(node))
		if (!node->needs.count)
			list_add(&list, node);
	return list_end(&list, numRootNodes);
}

CUresult sim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct list froms = { from, numEdges ? *numEdges : 0, 0 }, tos = { to, froms.room, 0 };
	struct node *node;
	size_t i;

	if (!graph || !numEdges)
		return CUDA_ERROR_INVALID_VALUE;
	for (node = graph->first; node; node = node_next(node))
		for (i = 0; i < node->needs.count; i++) {
			list_add(&froms, node->needs.node[i]);
			list_add(&tos, node);
		}
	list_end(&tos, numEdges);
	return list_end(&froms, numEdges);
}

CUresult sim_cuGraphNodeGetDependencies(
	CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
	struct node *node = object_get(KIND_node, hNode);
	struct list list = { dependencies, numDependencies ? *numDependencies : 0, 0 };
	size_t i;

	if (!node || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < node->needs.count; i++)
		list_add(&list, node->needs.node[i]);
	return list_end(&list, numDependencies);
}

CUresult sim_cuGraphNodeGetDependentNodes(
	CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
	struct node *node = object_get(KIND_node, hNode), *each;
	struct list list = { dependentNodes, numDependentNodes ? *numDependentNodes : 0, 0 };
	size_t i;

	if (!node || !numDependentNodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (each = node->graph->first; each; each = node_next(each))
		for (i = 0; i < each->needs.count; i++)
			if (each->needs.node[i] == node)
				list_add(&list, each);
	return list_end(&list, numDependentNodes);
}

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	struct node *node = object_get(KIND_node, hNode);

	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

/* ---- parameters, by type ---- */

static struct node *node_of(CUgraphNode handle, CUgraphNodeType type)
{
	struct node *node = object_get(KIND_node, handle);

	return node && node->type == type ? node : NULL;
}

/* The instantiated copy of a node. */
static struct node *exec_node(CUgraphExec handle, CUgraphNode original, CUgraphNodeType type)
{
	struct exec *exec = object_get(KIND_exec, handle);
	struct node *node;

	for (node = exec ? exec->graph->first : NULL; node; node = node_next(node))
		if ((CUgraphNode)node->original == original && node->type == type)
			return node;
	return NULL;
}

#define GET(name, type, field, node_type) \
	CUresult sim_##name(CUgraphNode hNode, type *out) \
	{ \
		struct node *node = node_of(hNode, node_type); \
		if (!node || !out) \
			return CUDA_ERROR_INVALID_VALUE; \
		*out = node->is.field; \
		return CUDA_SUCCESS; \
	}
#define SET(name, type, field, node_type) \
	CUresult sim_##name(CUgraphNode hNode, const type *in) \
	{ \
		struct node *node = node_of(hNode, node_type); \
		if (!node || !in) \
			return CUDA_ERROR_INVALID_VALUE; \
		node->is.field = *in; \
		return CUDA_SUCCESS; \
	}
GET(cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS, kernel, CU_GRAPH_NODE_TYPE_KERNEL)
GET(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D, copy, CU_GRAPH_NODE_TYPE_MEMCPY)
GET(cuGraphMemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS, set, CU_GRAPH_NODE_TYPE_MEMSET)
GET(cuGraphHostNodeGetParams, CUDA_HOST_NODE_PARAMS, host, CU_GRAPH_NODE_TYPE_HOST)
GET(cuGraphMemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS, alloc, CU_GRAPH_NODE_TYPE_MEM_ALLOC)
GET(cuGraphMemFreeNodeGetParams, CUdeviceptr, free, CU_GRAPH_NODE_TYPE_MEM_FREE)
GET(cuGraphEventRecordNodeGetEvent, CUevent, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
GET(cuGraphEventWaitNodeGetEvent, CUevent, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
SET(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D, copy, CU_GRAPH_NODE_TYPE_MEMCPY)
SET(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS, set, CU_GRAPH_NODE_TYPE_MEMSET)
SET(cuGraphHostNodeSetParams, CUDA_HOST_NODE_PARAMS, host, CU_GRAPH_NODE_TYPE_HOST)

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct node *node = node_of(hNode, CU_GRAPH_NODE_TYPE_GRAPH);

	if (!node || !phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)node->is.child;
	return CUDA_SUCCESS;
}

static CUresult set_kernel(struct node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	if (!node || !params || !function_get(params->func))
		return CUDA_ERROR_INVALID_VALUE;
	node->is.kernel = *params;
	node->ns = kernel_ns(params->func);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return set_kernel(node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL), nodeParams);
}

CUresult sim_cuGraphKernelNodeSetParams(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS v2;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	v2 = kernel_v2(nodeParams);
	return sim_cuGraphKernelNodeSetParams_v2(hNode, &v2);
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct node *node = node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);

	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(nodeParams, &node->is.kernel, sizeof(*nodeParams));
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return set_kernel(exec_node(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL), nodeParams);
}

CUresult sim_cuGraphExecKernelNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS v2;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	v2 = kernel_v2(nodeParams);
	return sim_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &v2);
}
