/*
 * sim_graph_kept.c - nodes whose parameters are lists: batches of values, semaphores, conditions;
 * and the calls that set parameters of any node.
 */
#include "sim_graph.h"
#include "sim_module.h"
#include "sim_semaphore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists that a node keeps ---- */

CUresult node_keep(struct node *node, const void *items, unsigned count, size_t bytes)
{
	void *copy = malloc(count * bytes + 1);

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(copy, items, count * bytes);
	free(node->kept);
	node->kept = copy;
	node->kept_count = count;
	node->kept_bytes = bytes;
	return CUDA_SUCCESS;
}

/* ---- conditions ---- */

#define CONDITIONS 4096

static struct {
	struct graph *graph;
	unsigned value;
} conditions[CONDITIONS];
static _Atomic unsigned condition_count;

CUresult sim_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
	CUcontext ctx, unsigned int defaultLaunchValue, unsigned int flags)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	unsigned number;

	if (!pHandle_out || !graph || (ctx && !context_get(ctx)) ||
		flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	number = condition_count++;
	if (number >= CONDITIONS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	conditions[number].graph = graph;
	conditions[number].value = flags ? defaultLaunchValue : 0;
	*pHandle_out = number + 1;
	return CUDA_SUCCESS;
}

static unsigned bodies_of(const struct node *node)
{
	return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? node->kept_count : 0;
}

struct graph *condition_body(const struct node *node)
{
	struct graph *const *bodies = node->kept;
	unsigned value = node->is.condition.handle ? conditions[node->is.condition.handle - 1].value
						   : 0;
	unsigned which = value;

	if (node->is.condition.type == CU_GRAPH_COND_TYPE_IF)
		which = !value;
	else if (node->is.condition.type == CU_GRAPH_COND_TYPE_WHILE)
		which = value ? 0 : 1; /* nothing on this device changes the value: once */
	return which < node->kept_count ? bodies[which] : NULL;
}

bool node_copy_kept(struct node *copy, const struct node *original, bool inner)
{
	struct graph **bodies;
	unsigned i;

	if (!original->kept)
		return true;
	if (node_keep(copy, original->kept, original->kept_count, original->kept_bytes))
		return false;
	bodies = copy->kept;
	for (i = 0; i < bodies_of(copy); i++)
		bodies[i] = graph_clone(bodies[i], inner);
	return true;
}

void node_drop_kept(struct node *node)
{
	struct graph **bodies = node->kept;
	unsigned i;

	for (i = 0; i < bodies_of(node); i++)
		if (bodies[i])
			graph_delete(bodies[i]);
	free(node->kept);
	node->kept = NULL;
}

CUresult condition_set(struct node *node, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	struct graph *bodies[64];
	unsigned i;

	if (!params->handle || params->handle > CONDITIONS ||
		conditions[params->handle - 1].graph != node->graph || !params->size ||
		params->size > ARRAY_SIZE(bodies) ||
		(params->type == CU_GRAPH_COND_TYPE_IF && params->size > 2) ||
		(params->type == CU_GRAPH_COND_TYPE_WHILE && params->size > 1) ||
		(unsigned)params->type > CU_GRAPH_COND_TYPE_SWITCH)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < params->size; i++)
		bodies[i] = graph_new(false);
	node->is.condition.handle = params->handle;
	node->is.condition.type = params->type;
	if (node_keep(node, bodies, params->size, sizeof(*bodies)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	params->phGraph_out = node->kept;
	return CUDA_SUCCESS;
}

/* ---- batches and semaphores: the same calls for each ---- */

static struct node *add_node(CUgraph handle, CUgraphNodeType type, const CUgraphNode *needs,
	size_t count, CUgraphNode *out, CUresult *result)
{
	CUgraphNode empty;
	struct node *node;

	*result = sim_cuGraphAddEmptyNode(out ? &empty : NULL, handle, needs, count);
	if (*result != CUDA_SUCCESS)
		return NULL;
	node = (struct node *)empty;
	node->type = type;
	return node;
}

static CUresult finish(struct node *node, CUresult result, CUgraphNode *out)
{
	if (result == CUDA_SUCCESS)
		*out = (CUgraphNode)node;
	else
		node_delete(node);
	return result;
}

static struct node *node_of(CUgraphNode handle, CUgraphNodeType type)
{
	struct node *node = object_get(KIND_node, handle);

	return node && node->type == type ? node : NULL;
}

static struct node *exec_node(CUgraphExec handle, CUgraphNode original, CUgraphNodeType type)
{
	struct exec *exec = object_get(KIND_exec, handle);
	struct node *node = exec ? exec->graph->first : NULL;

	while (node && (CUgraphNode)node->original != original)
		node = node_next(node);
	return node && node->type == type ? node : NULL;
}

static CUresult set_batch(struct node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
	CUresult result = node && params && !params->flags
				  ? batch_check(params->paramArray, params->count)
				  : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	node->is.batch_context = params->ctx;
	return node_keep(node, params->paramArray, params->count, sizeof(*params->paramArray));
}

static CUresult get_batch(struct node *node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
	if (!node || !out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ node->is.batch_context, node->kept_count,
		node->kept, 0 };
	return CUDA_SUCCESS;
}

#define LIST_CALLS(add, get, set, exec_set, params_type, node_type, set_node, get_node) \
	CUresult sim_##add(CUgraphNode *phGraphNode, CUgraph hGraph, \
		const CUgraphNode *dependencies, size_t numDependencies, \
		const params_type *nodeParams) \
	{ \
		CUresult result; \
		struct node *node = add_node(hGraph, node_type, dependencies, numDependencies, \
			phGraphNode, &result); \
		return node ? finish(node, set_node(node, nodeParams), phGraphNode) : result; \
	} \
	CUresult sim_##get(CUgraphNode hNode, params_type *out) \
	{ \
		return get_node(node_of(hNode, node_type), out); \
	} \
	CUresult sim_##set(CUgraphNode hNode, const params_type *nodeParams) \
	{ \
		return set_node(node_of(hNode, node_type), nodeParams); \
	} \
	CUresult sim_##exec_set( \
		CUgraphExec hGraphExec, CUgraphNode hNode, const params_type *nodeParams) \
	{ \
		return set_node(exec_node(hGraphExec, hNode, node_type), nodeParams); \
	}

