/*
 * sim_graph.c - graphs: life, copies, instantiation and launch.
 */
#include "sim_graph.h"
#include "sim_copy.h"
#include "sim_module.h"
#include "sim_semaphore.h"

#include <stdlib.h>
#include <string.h>

/* ---- sets of nodes ---- */

bool tails_set(struct tails *tails, struct node *const *nodes, size_t count)
{
	struct node **copy = calloc(count ? count : 1, sizeof(*copy));

	if (!copy)
		return false;
	if (count)
		memcpy(copy, nodes, count * sizeof(*copy));
	free(tails->node);
	tails->node = copy;
	tails->count = count;
	return true;
}

bool tails_add(struct tails *tails, struct node *node)
{
	struct node **more;
	size_t i;

	for (i = 0; i < tails->count; i++)
		if (tails->node[i] == node)
			return true;
	more = realloc(tails->node, (tails->count + 1) * sizeof(*more));
	if (!more)
		return false;
	more[tails->count++] = node;
	tails->node = more;
	return true;
}

void tails_drop(struct tails *tails)
{
	free(tails->node);
	*tails = (struct tails){ NULL, 0 };
}

bool tails_remove(struct tails *tails, const struct node *node)
{
	size_t i;

	for (i = 0; i < tails->count; i++)
		if (tails->node[i] == node) {
			tails->node[i] = tails->node[--tails->count];
			return true;
		}
	return false;
}

/* ---- life ---- */

struct graph *graph_new(bool inner)
{
	return object_new(inner ? KIND_inner : KIND_graph, NULL);
}

struct node *node_new(
	struct graph *graph, CUgraphNodeType type, struct node *const *needs, size_t count)
{
	struct node *node = object_new(KIND_node, NULL);

	if (!node || !tails_set(&node->needs, needs, count))
		return NULL;
	node->graph = graph;
	node->type = type;
	if (graph->last)
		graph->last->object.next = &node->object;
	else
		graph->first = node;
	graph->last = node;
	graph->count++;
	return node;
}

static void node_drop(struct node *node)
{
	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && node->is.child)
		graph_delete(node->is.child);
	node_drop_kept(node);
	tails_drop(&node->needs);
	object_delete(node);
}

void node_delete(struct node *node)
{
	struct graph *graph = node->graph;
	struct node *each, *before = NULL;

	for (each = graph->first; each; each = node_next(each)) {
		tails_remove(&each->needs, node);
		if (node_next(each) == node)
			before = each;
	}
	if (before)
		before->object.next = node->object.next;
	else
		graph->first = node_next(node);
	if (graph->last == node)
		graph->last = before;
	graph->count--;
	node_drop(node);
}

void graph_delete(struct graph *graph)
{
	struct node *node;

	while ((node = graph->first)) {
		graph->first = node_next(node);
		node_drop(node);
	}
	object_delete(graph);
}

static struct node *clone_of(const struct graph *clone, const struct node *original)
{
	struct node *node;

	for (node = clone->first; node; node = node_next(node))
		if (node->original == original)
			return node;
	return NULL;
}

static bool clone_node(struct graph *clone, struct node *original, bool inner)
{
	struct node *node = node_new(clone, original->type, NULL, 0);

	if (!node)
		return false;
	node->original = original;
	node->ns = original->ns;
	node->device = original->device;
	node->disabled = original->disabled;
	memcpy(&node->is, &original->is, sizeof(node->is));
	if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
		node->is.child = graph_clone(original->is.child, inner);
	return node_copy_kept(node, original, inner);
}

struct graph *graph_clone(const struct graph *graph, bool inner)
{
	struct graph *clone = graph_new(inner);
	struct node *node, *copy;
	size_t i;

