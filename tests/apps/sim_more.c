/*
 * sim_more.c - green contexts, linking, shared pools, external memory, updates of graphs.
 */
#define _GNU_SOURCE
#include "sim_check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Half of the multiprocessors; memory of the primary context; streams that end with the green one.
 */
static void green(void)
{
	CUdevResource all, half;
	CUdevResourceDesc desc;
	CUcontext face, seen;
	CUgreenCtx context;
	unsigned groups = 1, flags;
	CUstream stream;
	CUdeviceptr p;
	int active;

	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevSmResourceSplitByCount(&half, &groups, &all, NULL, 0, all.sm.smCount / 2));
	SAME(groups, 1);
	OK(cuDevResourceGenerateDesc(&desc, &half, 1));
	OK(cuGreenCtxCreate(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	SAME(active, 1);
	OK(cuCtxFromGreenCtx(&face, context));
	OK(cuCtxPushCurrent_v2(face));
	OK(cuMemAlloc_v2(&p, 100));
	OK(cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0));
	OK(cuStreamGetCtx(stream, &seen));
	TRUE(seen == face);
	OK(cuCtxPopCurrent_v2(&seen));
	OK(cuDevicePrimaryCtxRetain(&seen, 0));
	OK(cuGreenCtxDestroy(context));
	SAME(cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuMemFree_v2(p));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	SAME(active, 0);
}

static void linked(void)
{
	char first[] = ".version 7.0\n.entry one() {}\n",
	     second[] = ".version 7.0\n.entry two() {}\n";
	CUfunction function;
	CUlinkState link;
	CUmodule module;
	size_t bytes;
	void *image;

	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, first, sizeof(first), "a", 0, NULL, NULL));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, second, sizeof(second), "b", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&function, module, "one"));
	OK(cuModuleGetFunction(&function, module, "two"));
	OK(cuLinkDestroy(link));
	SAME(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
}

static void shared_pool(CUstream stream)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemPoolPtrExportData data;
	CUmemoryPool pool, imported;
	CUdeviceptr p, q;
	char bytes[4] = { 0 };
	int fd;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, 100, pool, stream));
	OK(cuMemcpyHtoD_v2(p, "abc", 4));
	OK(cuMemPoolExportToShareableHandle(
		&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemPoolImportFromShareableHandle(
		&imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	SAME(cuMemAllocFromPoolAsync(&q, 100, imported, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolExportPointer(&data, p));
	OK(cuMemPoolImportPointer(&q, imported, &data));
	TRUE(q != p);
	OK(cuMemcpyDtoH_v2(bytes, q, 4));
	SAME(strcmp(bytes, "abc"), 0);
	OK(cuMemFree_v2(q));
	SAME(cuMemFree_v2(q), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(p, stream));
	OK(cuMemPoolDestroy(imported));
	OK(cuMemPoolDestroy(pool));
	SAME(close(fd), 0);
}

static void external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.size = 4 * MIB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .offset = 4096, .size = 3 * MIB };
	CUexternalMemory memory;
	CUdeviceptr p;
	char bytes[4] = { 0 };

	desc.handle.fd = memfd_create("external", 0);
	SAME(ftruncate(desc.handle.fd, 4 * (off_t)MIB), 0);
	SAME(pwrite(desc.handle.fd, "xyz", 4, 4096), 4);
	OK(cuImportExternalMemory(&memory, &desc));
	OK(cuExternalMemoryGetMappedBuffer(&p, memory, &buffer));
	OK(cuMemcpyDtoH_v2(bytes, p, 4));
	SAME(strcmp(bytes, "xyz"), 0);
	OK(cuDestroyExternalMemory(memory));
	OK(cuMemFree_v2(p));
	SAME(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
}

static void count(void *number)
{
	++*(int *)number;
}

static void updates(CUstream stream)
{
	CUDA_HOST_NODE_PARAMS call = { .fn = count };
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, other;
	CUgraphExec exec;
	CUgraph graph;
	int first = 0, second = 0;

	OK(cuGraphCreate(&graph, 0));
	call.userData = &first;
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &call));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	SAME(first, 1);
	call.userData = &second;
	OK(cuGraphHostNodeSetParams(node, &call));
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphNodeSetEnabled(exec, node, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	SAME(first, 1);
	SAME(second, 1);
	OK(cuGraphAddEmptyNode(&other, graph, &node, 1));
	SAME(cuGraphExecUpdate_v2(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	SAME(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuGraphRemoveDependencies(graph, &node, &other, 1));
	SAME(cuGraphRemoveDependencies(graph, &node, &other, 1), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	CUstream stream;

	check_start();
	OK(cuStreamCreate(&stream, 0));
	green();
	linked();
	shared_pool(stream);
	external();
	updates(stream);
	return 0;
}