#define SEMAPHORES(direction, params_type) \
	static CUresult set_##direction(struct node *node, const params_type *params) \
	{ \
		struct semaphore_op ops[SEMAPHORES_MOST]; \
		CUresult result = node && params \
					  ? semaphores_read(params->extSemArray, \
						    params->paramsArray, \
						    sizeof(*params->paramsArray), \
						    params->numExtSems, ops) \
					  : CUDA_ERROR_INVALID_VALUE; \
		return result == CUDA_SUCCESS \
			       ? node_keep(node, ops, params->numExtSems, sizeof(*ops)) \
			       : result; \
	} \
	/* What is kept is shorter than what was passed: only the number comes back. */ \
	static CUresult get_##direction(struct node *node, params_type *out) \
	{ \
		if (!node || !out) \
			return CUDA_ERROR_INVALID_VALUE; \
		*out = (params_type){ .numExtSems = node->kept_count }; \
		return CUDA_SUCCESS; \
	}
SEMAPHORES(signal, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS)
SEMAPHORES(wait, CUDA_EXT_SEM_WAIT_NODE_PARAMS)

LIST_CALLS(cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
	cuGraphExecBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS,
	CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, set_batch, get_batch)
LIST_CALLS(cuGraphAddExternalSemaphoresSignalNode, cuGraphExternalSemaphoresSignalNodeGetParams,
	cuGraphExternalSemaphoresSignalNodeSetParams,
	cuGraphExecExternalSemaphoresSignalNodeSetParams, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
	CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, set_signal, get_signal)
LIST_CALLS(cuGraphAddExternalSemaphoresWaitNode, cuGraphExternalSemaphoresWaitNodeGetParams,
	cuGraphExternalSemaphoresWaitNodeSetParams, cuGraphExecExternalSemaphoresWaitNodeSetParams,
	CUDA_EXT_SEM_WAIT_NODE_PARAMS, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, set_wait, get_wait)

