/*
 * sim_values.c - what streams do beside copies and launches: values, semaphores, events of a context;
 * nodes of every type; planes, sparse arrays, tensor maps; settings that are only kept.
 */
#define _GNU_SOURCE
#include "sim_check.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream stream;
static CUcontext context;

static void values(void)
{
	CUstreamBatchMemOpParams ops[2] = { 0 };
	cuuint64_t wide = 0;
	cuuint32_t narrow = 0;
	CUdeviceptr p;

	SAME(cuMemAlloc_v2(&p, 64), 0);
	SAME(cuMemsetD8_v2(p, 0, 64), 0);
	SAME(cuStreamWriteValue32_v2(stream, p, 7, 0), 0);
	SAME(cuStreamWriteValue64_v2(stream, p + 8, 1ull << 40, 0), 0);
	SAME(cuStreamWriteValue32_v2(stream, p + 2, 7, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cuStreamWriteValue32_v2(stream, 0x1000, 7, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemcpyDtoH_v2(&narrow, p, 4), 0);
	SAME(cuMemcpyDtoH_v2(&wide, p + 8, 8), 0);
	SAME(narrow, 7);
	SAME(wide == 1ull << 40, 1);
	SAME(cuStreamWaitValue32_v2(stream, p, 7, CU_STREAM_WAIT_VALUE_EQ), 0);
	SAME(cuStreamQuery(stream), 0);
	SAME(cuStreamWaitValue32_v2(stream, p, 9, CU_STREAM_WAIT_VALUE_GEQ), 0);
	SAME(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	SAME(cuStreamWriteValue32_v2(0, p, 9, 0), 0);
	SAME(cuStreamSynchronize(stream), 0);
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = p;
	ops[0].writeValue.value = 11;
	ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
	SAME(cuStreamBatchMemOp_v2(stream, 2, ops, 0), 0);
	SAME(cuStreamBatchMemOp_v2(stream, 2, ops, 1), CUDA_ERROR_INVALID_VALUE);
	ops[1].operation = 99;
	SAME(cuStreamBatchMemOp_v2(stream, 2, ops, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemcpyDtoH_v2(&narrow, p, 4), 0);
	SAME(narrow, 11);
}

static CUexternalSemaphore semaphores(void)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD };
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS up = { .params.fence.value = 5 };
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = { .params.fence.value = 6 };
	CUexternalSemaphore semaphore;

	desc.handle.fd = memfd_create("semaphore", 0);
	SAME(cuImportExternalSemaphore(&semaphore, &desc), 0);
	SAME(cuSignalExternalSemaphoresAsync(&semaphore, &up, 1, stream), 0);
	SAME(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream), CUDA_ERROR_ILLEGAL_STATE);
	wait.params.fence.value = 5;
	SAME(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream), 0);
	SAME(cuDestroyExternalSemaphore((CUexternalSemaphore)stream), CUDA_ERROR_INVALID_HANDLE);
	return semaphore;
}