	for (node = graph->first; clone && node; node = node_next(node))
		if (!clone_node(clone, node, inner)) {
			graph_delete(clone);
			return NULL;
		}
	for (copy = clone ? clone->first : NULL; copy; copy = node_next(copy))
		for (i = 0; i < copy->original->needs.count; i++)
			tails_add(&copy->needs, clone_of(clone, copy->original->needs.node[i]));
	return clone;
}

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)graph_new(false);
	if (!*phGraph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(*phGraph, GIVEN_graph);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph)
{
	struct graph *graph = object_get(KIND_graph, hGraph);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	graph_delete(graph);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct graph *graph = object_get(KIND_graph, originalGraph);

	if (!phGraphClone || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraphClone = (CUgraph)graph_clone(graph, false);
	if (!*phGraphClone)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(*phGraphClone, GIVEN_graph);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeFindInClone(
	CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	struct graph *clone = object_get(KIND_graph, hClonedGraph);
	struct node *node = clone ? clone_of(clone, (struct node *)hOriginalNode) : NULL;

	if (!phNode || !node)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* ---- instantiate ---- */

static CUresult instantiate(CUgraphExec *phGraphExec, CUgraph hGraph, cuuint64_t flags)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct exec *exec;

	if (!phGraphExec || !graph || flags & ~(cuuint64_t)15)
		return CUDA_ERROR_INVALID_VALUE;
	exec = object_new(KIND_exec, NULL);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->graph = graph_clone(graph, true);
	exec->flags = flags;
	if (!exec->graph) {
		object_delete(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	object_give(exec, GIVEN_graph_exec);
	*phGraphExec = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiateWithFlags(
	CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	return instantiate(phGraphExec, hGraph, flags);
}

CUresult sim_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
	char *logBuffer, size_t bufferSize)
{
	CUresult result = instantiate(phGraphExec, hGraph, 0);

	if (result == CUDA_SUCCESS && phErrorNode)
		*phErrorNode = NULL;
	if (result == CUDA_SUCCESS && logBuffer && bufferSize)
		*logBuffer = 0;
	return result;
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return sim_cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult sim_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	struct exec *exec = object_get(KIND_exec, hGraph);
	struct stream *stream;
	CUresult result = exec ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	return result == CUDA_SUCCESS ? graph_memory_upload(exec) : result;
}

CUresult sim_cuGraphInstantiateWithParams(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUgraphExec made;
	CUresult result = instantiateParams && phGraphExec
				  ? instantiate(&made, hGraph, instantiateParams->flags)
				  : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS && instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
		result = sim_cuGraphUpload(made, instantiateParams->hUploadStream);
		if (result != CUDA_SUCCESS)
			sim_cuGraphExecDestroy(made);
	}
	if (result == CUDA_SUCCESS)
		*phGraphExec = made;
	if (instantiateParams) {
		instantiateParams->hErrNode_out = NULL;
		instantiateParams->result_out = result == CUDA_SUCCESS
							? CUDA_GRAPH_INSTANTIATE_SUCCESS
							: CUDA_GRAPH_INSTANTIATE_ERROR;
	}
	return result;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct exec *exec = object_get(KIND_exec, hGraphExec);

	if (!exec || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* ---- launch ---- */

static CUresult run_node(struct node *node)
{
	switch ((int)node->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_box(&node->is.copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return set_rect(node->is.set.dst, node->is.set.pitch, node->is.set.value,
			node->is.set.elementSize, node->is.set.width, node->is.set.height);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return batch_run(NULL, node->kept, node->kept_count);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return semaphores_run(node->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, node->kept,
			node->kept_count);
	default:
		return CUDA_SUCCESS;
	}
}

static uint64_t run(struct graph *graph, CUresult *result);

static uint64_t duration(struct node *node, CUresult *result)
{
	switch ((int)node->type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sim_copy_ns(copy_box_bytes(&node->is.copy));
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return sim_copy_ns(
			node->is.set.width * node->is.set.height * node->is.set.elementSize);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return run(node->is.child, result);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return condition_body(node) ? run(condition_body(node), result) : 0;
	default:
		return node->ns;
	}
}

/* Move the bytes of all nodes, and say how long the longest path takes. */
static uint64_t run(struct graph *graph, CUresult *result)
{
	uint64_t longest = 0, start;
	struct node *node;
	size_t i;

	for (node = graph->first; node && *result == CUDA_SUCCESS; node = node_next(node)) {
		for (start = 0, i = 0; i < node->needs.count; i++)
			start = larger(start, node->needs.node[i]->done);
		node->done = start;
		if (node->disabled)
			continue;
		*result = run_node(node);
		start = duration(node, result);
		node->done = start > SIM_NEVER - node->done ? SIM_NEVER : node->done + start;
		longest = larger(longest, node->done);
	}
	return longest;
}

static void call_hosts(struct graph *graph, struct stream *stream)
{
	struct node *node;

	for (node = graph->first; node; node = node_next(node)) {
		if (node->type == CU_GRAPH_NODE_TYPE_HOST && !node->disabled)
			host_call(stream, node->is.host.fn, node->is.host.userData);
		else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
			call_hosts(node->is.child, stream);
	}
}

CUresult sim_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct exec *exec = object_get(KIND_exec, hGraph);
	struct stream *stream;
	struct node *node;
	CUresult result = exec ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_GRAPH, &node, &result)) {
		if (node)
			node->is.child = graph_clone(exec->graph, false);
		return result;
	}
	result = graph_memory_before(exec);
	if (result != CUDA_SUCCESS)
		return result;
	stream_append(stream, run(exec->graph, &result));
	call_hosts(exec->graph, stream);
	graph_memory_after(exec);
	count_one(&usage_process()->graph_launches);
	return result;
}
