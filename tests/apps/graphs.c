/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * graphs.c - stories of memory that graphs allocate: `graphs STORY`, under a limit of 64 MiB. What is charged is read as
 * the program sees it, and compared with what the driver says it keeps for graphs. tests/t/graphs.bats looks at the report.
 *
 * Status 1, with the line, when a check fails.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define LIMIT (64 * MiB)

static CUdevice device;
static CUcontext context;

static uint64_t charged(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	IS(total, LIMIT);
	return total - available;
}

/* What the driver keeps for graphs is what is charged, and so much of it is in use. */
static void holds(uint64_t bytes, uint64_t used)
{
	cuuint64_t reserved, in_use;

	OK(cuCtxSynchronize());
	OK(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
	OK(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &in_use));
	IS(reserved, bytes);
	IS(in_use, used);
	IS(charged(), bytes);
}

static CUDA_MEM_ALLOC_NODE_PARAMS wanted(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){ .bytesize = bytes,
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } } };
}

/* A graph that takes so much, and gives it back or not. */
static CUgraph graph_of(size_t bytes, int frees, CUdeviceptr *address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = wanted(bytes);
	CUgraphNode node, end;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	if (frees)
		OK(cuGraphAddMemFreeNode(&end, graph, &node, 1, alloc.dptr));
	if (address)
		*address = alloc.dptr;
	return graph;
}

/* ---- memory that is freed when the graph is launched again ---- */

static void auto_free(void)
{
	CUgraph graph = graph_of(16 * MiB, 0, NULL);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH };
	CUgraphExec exec, other;

	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	holds(0, 0);
	for (int i = 0; i < 5; i++) {
		OK(cuGraphLaunch(exec, NULL));
		holds(16 * MiB, 16 * MiB); /* not twice, not five times */
	}
	/* It is in use: there is nothing to trim. */
	OK(cuDeviceGraphMemTrim(device));
	holds(16 * MiB, 16 * MiB);
	/* Another one of the same graph has memory of its own. */
	OK(cuGraphInstantiateWithParams(&other, graph, &params));
	OK(cuGraphLaunch_ptsz(other, NULL));
	holds(32 * MiB, 32 * MiB);
	OK(cuGraphLaunch(exec, NULL));
	holds(32 * MiB, 32 * MiB);
	OK(cuGraphExecDestroy(other));
	holds(32 * MiB, 16 * MiB); /* kept for the next launch */
	OK(cuDeviceGraphMemTrim(device));
	holds(16 * MiB, 16 * MiB);
	OK(cuGraphExecDestroy(exec));
	if (getenv("LEAVE"))
		return;
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
	OK(cuGraphDestroy(graph));
}

/* Right at the limit: what it has is enough for the next launch, another graph finds nothing. */
static void auto_free_at_the_limit(void)
{
	CUgraph graph = graph_of(LIMIT, 0, NULL), small = graph_of(2 * MiB, 1, NULL);
	CUgraphExec exec, other;
	CUdeviceptr pointer = POISON;

	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	OK(cuGraphInstantiateWithFlags(&other, small, 0));
	for (int i = 0; i < 3; i++) {
		OK(cuGraphLaunch(exec, NULL));
		holds(LIMIT, LIMIT);
		IS(cuGraphLaunch(other, NULL), OOM);
		IS(cuMemAlloc_v2(&pointer, 1), OOM);
		IS(pointer, POISON);
	}
	OK(cuGraphExecDestroy(exec));
	/* Kept, and in nobody's use: it serves the other one. */
	OK(cuGraphLaunch(other, NULL));
	holds(LIMIT, 0);
	IS(cuMemAlloc_v2(&pointer, 1), OOM);
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
	OK(cuMemAlloc_v2(&pointer, LIMIT));
	IS(cuGraphLaunch(other, NULL), OOM);
	OK(cuMemFree_v2(pointer));
}

/*
 * The driver refuses a launch, for contexts filled the device that count against no limit: what the launch before left is
 * given up all the same, and so the next one takes all of it anew. The device has 96 MiB, a context takes 16.
 */
