/*
 * sim_graph_more.c - graphs: edges with data, changes to executables, and user objects.
 */
#include "sim_graph.h"

#include <string.h>

/* ---- edges: all are plain ---- */

static void plain(CUgraphEdgeData *data, const size_t *count)
{
	if (data)
		memset(data, 0, *count * sizeof(*data));
}

CUresult sim_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *edgeData, size_t *numEdges)
{
	CUresult result = sim_cuGraphGetEdges(hGraph, from, to, numEdges);

	if (result == CUDA_SUCCESS)
		plain(edgeData, numEdges);
	return result;
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
	CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	CUresult result = sim_cuGraphNodeGetDependencies(hNode, dependencies, numDependencies);

	if (result == CUDA_SUCCESS)
		plain(edgeData, numDependencies);
	return result;
}

CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
	CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	CUresult result =
		sim_cuGraphNodeGetDependentNodes(hNode, dependentNodes, numDependentNodes);

	if (result == CUDA_SUCCESS)
		plain(edgeData, numDependentNodes);
	return result;
}

CUresult sim_cuGraphRemoveDependencies(
	CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	struct node *node;
	size_t i;

	if (!object_get(KIND_graph, hGraph) || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < numDependencies; i++) {
		node = object_get(KIND_node, to[i]);
		if (!node || !tails_remove(&node->needs, (struct node *)from[i]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	(void)edgeData;
	return sim_cuGraphRemoveDependencies(hGraph, from, to, numDependencies);
}

/* ---- executables ---- */

static struct node *exec_node(CUgraphExec handle, CUgraphNode original)
{
	struct exec *exec = object_get(KIND_exec, handle);
	struct node *node = exec ? exec->graph->first : NULL;

	while (node && (CUgraphNode)node->original != original)
		node = node_next(node);
	return node;
}

CUresult sim_cuGraphNodeSetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct node *node = exec_node(hGraphExec, hNode);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	node->disabled = !isEnabled;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	struct node *node = exec_node(hGraphExec, hNode);

	if (!node || !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	*isEnabled = !node->disabled;
	return CUDA_SUCCESS;
}

#define EXEC_SET(name, params_type, field, node_type, ...) \
	CUresult sim_##name( \
		CUgraphExec hGraphExec, CUgraphNode hNode, const params_type *params __VA_ARGS__) \
	{ \
		struct node *node = exec_node(hGraphExec, hNode); \
		if (!node || node->type != node_type || !params) \
			return CUDA_ERROR_INVALID_VALUE; \
		node->is.field = *params; \
		return CUDA_SUCCESS; \
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
EXEC_SET(cuGraphExecMemcpyNodeSetParams, CUDA_MEMCPY3D, copy, CU_GRAPH_NODE_TYPE_MEMCPY, ,
	CUcontext ctx)
EXEC_SET(cuGraphExecMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS, set, CU_GRAPH_NODE_TYPE_MEMSET, ,
	CUcontext ctx)
EXEC_SET(cuGraphExecHostNodeSetParams, CUDA_HOST_NODE_PARAMS, host, CU_GRAPH_NODE_TYPE_HOST, )
#pragma GCC diagnostic pop

/* The same shape: the same types in the same order, with as many edges. */
static struct node *difference(const struct graph *a, const struct graph *b)
{
	struct node *x, *y;

	for (x = a->first, y = b->first; x && y; x = node_next(x), y = node_next(y))
		if (x->type != y->type || x->needs.count != y->needs.count)
			return y;
	return y;
}

/* Memory of a launch stays allocated over an update. */
static void keep_memory(const struct graph *before, struct graph *after)
{
	struct node *x, *y;

	for (x = before->first, y = after->first; x && y; x = node_next(x), y = node_next(y))
		y->live = x->live;
}

CUresult sim_cuGraphExecUpdate_v2(
	CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	struct exec *exec = object_get(KIND_exec, hGraphExec);
	struct graph *graph = object_get(KIND_graph, hGraph), *clone;
	struct node *different;

	if (!exec || !graph || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	*resultInfo = (CUgraphExecUpdateResultInfo){ .result = CU_GRAPH_EXEC_UPDATE_SUCCESS };
	different = difference(exec->graph, graph);
	if (different || exec->graph->count != graph->count) {
		resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		resultInfo->errorNode = (CUgraphNode)different;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	clone = graph_clone(graph, true);
	if (!clone)
		return CUDA_ERROR_OUT_OF_MEMORY;
	keep_memory(exec->graph, clone);
	graph_delete(exec->graph);
	exec->graph = clone;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
	CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = { 0 };
	CUresult result = updateResult_out ? sim_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info)
					   : CUDA_ERROR_INVALID_VALUE;

	if (updateResult_out)
		*updateResult_out = info.result;
	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	return result;
}

/* ---- user objects ---- */

CUresult sim_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
	unsigned int initialRefcount, unsigned int flags)
{
	struct user *user;

	if (!object_out || !destroy || !initialRefcount ||
		flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	user = object_new(KIND_user, NULL);
	if (!user)
		return CUDA_ERROR_OUT_OF_MEMORY;
	user->pointer = ptr;
	user->destroy = destroy;
	user->references = initialRefcount;
	*object_out = (CUuserObject)user;
	return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct user *user = object_get(KIND_user, object);

	if (!user || !count)
		return CUDA_ERROR_INVALID_VALUE;
	user->references += count;
	return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct user *user = object_get(KIND_user, object);

	if (!user || !count || count > user->references)
		return CUDA_ERROR_INVALID_VALUE;
	user->references -= count;
	if (user->references)
		return CUDA_SUCCESS;
	user->destroy(user->pointer);
	object_delete(user);
	return CUDA_SUCCESS;
}

/* Graphs keep their references to the end; nothing looks at them before. */
CUresult sim_cuGraphRetainUserObject(
	CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
	if (!object_get(KIND_graph, graph) || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	return flags ? CUDA_SUCCESS : sim_cuUserObjectRetain(object, count);
}

CUresult sim_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	if (!object_get(KIND_graph, graph))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuUserObjectRelease(object, count);
}