static void nodes(CUexternalSemaphore semaphore)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS up = { .params.fence.value = 50 };
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = { .params.fence.value = 50 };
	CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signal = { &semaphore, &up, 1 };
	CUstreamBatchMemOpParams op = { 0 };
	CUDA_BATCH_MEM_OP_NODE_PARAMS batch = { context, 1, &op, 0 }, got;
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL };
	CUgraphNodeParams set = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUgraphNode node, conditional;
	CUgraphConditionalHandle handle;
	CUgraphExec exec;
	CUgraph graph;
	cuuint32_t value[2] = { 0 };
	CUdeviceptr p;

	SAME(cuMemAlloc_v2(&p, 64), 0);
	SAME(cuMemsetD8_v2(p, 0, 64), 0);
	SAME(cuGraphCreate(&graph, 0), 0);
	op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op.writeValue.address = p;
	op.writeValue.value = 3;
	SAME(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch), 0);
	SAME(cuGraphBatchMemOpNodeGetParams(node, &got), 0);
	SAME(got.count, 1);
	SAME(got.paramArray[0].writeValue.value, 3);
	SAME(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signal), 0);
	SAME(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), 0);
	any.conditional.handle = handle;
	any.conditional.type = CU_GRAPH_COND_TYPE_IF;
	any.conditional.size = 1;
	any.conditional.ctx = context;
	SAME(cuGraphAddNode(&conditional, graph, NULL, 0, &any), 0);
	set.memset.dst = p + 4;
	set.memset.elementSize = 4;
	set.memset.value = 77;
	set.memset.width = set.memset.height = 1;
	set.memset.ctx = context;
	SAME(cuGraphAddNode(&node, any.conditional.phGraph_out[0], NULL, 0, &set), 0);
	SAME(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	SAME(cuGraphLaunch(exec, stream), 0);
	SAME(cuMemcpyDtoH_v2(value, p, 8), 0);
	SAME(value[0], 3);
	SAME(value[1], 77);
	SAME(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream), 0);
	set.memset.value = 78;
	SAME(cuGraphNodeSetParams(node, &set), 0);
	set.type = CU_GRAPH_NODE_TYPE_HOST;
	SAME(cuGraphNodeSetParams(node, &set), CUDA_ERROR_INVALID_VALUE);
	SAME(cuGraphExecDestroy(exec), 0);
	SAME(cuGraphDestroy(graph), 0);
	SAME(cuDestroyExternalSemaphore(semaphore), 0);
}

static void planes_and_tiles(void)
{
	CUDA_ARRAY3D_DESCRIPTOR picture = { 64, 32, 0, CU_AD_FORMAT_NV12, 3, 0 }, got;
	CUDA_ARRAY3D_DESCRIPTOR sparse = { 512, 512, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUDA_ARRAY_SPARSE_PROPERTIES properties;
	CUmemGenericAllocationHandle memory;
	CUarrayMapInfo info = { 0 };
	size_t before, after, total;
	CUarray array, plane;

	SAME(cuArray3DCreate_v2(&array, &picture), 0);
	SAME(cuArrayGetPlane(&plane, array, 1), 0);
	SAME(cuArrayGetPlane(&plane, array, 2), CUDA_ERROR_INVALID_VALUE);
	SAME(cuArray3DGetDescriptor_v2(&got, plane), 0);
	SAME(got.Width, 32);
	SAME(got.Height, 16);
	SAME(got.NumChannels, 2);
	SAME(cuArrayDestroy(plane), CUDA_ERROR_INVALID_HANDLE);
	SAME(cuArrayDestroy(array), 0);
	SAME(cuArray3DCreate_v2(&array, &sparse), 0);
	SAME(cuArrayGetSparseProperties(&properties, array), 0);
	SAME(properties.tileExtent.width * properties.tileExtent.height * 4, 65536);
	SAME(cuMemGetInfo_v2(&before, &total), 0);
	SAME(cuMemCreate(&memory, 2 << 20, &prop, 0), 0);
	info.resourceType = CU_RESOURCE_TYPE_ARRAY;
	info.resource.array = array;
	info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	info.memHandle.memHandle = memory;
	info.deviceBitMask = 1;
	info.subresource.sparseLevel.extentWidth = 256;
	SAME(cuMemMapArrayAsync(&info, 1, stream), 0);
	SAME(cuMemRelease(memory), 0);
	SAME(cuMemGetInfo_v2(&after, &total), 0);
	SAME(before - after, 2 << 20); /* the array keeps it */
	SAME(cuArrayDestroy(array), 0);
	SAME(cuMemGetInfo_v2(&after, &total), 0);
	SAME(before - after, 0);
}

static void kept(void)
{
	CUtensorMap map __attribute__((aligned(64)));
	cuuint64_t dims[2] = { 64, 64 }, strides[1] = { 256 };
	cuuint32_t box[2] = { 16, 16 }, steps[2] = { 1, 1 };
	float border[4] = { 1, 2, 3, 4 }, back[4] = { 0 };
	size_t size = 64, before, after, total;
	char text[64] = "/tmp/core";
	CUtexref texref;
	CUdeviceptr p;

	SAME(cuMemAlloc_v2(&p, 65536), 0);
	SAME(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)p, dims, strides,
		box, steps, 0, 0, 0, 0), 0);
	strides[0] = 250;
	SAME(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)p, dims, strides,
		box, steps, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cuTensorMapReplaceAddress(&map, (void *)(p + 8)), CUDA_ERROR_INVALID_VALUE);
	size = strlen(text) + 1;
	SAME(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, text, &size), 0);
	size = sizeof(text);
	memset(text, 0, sizeof(text));
	SAME(cuCoredumpGetAttribute(CU_COREDUMP_FILE, text, &size), 0);
	SAME(strcmp(text, "/tmp/core"), 0);
	SAME(cuTexRefCreate(&texref), 0);
	SAME(cuTexRefSetBorderColor(texref, border), 0);
	SAME(cuTexRefGetBorderColor(back, texref), 0);
	SAME(memcmp(border, back, sizeof(back)), 0);
	SAME(cuMemGetInfo_v2(&before, &total), 0);
	SAME(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20), 0);
	SAME(cuMemGetInfo_v2(&after, &total), 0);
	SAME(before - after, 56 << 20);
	SAME(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 50), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20), 0);
	SAME(cuMemGetInfo_v2(&after, &total), 0);
	SAME(before - after, 0);
}

