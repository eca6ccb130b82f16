/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * handles.c - makes one, two, three, ... of everything that has a handle and no memory of its own, by every call that
 * does, gives one of each back twice, leaves some to their context, and some for the end.
 *
 * Prints what the report and the simulated driver must agree on: a name, made, and still there.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(expression) need(#expression, __LINE__, expression)

static void need(const char *what, int line, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s: error %d\n", line, what, (int)result);
	exit(1);
}

/* Once it works, and the second time the driver says no. */
#define TWICE(expression) \
	do { \
		OK(expression); \
		if ((expression) == CUDA_SUCCESS) \
			need("a second " #expression, __LINE__, CUDA_ERROR_UNKNOWN); \
	} while (0)

static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry one() { ret; }\n.visible .entry two() { ret; }\n";

static void say(const char *name, int made, int there)
{
	printf("%s %d %d\n", name, made, there);
}

static void code(void)
{
	CUmodule module[4];
	CUlibrary library[2];
	CUkernel kernel[3];
	CUlinkState link[2];

	OK(cuModuleLoadData(&module[0], ptx));
	OK(cuModuleLoadDataEx(&module[1], ptx, 0, NULL, NULL));
	OK(cuModuleLoadFatBinary(&module[2], ptx));
	OK(cuModuleLoadData(&module[3], ptx));
	TWICE(cuModuleUnload(module[1]));
	say("module", 4, 3);
	OK(cuLibraryLoadData(&library[0], ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryLoadData(&library[1], ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel[0], library[0], "one"));
	OK(cuLibraryGetKernel(&kernel[0], library[0], "one"));
	OK(cuLibraryEnumerateKernels(kernel, 2, library[0]));
	OK(cuLibraryGetKernel(&kernel[2], library[1], "two"));
	TWICE(cuLibraryUnload(library[1]));
	say("library", 2, 1);
	say("kernel", 3, 2);
	OK(cuLinkCreate(0, NULL, NULL, &link[0]));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link[1]));
	TWICE(cuLinkDestroy(link[0]));
	say("link", 2, 1);
}

static void pictures(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY };
	CUDA_TEXTURE_DESC how = { 0 };
	CUtexObject texture[3];
	CUsurfObject surface[4];
	CUtexref reference[2];

	OK(cuArrayCreate_v2(&resource.res.array.hArray, &flat));
	for (int i = 0; i < 3; i++)
		OK(cuTexObjectCreate(&texture[i], &resource, &how, NULL));
	for (int i = 0; i < 4; i++)
		OK(cuSurfObjectCreate(&surface[i], &resource));
	TWICE(cuTexObjectDestroy(texture[2]));
	TWICE(cuSurfObjectDestroy(surface[0]));
	/* Not what they are taken for. */
	if (!cuTexObjectDestroy(surface[1]) || !cuSurfObjectDestroy(texture[0]))
		exit(1);
	for (int i = 0; i < 2; i++)
		OK(cuTexRefCreate(&reference[i]));
	TWICE(cuTexRefDestroy(reference[1]));
	say("texture", 3, 2);
	say("surface", 4, 3);
	say("texture_reference", 2, 1);
}

static void time(CUcontext doomed)
{
	CUcontext current;
	CUstream stream[5];
	CUevent event[4];

	OK(cuStreamCreate(&stream[0], CU_STREAM_DEFAULT));
	OK(cuStreamCreateWithPriority(&stream[1], CU_STREAM_NON_BLOCKING, -1));
	OK(cuStreamCreate(&stream[2], CU_STREAM_NON_BLOCKING));
	TWICE(cuStreamDestroy_v2(stream[0]));
	TWICE(cuStreamDestroy(stream[1]));
	for (int i = 0; i < 3; i++)
		OK(cuEventCreate(&event[i], i & 1));
	TWICE(cuEventDestroy_v2(event[0]));
	TWICE(cuEventDestroy(event[1]));
	/* These go with their context. */
	OK(cuCtxGetCurrent(&current));
	OK(cuCtxSetCurrent(doomed));
	OK(cuStreamCreate(&stream[3], 0));
	OK(cuEventCreate(&event[3], 0));
	OK(cuCtxSetCurrent(current));
	say("stream", 4, 1);
	say("event", 4, 1);
}

static void graphs(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS how = { 0 };
	CUgraph graph[4];
	CUgraphExec exec[6];
	CUgraphNode node;
	CUstream stream;
	char log[64];

	OK(cuGraphCreate(&graph[0], 0));
	OK(cuGraphAddEmptyNode(&node, graph[0], NULL, 0));
	OK(cuGraphClone(&graph[1], graph[0]));
	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamEndCapture(stream, &graph[2]));
	/* Into one that is there: no other graph comes of it. */
	OK(cuStreamBeginCaptureToGraph(stream, graph[2], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamEndCapture(stream, &graph[3]));
	OK(cuStreamDestroy_v2(stream));
	OK(cuGraphInstantiate(&exec[0], graph[0], NULL, log, sizeof(log)));
	OK(cuGraphInstantiate_v2(&exec[1], graph[0], NULL, log, sizeof(log)));
	OK(cuGraphInstantiateWithFlags(&exec[2], graph[0], 0));
	OK(cuGraphInstantiateWithParams(&exec[3], graph[0], &how));
	OK(cuGraphInstantiateWithParams_ptsz(&exec[4], graph[0], &how));
	TWICE(cuGraphExecDestroy(exec[0]));
	TWICE(cuGraphExecDestroy(exec[3]));
	TWICE(cuGraphDestroy(graph[1]));
	say("graph", 3, 2);
	say("graph_exec", 5, 3);
}

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool[2], own;
	CUdeviceptr left;

	OK(cuMemPoolCreate(&pool[0], &props));
	OK(cuMemPoolCreate(&pool[1], &props));
	OK(cuDeviceGetDefaultMemPool(&own, 0));
	OK(cuMemAllocFromPoolAsync(&left, 1024, pool[1], NULL));
	OK(cuMemPoolDestroy(pool[1])); /* what was taken from it keeps no handle alive */
	if (cuMemPoolDestroy(own) == CUDA_SUCCESS)
		exit(1);
	say("mem_pool", 2, 1);
}

int main(void)
{
	CUcontext primary, doomed;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&doomed, 0, 0));
	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	code();
	pictures();
	time(doomed);
	OK(cuCtxDestroy_v2(doomed));
	graphs();
	pools();
	return 0;
}