static void launch_fails(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = wanted(16 * MiB);
	CUgraph graph = graph_of(16 * MiB, 1, NULL);
	CUcontext others[4];
	CUdeviceptr pointer;
	CUgraphNode node;
	CUgraphExec exec;

	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuDeviceGraphMemTrim(device));
	holds(16 * MiB, 16 * MiB);
	for (int i = 0; i < 4; i++)
		OK(cuCtxCreate_v2(&others[i], 0, device));
	OK(cuCtxSetCurrent(context));
	IS(cuGraphLaunch(exec, NULL), OOM);
	for (int i = 0; i < 4; i++)
		OK(cuCtxDestroy_v2(others[i]));
	OK(cuCtxSetCurrent(context));
	holds(16 * MiB, 0);
	OK(cuMemAlloc_v2(&pointer, 40 * MiB));
	IS(cuGraphLaunch(exec, NULL), OOM);
	OK(cuMemFree_v2(pointer));
	OK(cuGraphLaunch(exec, NULL));
	holds(32 * MiB, 16 * MiB);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
}

/* Without it a second launch is the driver's to refuse, until somebody freed what the first one left. */
static void freed_by_hand(void)
{
	CUdeviceptr address;
	CUgraph graph = graph_of(8 * MiB, 0, &address);
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	holds(8 * MiB, 8 * MiB);
	OK(cuMemFreeAsync(address, NULL));
	holds(8 * MiB, 0);
	OK(cuGraphLaunch(exec, NULL));
	holds(8 * MiB, 8 * MiB);
	OK(cuMemFree_v2(address));
	IS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	holds(8 * MiB, 0);
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
	OK(cuGraphLaunch(exec, NULL));
	holds(8 * MiB, 8 * MiB);
}

/* ---- taken before the first launch ---- */

static void uploaded(void)
{
	CUgraph graph = graph_of(24 * MiB, 1, NULL), large = graph_of(48 * MiB, 0, NULL);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };
	CUgraphExec exec, at_once = (CUgraphExec)POISON;
	CUdeviceptr pointer;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	holds(0, 0);
	OK(cuGraphUpload(exec, NULL));
	holds(24 * MiB, 0);
	OK(cuGraphUpload(exec, NULL));
	OK(cuGraphLaunch(exec, NULL));
	holds(24 * MiB, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	/* Instantiated and uploaded in one call. */
	OK(cuMemAlloc_v2(&pointer, 24 * MiB));
	params.hErrNode_out = (CUgraphNode)POISON;
	IS(cuGraphInstantiateWithParams(&at_once, large, &params), OOM);
	IS(cuGraphInstantiateWithParams_ptsz(&at_once, large, &params), OOM);
	IS(at_once, POISON);
	IS(params.hErrNode_out, POISON);
	IS(charged(), 24 * MiB);
	OK(cuMemFree_v2(pointer));
	OK(cuGraphInstantiateWithParams(&at_once, large, &params));
	holds(48 * MiB, 0);
	OK(cuGraphLaunch(at_once, NULL));
	holds(48 * MiB, 48 * MiB);
	OK(cuGraphExecDestroy(at_once));
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
}

/* ---- every call that makes a node ---- */

typedef CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params);

static CUresult by_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params)
{
	return cuGraphAddNode(node, graph, after, after != NULL, params);
}

static CUresult by_node_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(node, graph, after, NULL, after != NULL, params);
}

/* Of drivers from 13.4 on; where the headers are as new it is under the limit like the others. */
static __typeof__(cuGraphAddNode_v2) *newest;

static CUresult by_node_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params)
{
	return newest(node, graph, after, NULL, after != NULL, params);
}

static CUresult by_type(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { .poolProps = params->alloc.poolProps,
		.bytesize = params->alloc.bytesize };
	CUresult result;

	if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return cuGraphAddMemFreeNode(node, graph, after, after != NULL, params->free.dptr);
	result = cuGraphAddMemAllocNode(node, graph, after, after != NULL, &alloc);
	params->alloc.dptr = alloc.dptr;
	return result;
}