static void checkpoint(void)
{
	CUprocessState state;
	CUdeviceptr p;

	SAME(cuCheckpointProcessCheckpoint(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
	SAME(cuCheckpointProcessLock(getpid(), NULL), 0);
	SAME(cuMemAlloc_v2(&p, 64), CUDA_ERROR_ILLEGAL_STATE);
	SAME(cuCheckpointProcessCheckpoint(getpid(), NULL), 0);
	SAME(cuCheckpointProcessGetState(getpid(), &state), 0);
	SAME(state, CU_PROCESS_STATE_CHECKPOINTED);
	SAME(cuCheckpointProcessUnlock(getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
	SAME(cuCheckpointProcessRestore(getpid(), NULL), 0);
	SAME(cuCheckpointProcessUnlock(getpid(), NULL), 0);
	SAME(cuMemAlloc_v2(&p, 64), 0);
}

/* The child waits for what the parent recorded. */
static void events(int from_parent)
{
	CUipcEventHandle handle;
	CUevent event;

	SAME(read(from_parent, &handle, sizeof(handle)), sizeof(handle));
	SAME(cuInit(0), 0);
	SAME(cuDevicePrimaryCtxRetain(&context, 0), 0);
	SAME(cuCtxSetCurrent(context), 0);
	SAME(cuIpcOpenEventHandle(&event, handle), 0);
	SAME(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	SAME(cuEventSynchronize(event), 0);
	SAME(cuEventDestroy_v2(event), 0);
	exit(0);
}

int main(void)
{
	CUipcEventHandle handle;
	CUfunction function;
	CUmodule module;
	CUevent event;
	int to_child[2], status;

	SAME(pipe(to_child), 0);
	if (!fork())
		events(to_child[0]);
	SAME(cuInit(0), 0);
	SAME(cuDevicePrimaryCtxRetain(&context, 0), 0);
	SAME(cuCtxSetCurrent(context), 0);
	SAME(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
	values();
	nodes(semaphores());
	planes_and_tiles();
	kept();
	checkpoint();
	SAME(cuModuleLoadData(&module, ".version 7.0\n.visible .entry slow()\n{ ret; }\n"), 0);
	SAME(cuModuleGetFunction(&function, module, "slow"), 0);
	SAME(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), 0);
	SAME(cuIpcGetEventHandle(&handle, event), 0);
	SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), 0);
	SAME(cuEventRecord(event, stream), 0);
	SAME(write(to_child[1], &handle, sizeof(handle)), sizeof(handle));
	SAME(wait(&status) > 0, 1);
	SAME(status, 0);
	SAME(cuCtxRecordEvent(context, event), 0);
	SAME(cuEventSynchronize(event), 0);
	return 0;
}