CUresult kept_add(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	size_t numDependencies, CUgraphNodeParams *params)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
	struct node *node;
	CUresult result;

	switch ((int)params->type) {
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return sim_cuGraphAddEventWaitNode(phGraphNode, hGraph, dependencies,
			numDependencies, params->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return sim_cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies,
			numDependencies, params->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		batch = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ params->memOp.ctx, params->memOp.count,
			params->memOp.paramArray, params->memOp.flags };
		return sim_cuGraphAddBatchMemOpNode(
			phGraphNode, hGraph, dependencies, numDependencies, &batch);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
		return sim_cuGraphAddExternalSemaphoresSignalNode(phGraphNode, hGraph, dependencies,
			numDependencies, (void *)&params->extSemSignal);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return sim_cuGraphAddExternalSemaphoresWaitNode(phGraphNode, hGraph, dependencies,
			numDependencies, (void *)&params->extSemWait);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		node = add_node(hGraph, CU_GRAPH_NODE_TYPE_CONDITIONAL, dependencies,
			numDependencies, phGraphNode, &result);
		return node ? finish(node, condition_set(node, &params->conditional), phGraphNode)
			    : result;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- events and children ---- */

static CUresult set_event(struct node *node, CUevent event)
{
	if (!node || !object_get(KIND_event, event))
		return CUDA_ERROR_INVALID_VALUE;
	node->is.event = event;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event(node_of(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult sim_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_event(node_of(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

CUresult sim_cuGraphExecEventRecordNodeSetEvent(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	return set_event(exec_node(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult sim_cuGraphExecEventWaitNodeSetEvent(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	return set_event(exec_node(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

CUresult sim_cuGraphExecChildGraphNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	struct node *node = exec_node(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_GRAPH);
	struct graph *child = object_get(KIND_graph, childGraph);

	if (!node || !child || child->count != node->is.child->count)
		return CUDA_ERROR_INVALID_VALUE;
	graph_delete(node->is.child);
	node->is.child = graph_clone(child, true);
	return CUDA_SUCCESS;
}

/* ---- any node ---- */

static CUresult set_any(struct node *node, const CUgraphNodeParams *params)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS batch;

	if (!node || !params || node->type != params->type)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		if (!function_get(params->kernel.func))
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&node->is.kernel, &params->kernel, sizeof(node->is.kernel));
		node->ns = function_get(params->kernel.func)->ns;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		node->is.copy = params->memcpy.copyParams;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		memcpy(&node->is.set, &params->memset, sizeof(node->is.set));
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_HOST:
		node->is.host = (CUDA_HOST_NODE_PARAMS){ params->host.fn, params->host.userData };
		return params->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return set_event(node, params->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return set_event(node, params->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		batch = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ params->memOp.ctx, params->memOp.count,
			params->memOp.paramArray, params->memOp.flags };
		return set_batch(node, &batch);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
		return set_signal(node, (const void *)&params->extSemSignal);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return set_wait(node, (const void *)&params->extSemWait);
	default:
		return CUDA_ERROR_NOT_SUPPORTED; /* memory and conditions are made once for all */
	}
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return set_any(object_get(KIND_node, hNode), nodeParams);
}

CUresult sim_cuGraphExecNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return nodeParams ? set_any(exec_node(hGraphExec, hNode, nodeParams->type), nodeParams)
			  : CUDA_ERROR_INVALID_VALUE;
}

/* ---- attributes of kernels: kept for whoever asks ---- */

#define ATTRIBUTES 32

CUresult sim_cuGraphKernelNodeSetAttribute(
	CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
	struct node *node = node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
	CUkernelNodeAttrValue none[ATTRIBUTES];

	if (!node || !value || (unsigned)attr >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	memset(none, 0, sizeof(none));
	if (!node->kept && node_keep(node, none, ATTRIBUTES, sizeof(*none)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	((CUkernelNodeAttrValue *)node->kept)[attr] = *value;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetAttribute(
	CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
	struct node *node = node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);

	if (!node || !value_out || (unsigned)attr >= ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	memset(value_out, 0, sizeof(*value_out));
	if (node->kept)
		*value_out = ((CUkernelNodeAttrValue *)node->kept)[attr];
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct node *to = node_of(dst, CU_GRAPH_NODE_TYPE_KERNEL);
	struct node *from = node_of(src, CU_GRAPH_NODE_TYPE_KERNEL);

	if (!to || !from)
		return CUDA_ERROR_INVALID_VALUE;
	return from->kept ? node_keep(to, from->kept, from->kept_count, from->kept_bytes)
			  : CUDA_SUCCESS;
}

CUresult sim_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	FILE *file = graph && path ? fopen(path, "we") : NULL;
	struct node *node;
	size_t i;

	(void)flags;
	if (!graph || !path)
		return CUDA_ERROR_INVALID_VALUE;
	if (!file)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(file, "digraph dot {\n");
	for (node = graph->first; node; node = node_next(node)) {
		fprintf(file, "\"%p\" [label=\"type %d\"]\n", (void *)node, (int)node->type);
		for (i = 0; i < node->needs.count; i++)
			fprintf(file, "\"%p\" -> \"%p\"\n", (void *)node->needs.node[i],
				(void *)node);
	}
	fprintf(file, "}\n");
	return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