static void nodes_of(add_node *add)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = wanted(LIMIT + 1);
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphNodeParams end = { .type = CU_GRAPH_NODE_TYPE_MEM_FREE };
	CUgraphNodeParams none = { .type = CU_GRAPH_NODE_TYPE_EMPTY };
	CUgraphNode node = (CUgraphNode)POISON, last;
	CUgraphExec exec;
	CUgraph graph;
	size_t count;

	OK(cuGraphCreate(&graph, 0));
	params.alloc.poolProps = alloc.poolProps;
	params.alloc.bytesize = alloc.bytesize;
	IS(add(&node, graph, NULL, &params), OOM);
	IS(node, POISON);
	IS(params.alloc.dptr, 0);
	params.alloc.bytesize = 12 * MiB;
	OK(add(&node, graph, NULL, &params));
	end.free.dptr = params.alloc.dptr;
	OK(add(&last, graph, &node, &end));
	if (add != by_type)
		OK(add(&last, graph, NULL, &none));
	OK(cuGraphGetNodes(graph, NULL, &count));
	IS(count, add == by_type ? 2 : 3);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	holds(12 * MiB, 0);
	/* A second one of them fits, but not beside 56 MiB. */
	params.alloc.bytesize = 12 * MiB;
	OK(add(&node, graph, NULL, &params));
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
	OK(cuGraphDestroy(graph));
}

static void nodes(void)
{
	nodes_of(by_type);
	nodes_of(by_node);
	nodes_of(by_node_v2);
	newest = (__typeof__(newest))dlsym(RTLD_DEFAULT, "cuGraphAddNode_v3");
	if (newest && CUDA_VERSION >= 13040)
		nodes_of(by_node_v3);
}

/* One graph in another: what the inner one wants is wanted by the outer one. */
static void inner(void)
{
	CUgraph child = graph_of(40 * MiB, 1, NULL), outer;
	CUgraphExec exec;
	CUgraphNode node;
	CUdeviceptr pointer;

	OK(cuGraphCreate(&outer, 0));
	OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, child));
	OK(cuGraphInstantiateWithFlags(&exec, outer, 0));
	OK(cuMemAlloc_v2(&pointer, 30 * MiB));
	IS(cuGraphLaunch(exec, NULL), OOM);
	IS(cuGraphUpload(exec, NULL), OOM);
	IS(charged(), 30 * MiB);
	OK(cuMemFree_v2(pointer));
	OK(cuGraphExecDestroy(exec));
}

/* Two streams captured at once, one by its per-thread twin. */
static void captured(void)
{
	CUstream stream;
	CUdeviceptr first, second = POISON;
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAllocAsync(&first, 20 * MiB, stream));
	IS(cuMemAllocAsync_ptsz(&second, LIMIT + 1, stream), OOM);
	IS(second, POISON);
	OK(cuMemAllocAsync_ptsz(&second, 20 * MiB, stream));
	OK(cuMemFreeAsync(first, stream));
	IS(charged(), 0);
	OK(cuStreamEndCapture(stream, &graph));
	IS(charged(), 0);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	holds(40 * MiB, 20 * MiB);
	OK(cuMemFreeAsync_ptsz(second, stream));
	holds(40 * MiB, 0);
	OK(cuGraphLaunch(exec, stream));
	holds(40 * MiB, 20 * MiB);
	OK(cuMemFree_v2(second));
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	holds(0, 0);
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
#define S(name) { #name, name }
	S(auto_free), S(auto_free_at_the_limit), S(launch_fails), S(freed_by_hand), S(uploaded), S(nodes), S(inner), S(captured),
#undef S
};

int main(int argc, char **argv)
{
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	for (unsigned i = 0; argc == 2 && i < sizeof(stories) / sizeof(stories[0]); i++) {
		if (strcmp(stories[i].name, argv[1]) == 0) {
			stories[i].tell();
			return 0;
		}
	}
	return 2;
}
