/*
 * sim_graph.c - capture, graphs and the memory they own.
 */
#include "sim_check.h"

static CUfunction kernel;

static void launch(CUstream stream)
{
	OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static size_t nodes_of(CUgraph graph)
{
	size_t count;

	OK(cuGraphGetNodes(graph, NULL, &count));
	return count;
}

static size_t graph_memory(CUgraphMem_attribute attribute)
{
	cuuint64_t value;

	OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
	return value;
}

/* Two streams, forked and joined by events: 4 kernels, 4 edges. */
static void two_streams(CUstream a, CUstream b)
{
	CUstreamCaptureStatus status;
	CUgraphExec exec;
	CUgraph graph;
	CUevent fork, join;
	size_t edges;

	OK(cuEventCreate(&fork, 0));
	OK(cuEventCreate(&join, 0));
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(a);
	OK(cuEventRecord(fork, a));
	OK(cuStreamWaitEvent(b, fork, 0));
	launch(a);
	launch(b);
	OK(cuStreamIsCapturing(b, &status));
	SAME(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	SAME(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
	OK(cuEventRecord(join, b));
	OK(cuStreamWaitEvent(a, join, 0));
	launch(a);
	OK(cuStreamEndCapture(a, &graph));
	SAME(nodes_of(graph), 4);
	OK(cuGraphGetEdges(graph, NULL, NULL, &edges));
	SAME(edges, 4);
	OK(cuStreamIsCapturing(b, &status));
	SAME(status, CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphExecDestroy(exec));
	SAME(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
}

/* Unsafe calls spoil a capture that is not relaxed. */
static void spoiled(CUstream a)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph graph;
	CUdeviceptr p;

	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuMemAlloc_v2(&p, 100));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	SAME(cuMemAlloc_v2(&p, 100), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	SAME(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, a, NULL, NULL),
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	SAME(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	TRUE(graph == NULL);
	OK(cuMemFree_v2(p));
	SAME(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAME(cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	SAME(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAME(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	SAME(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	SAME(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

/* Captured allocations are the graph's: bytes come with the launch and go with the executable. */
static void memory(CUstream a)
{
	size_t before, available, total;
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr p;

	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAllocAsync(&p, MIB, a));
	OK(cuStreamEndCapture(a, &graph));
	SAME(nodes_of(graph), 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuMemGetInfo_v2(&before, &total));
	SAME(cuMemFreeAsync(p, a), CUDA_ERROR_INVALID_VALUE); /* not allocated yet */
	OK(cuGraphLaunch(exec, a));
	OK(cuMemGetInfo_v2(&available, &total));
	SAME(before - available, 2 * MIB);
	SAME(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 2 * MIB);
	SAME(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE); /* still allocated */
	OK(cuMemFreeAsync(p, a));
	OK(cuGraphLaunch(exec, a));
	OK(cuDeviceGraphMemTrim(0));
	SAME(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 2 * MIB);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(0));
	SAME(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	OK(cuMemGetInfo_v2(&available, &total));
	SAME(available, before);
	OK(cuGraphInstantiateWithFlags(
		&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	OK(cuGraphLaunch(exec, a));
	OK(cuGraphLaunch(exec, a));
}

static void by_hand(CUcontext context, CUstream a)
{
	CUDA_MEMSET_NODE_PARAMS set = { .value = 5, .elementSize = 1, .width = 16, .height = 1 };
	CUDA_KERNEL_NODE_PARAMS call = { .func = kernel,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1 };
	unsigned char bytes[16] = { 0 };
	CUgraphNode first, second;
	CUgraphExec exec;
	CUgraph graph;
	size_t count = 1;

	OK(cuMemAlloc_v2(&set.dst, 16));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, context));
	OK(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &call));
	SAME(nodes_of(graph), 2);
	OK(cuGraphNodeGetDependencies(second, &first, &count));
	SAME(count, 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, a));
	OK(cuMemcpyDtoH_v2(bytes, set.dst, 16));
	SAME(bytes[15], 5);
	OK(cuGraphDestroyNode(second));
	SAME(nodes_of(graph), 1);
}

int main(void)
{
	CUcontext context = check_start();
	CUmodule module;
	CUstream a, b;

	OK(cuModuleLoadData(&module, ".version 7.0\n.entry kernel() {}\n"));
	OK(cuModuleGetFunction(&kernel, module, "kernel"));
	OK(cuStreamCreate(&a, 0));
	OK(cuStreamCreate(&b, 0));
	two_streams(a, b);
	spoiled(a);
	memory(a);
	by_hand(context, a);
	return 0;
}
