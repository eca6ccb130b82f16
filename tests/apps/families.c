/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * families.c - stories of every other way to get GPU memory: `families STORY`, under a limit of
 * 256 MiB. What is charged is read as the program sees it: limit less free. tests/t/families.bats
 * compares the report and the truth of the simulated driver.
 *
 * Status 1, with the line, when a check fails.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define LIMIT (256 * MiB)

static CUdevice device;
static CUcontext context;

static uint64_t charged(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	IS(total, LIMIT);
	return total - available;
}

/* ---- physical memory by handle ---- */

static CUmemAllocationProp on_device = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
};

static CUmemGenericAllocationHandle create(size_t bytes)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, bytes, &on_device, 0));
	return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr address;

	OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	return address;
}

static void vmm_orders(void)
{
	CUdeviceptr at = reserve(1ull << 40);
	CUmemGenericAllocationHandle a, b, again;

	IS(charged(), 0);
	a = create(2 * MiB);
	IS(charged(), 2 * MiB);
	OK(cuMemRelease(a));
	IS(charged(), 0);
	/* released at once, unmapped later */
	a = create(2 * MiB);
	OK(cuMemMap(at, 2 * MiB, 0, a, 0));
	OK(cuMemRelease(a));
	IS(charged(), 2 * MiB);
	OK(cuMemUnmap(at, 2 * MiB));
	IS(charged(), 0);
	/* unmapped first */
	a = create(2 * MiB);
	OK(cuMemMap(at, 2 * MiB, 0, a, 0));
	OK(cuMemUnmap(at, 2 * MiB));
	IS(charged(), 2 * MiB);
	OK(cuMemRelease(a));
	IS(charged(), 0);
	/* retained by address */
	a = create(2 * MiB);
	OK(cuMemMap(at, 2 * MiB, 0, a, 0));
	OK(cuMemRetainAllocationHandle(&again, (void *)(at + MiB)));
	OK(cuMemRelease(a));
	OK(cuMemUnmap(at, 2 * MiB));
	IS(charged(), 2 * MiB);
	OK(cuMemRelease(again));
	IS(charged(), 0);
	/* several in one unmap; a cut one is refused, and nothing changes */
	a = create(4 * MiB);
	b = create(2 * MiB);
	OK(cuMemMap(at, 4 * MiB, 0, a, 0));
	OK(cuMemMap(at + 4 * MiB, 2 * MiB, 0, b, 0));
	OK(cuMemRelease(a));
	OK(cuMemRelease(b));
	IS(cuMemUnmap(at, 2 * MiB) != 0, 1);
	IS(cuMemUnmap(at, 5 * MiB) != 0, 1);
	IS(charged(), 6 * MiB);
	OK(cuMemUnmap(at, 6 * MiB));
	IS(charged(), 0);
	OK(cuMemAddressFree(at, 1ull << 40));
}

static void vmm_limit(void)
{
	CUmemGenericAllocationHandle handle = POISON, full = create(LIMIT);
	CUmemAllocationProp host = on_device;

	IS(cuMemCreate(&handle, 2 * MiB, &on_device, 0), OOM);
	IS(handle, POISON);
	host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	OK(cuMemCreate(&handle, 4 * MiB, &host, 0));
	IS(charged(), LIMIT);
	OK(cuMemRelease(handle));
	OK(cuMemRelease(full));
	IS(cuMemRelease(full), CUDA_ERROR_INVALID_VALUE);
	IS(charged(), 0);
	create(2 * MiB);
}

/* Once too often: what is mapped lives on, as it would have. */
static void released(void)
{
	CUmulticastObjectProp prop = {
		.numDevices = 2, .size = 64 * MiB, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	CUmemGenericAllocationHandle handle = create(2 * MiB);
	CUdeviceptr at = reserve(2 * MiB);

	OK(cuMemMap(at, 2 * MiB, 0, handle, 0));
	for (int i = 0; i < 3; i++)
		IS(cuMemRelease(handle), i ? CUDA_ERROR_INVALID_VALUE : 0);
	IS(charged(), 2 * MiB);
	OK(cuMemUnmap(at, 2 * MiB));
	IS(charged(), 0);
	OK(cuMulticastCreate(&handle, &prop));
	OK(cuMemRelease(handle));
	IS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void vmm_context(void)
{
	CUcontext other;

	OK(cuCtxCreate_v2(&other, 0, device));
	create(2 * MiB);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(context));
	IS(charged(), 2 * MiB);
}

static void multicast(void)
{
	CUmulticastObjectProp prop = {
		.numDevices = 2, .size = 64 * MiB, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at = reserve(64 * MiB);

	OK(cuMulticastCreate(&handle, &prop));
	OK(cuMulticastAddDevice(handle, 0));
	OK(cuMulticastAddDevice(handle, 1));
	IS(charged(), 0);
	OK(cuMemMap(at, 64 * MiB, 0, handle, 0));
	OK(cuMemRelease(handle));
	IS(charged(), 0);
	OK(cuMemUnmap(at, 64 * MiB));
	OK(cuMemAddressFree(at, 64 * MiB));
	OK(cuMulticastCreate(&handle, &prop));
}

static void import_own(void)
{
	CUmemGenericAllocationHandle handle = create(2 * MiB), again;
	int fd;

	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	IS(charged(), 2 * MiB);
	OK(cuMemRelease(again));
	OK(cuMemRelease(handle));
}

/* Locations and sizes that only the driver can judge. */
static void vmm_odd(void)
{
	CUmemGenericAllocationHandle handle = POISON, many[20];
	CUmemAllocationProp prop = on_device;
	CUdeviceptr at = reserve(64 * MiB);

	prop.location.id = 99;
	IS(cuMemCreate(&handle, 2 * MiB, &prop, 0) != 0, 1);
	prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
	IS(cuMemCreate(&handle, 2 * MiB, &prop, 0) != 0, 1);
	IS(cuMemCreate(&handle, 0, &on_device, 0) != 0, 1);
	IS(cuMemCreate(&handle, MiB + 1, &on_device, 0) != 0, 1);
	IS(handle, POISON);
	IS(charged(), 0);
	/* Refused as out of memory, whatever handle types were asked for: no caller tries others. */
	prop = on_device;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC | CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	IS(cuMemCreate(&handle, LIMIT + 2 * MiB, &prop, 0), OOM);
	/* As frameworks do: one range, many handles, each released at once. */
	for (int i = 0; i < 20; i++) {
		many[i] = create(2 * MiB);
		OK(cuMemMap(at + i * 2 * MiB, 2 * MiB, 0, many[i], 0));
		OK(cuMemRelease(many[i]));
	}
	IS(charged(), 40 * MiB);
	OK(cuMemUnmap(at, 40 * MiB));
	IS(charged(), 0);
	OK(cuMemAddressFree(at, 64 * MiB));
}

/* An exported descriptor is nobody's leak; the memory that was not released is. */
static void exported_and_kept(void)
{
	CUmemGenericAllocationHandle handle = create(2 * MiB);
	int fd;

	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

/* With FILL the limit has less room than an import needs: refused, and nothing of it stays. */
static CUdeviceptr fill(void)
{
	CUdeviceptr filler = 0;

	if (getenv("FILL"))
		OK(cuMemAlloc_v2(&filler, LIMIT - 2 * MiB));
	return filler;
}

/* The descriptor comes from the parent process, by number. */
static void vmm_importer(void)
{
	CUmemGenericAllocationHandle handle = POISON;
	CUdeviceptr at = reserve(8 * MiB), filler = fill();
	uint64_t charge = getenv("CUWARD_IMPORTED") ? 8 * MiB : 0;

	if (filler) {
		IS(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)atoi(getenv("FD")),
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), OOM);
		IS(handle, POISON);
		IS(charged(), LIMIT - 2 * MiB);
		OK(cuMemFree_v2(filler));
	}
	OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)atoi(getenv("FD")),
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(cuMemMap(at, 8 * MiB, 0, handle, 0));
	IS(charged(), charge);
	OK(cuMemUnmap(at, 8 * MiB));
	if (getenv("LEAVE"))
		return;
	OK(cuMemRelease(handle));
	IS(charged(), 0);
}

static void vmm_export(void)
{
	CUmemGenericAllocationHandle handle = create(8 * MiB);
	char number[12];
	int fd, status;

	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	snprintf(number, sizeof(number), "%d", fcntl(fd, F_DUPFD, 50));
	if (fork() == 0) {
		setenv("FD", number, 1);
		execl("/proc/self/exe", "families", "vmm_importer", NULL);
		_exit(127);
	}
	wait(&status);
	IS(status, 0);
	OK(cuMemRelease(handle));
}

/* ---- arrays ---- */

static void sparse(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 512, .Height = 512, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1, .Flags = CUDA_ARRAY3D_SPARSE };
	CUarrayMapInfo map = { .resourceType = CU_RESOURCE_TYPE_ARRAY,
		.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
		.memOperationType = CU_MEM_OPERATION_TYPE_MAP, .deviceBitMask = 1 };
	CUmemGenericAllocationHandle handle = create(2 * MiB);
	CUarray array;

	OK(cuArray3DCreate_v2(&array, &shape));
	IS(charged(), 2 * MiB);
	map.resource.array = array;
	map.subresource.sparseLevel.extentWidth = map.subresource.sparseLevel.extentHeight = 128;
	map.subresource.sparseLevel.extentDepth = 1;
	map.memHandle.memHandle = handle;
	OK(cuMemMapArrayAsync(&map, 1, NULL));
	OK(cuMemRelease(handle));
	IS(charged(), 2 * MiB);
	map.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	OK(cuMemMapArrayAsync(&map, 1, NULL));
	OK(cuCtxSynchronize());
	IS(charged(), 0);
	/* What is mapped goes with the array. */
	map.memHandle.memHandle = handle = create(2 * MiB);
	map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	OK(cuMemMapArrayAsync(&map, 1, NULL));
	OK(cuMemRelease(handle));
	IS(charged(), 2 * MiB);
	/* Once more in the same place, where only that place holds it. */
	OK(cuMemMapArrayAsync(&map, 1, NULL));
	IS(charged(), 2 * MiB);
	OK(cuArrayDestroy(array));
	IS(charged(), 0);
}

static CUarray array(size_t width, size_t height, size_t depth, int format, unsigned channels,
	unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = width, .Height = height, .Depth = depth,
		.Format = format, .NumChannels = channels, .Flags = flags };
	uint64_t before = charged();
	CUarray made;

	OK(cuArray3DCreate_v2(&made, &shape));
	printf("%llu\n", (unsigned long long)(charged() - before));
	return made;
}

static void arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4 };
	CUDA_ARRAY_DESCRIPTOR_v1 flat_v1 = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4 };
	CUarray made;

	OK(cuArrayCreate_v2(&made, &flat));
	IS(charged(), 65536);
	OK(cuArrayDestroy(made));
	OK(cuArrayCreate(&made, &flat_v1));
	IS(charged(), 65536);
	OK(cuArrayDestroy(made));
	IS(charged(), 0);
	IS(cuArrayDestroy(made) != 0, 1);
	flat.Width = LIMIT / 16;
	flat.Height = 2;
	made = (CUarray)POISON;
	IS(cuArrayCreate_v2(&made, &flat), OOM);
	IS(made, POISON);
	array(64, 0, 5, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED);
	array(32, 32, 6, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_CUBEMAP);
	array(16, 16, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0);
	array(16, 16, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0);
	array(18, 18, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0);
	array(16, 16, 0, CU_AD_FORMAT_NV12, 3, 0);
	array(64, 64, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static void mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1 };
	CUmipmappedArray mipmap;
	CUarray level;

	OK(cuMipmappedArrayCreate(&mipmap, &shape, 10));
	IS(charged(), 340);
	OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	IS(charged(), 340);
	OK(cuMipmappedArrayDestroy(mipmap));
	IS(charged(), 0);
	OK(cuMipmappedArrayCreate(&mipmap, &shape, 2));
	IS(charged(), 320);
}

static void array_context(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4 };
	CUcontext other;
	CUarray made;

	OK(cuCtxCreate_v2(&other, 0, device));
	OK(cuArrayCreate_v2(&made, &flat));
	IS(charged(), 65536);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(context));
	IS(charged(), 0);
}

/* ---- graphs ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS wanted(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){ .bytesize = bytes,
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } } };
}

static void graph_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = wanted(2 * LIMIT);
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphNode node = (CUgraphNode)POISON, freeing;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	IS(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc), OOM);
	params.alloc.poolProps = alloc.poolProps;
	params.alloc.bytesize = 2 * LIMIT;
	IS(cuGraphAddNode(&node, graph, NULL, 0, &params), OOM);
	IS(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params), OOM);
	IS(node, POISON);
	alloc = wanted(32 * MiB);
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	OK(cuGraphAddMemFreeNode(&freeing, graph, &node, 1, alloc.dptr));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	IS(charged(), 0);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	IS(charged(), 32 * MiB);
	OK(cuGraphLaunch(exec, NULL));
	IS(charged(), 32 * MiB);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	IS(charged(), 0);
	/* Nodes fit one by one; together they do not, and the launch is refused. */
	alloc = wanted(LIMIT - MiB);
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	IS(cuGraphLaunch(exec, NULL), OOM);
	IS(cuGraphUpload(exec, NULL), OOM);
	IS(charged(), 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* What a launch leaves behind is given up by the next: under the limit it is needed only once. */
static void graph_again(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS kept = wanted(128 * MiB), passing = wanted(96 * MiB);
	CUgraphNode node, freeing;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &kept));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &passing));
	OK(cuGraphAddMemFreeNode(&freeing, graph, &node, 1, passing.dptr));
	OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++) {
		OK(cuGraphLaunch(exec, NULL));
		OK(cuDeviceGraphMemTrim(device));
	}
	OK(cuMemFree_v2(kept.dptr));
	OK(cuDeviceGraphMemTrim(device));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(device));
	OK(cuGraphDestroy(graph));
}

static void graph_freed_outside(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = wanted(8 * MiB);
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	IS(charged(), 8 * MiB);
	OK(cuMemFree_v2(alloc.dptr));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuMemFree_v2(alloc.dptr));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(device));
	IS(charged(), 0);
}

static void captured(void)
{
	CUdeviceptr pointer = POISON;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuMemAllocAsync(&pointer, 2 * LIMIT, stream), OOM);
	IS(pointer, POISON);
	OK(cuMemAllocAsync(&pointer, 4 * MiB, stream));
	OK(cuMemFreeAsync(pointer, stream));
	OK(cuStreamEndCapture(stream, &graph));
	IS(charged(), 0);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	IS(charged(), 4 * MiB);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(device));
	IS(charged(), 0);
	OK(cuStreamDestroy_v2(stream));
}

static void captured_nodes(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";
	CUdeviceptr pointer;
	CUfunction function;
	CUgraphExec exec;
	CUmodule module;
	CUstream stream;
	CUgraph graph;
	size_t count;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, "nothing"));
	OK(cuMemAlloc_v2(&pointer, MiB));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD8Async(pointer, 0, MiB, stream));
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, NULL, &count));
	printf("%zu nodes\n", count);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFree_v2(pointer));
}

/* ---- what belongs to others ---- */

static void external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 4 * MiB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = MiB };
	CUmemGenericAllocationHandle handle = create(4 * MiB);
	CUexternalMemory memory;
	CUdeviceptr mapped, filler = 0;
	uint64_t charge = getenv("CUWARD_IMPORTED") ? 4 * MiB : 0;
	int fd;

	if (charge)
		OK(cuMemAlloc_v2(&filler, LIMIT - 6 * MiB));

	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	desc.handle.fd = fd;
	if (filler) {
		memory = (CUexternalMemory)POISON;
		IS(cuImportExternalMemory(&memory, &desc), OOM);
		IS(memory, POISON);
		OK(cuMemFree_v2(filler));
	}
	OK(cuImportExternalMemory(&memory, &desc));
	OK(cuExternalMemoryGetMappedBuffer(&mapped, memory, &part));
	IS(charged(), 4 * MiB + charge);
	OK(cuMemFree_v2(mapped));
	OK(cuDestroyExternalMemory(memory));
	OK(cuMemRelease(handle));
	IS(charged(), 0);
}

/* Ends when its parent has closed the other end of its input. */
static void exporter(void)
{
	CUipcMemHandle handle;
	CUdeviceptr pointer;
	char end;

	OK(cuMemAlloc_v2(&pointer, 8 * MiB));
	OK(cuIpcGetMemHandle(&handle, pointer));
	if (write(STDOUT_FILENO, &handle, sizeof(handle)) != sizeof(handle) || read(STDIN_FILENO, &end, 1) < 0)
		exit(2);
	OK(cuMemFree_v2(pointer));
}

static CUipcMemHandle exported(int ends[2])
{
	CUipcMemHandle handle;
	int out[2], in[2];

	if (pipe(out) || pipe(in))
		exit(2);
	if (fork() == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(in[0], STDIN_FILENO);
		close(in[1]);
		execl("/proc/self/exe", "families", "exporter", NULL);
		_exit(127);
	}
	if (read(out[0], &handle, sizeof(handle)) != sizeof(handle))
		exit(2);
	ends[0] = out[0];
	ends[1] = in[1];
	return handle;
}

static void ipc(void)
{
	int ends[2];
	CUipcMemHandle handle = exported(ends);
	CUdeviceptr pointer, again;

	OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	IS(charged(), 0);
	OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	IS(again, pointer);
	IS(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcCloseMemHandle(pointer));
	if (getenv("CLOSE_ALL"))
		OK(cuIpcCloseMemHandle(pointer));
	close(ends[1]);
}

static void ipc_charged(void)
{
	int ends[2];
	CUipcMemHandle handle = exported(ends);
	CUdeviceptr pointer = POISON, filler;
	CUstream stream;
	CUgraph graph;

	OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	IS(charged(), 8 * MiB);
	OK(cuIpcCloseMemHandle(pointer));
	IS(charged(), 0);
	OK(cuMemAlloc_v2(&filler, LIMIT - 4 * MiB));
	pointer = POISON;
	IS(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), OOM);
	IS(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), OOM);
	IS(pointer, POISON);
	OK(cuMemFree_v2(filler));
	OK(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	IS(charged(), 8 * MiB);
	OK(cuIpcCloseMemHandle(pointer));
	IS(charged(), 0);
	/* While a stream captures the driver is not asked how large it is; as soon as none does, it is. */
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	IS(charged(), 0);
	OK(cuStreamEndCapture(stream, &graph));
	if (getenv("NOT_TOLD")) {
		IS(charged(), 0);
		OK(cuGraphDestroy(graph));
		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		OK(cuStreamEndCapture(stream, &graph));
	}
	IS(charged(), 8 * MiB);
	OK(cuIpcCloseMemHandle(pointer));
	IS(charged(), 0);
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(stream));
	close(ends[1]);
}

/* ---- pools ---- */

static void pool_reserved(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr pointer, other;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	OK(cuMemAllocFromPoolAsync(&pointer, 100 * MiB, pool, NULL));
	IS(charged(), 100 * MiB);
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuStreamSynchronize(NULL));
	if (!getenv("CUWARD_POOLS")) {
		IS(charged(), 0);
		return;
	}
	IS(charged(), 100 * MiB);
	IS(cuMemAlloc_v2(&other, 200 * MiB), OOM);
	OK(cuMemPoolTrimTo(pool, 0));
	IS(charged(), 0);
	OK(cuMemAlloc_v2(&other, 200 * MiB));
	OK(cuMemFree_v2(other));
	OK(cuMemPoolDestroy(pool));
}

/* However many there are, each hands out the memory of its own place. */
static void pool_many(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	CUmemoryPool pools[303];
	CUdeviceptr pointers[3];

	for (int i = 0; i < 303; i++) {
		props.location.id = i == 301;
		if (i == 302)
			props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		OK(cuMemPoolCreate(&pools[i], &props));
	}
	for (int i = 0; i < 3; i++)
		OK(cuMemAllocFromPoolAsync(&pointers[i], (i + 1) * 100 * MiB, pools[300 + i], NULL));
	IS(charged(), 100 * MiB);
	IS(cuMemAllocFromPoolAsync(&pointers[0], 200 * MiB, pools[300], NULL), OOM);
	for (int i = 0; i < 303; i++)
		OK(cuMemPoolDestroy(pools[i]));
}

/* What a pool has free is charged already: it may be had again, and only from this pool. */
static void pool_reused(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool, second;
	CUdeviceptr pointer, other;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolCreate(&second, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	for (int i = 0; i < 100; i++) {
		OK(cuMemAllocFromPoolAsync(&pointer, 200 * MiB - i * 4096, pool, NULL));
		OK(cuMemFreeAsync(pointer, NULL));
		OK(cuStreamSynchronize(NULL));
		IS(charged(), 200 * MiB);
	}
	OK(cuMemAllocFromPoolAsync(&pointer, 150 * MiB, pool, NULL));
	IS(cuMemAllocFromPoolAsync(&other, 100 * MiB, second, NULL), OOM);
	IS(cuMemAlloc_v2(&other, 100 * MiB), OOM);
	IS(charged(), 200 * MiB);
	OK(cuMemAllocFromPoolAsync(&other, 50 * MiB, pool, NULL));
	IS(charged(), 200 * MiB);
	OK(cuDeviceSetMemPool(device, pool));
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemAllocAsync(&pointer, 150 * MiB, NULL));
	IS(charged(), 200 * MiB);
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuMemFreeAsync(other, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolTrimTo(pool, 0));
	IS(charged(), 0);
	OK(cuMemPoolDestroy(second));
	OK(cuMemPoolDestroy(pool));
}

static void pool_on_host(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0 } };
	CUmemoryPool pool;
	CUdeviceptr pointer;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&pointer, 2 * LIMIT, pool, NULL));
	IS(charged(), 0);
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuMemPoolDestroy(pool));
}

static void pool_cycles(void)
{
	CUmemoryPool pool;
	CUdeviceptr pointer[8] = { 0 };
	uint64_t live = 0, size[8] = { 0 }, random = 1;

	OK(cuDeviceGetDefaultMemPool(&pool, device));
	for (int i = 0; i < 10000; i++) {
		unsigned at = i % 8;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		if (pointer[at]) {
			OK(i % 3 ? cuMemFreeAsync(pointer[at], NULL) : cuMemFree_v2(pointer[at]));
			live -= size[at];
		}
		size[at] = random >> 44;
		OK(cuMemAllocAsync(&pointer[at], size[at] ? size[at] : (size[at] = 1), NULL));
		live += size[at];
		IS(charged(), live);
	}
	for (int i = 0; i < 8; i++)
		OK(cuMemFreeAsync(pointer[i], NULL));
	OK(cuMemPoolTrimTo(pool, 0));
	IS(charged(), 0);
}

struct shared_pool {
	int fd;
	CUmemPoolPtrExportData data;
};

static void pool_importer(void)
{
	struct shared_pool it;
	CUmemoryPool pool;
	CUdeviceptr pointer = POISON, filler = fill();
	uint64_t charge = getenv("CUWARD_IMPORTED") ? 4 * MiB : 0;

	if (read(atoi(getenv("FD")), &it, sizeof(it)) != sizeof(it))
		exit(2);
	OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)it.fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (filler) {
		IS(cuMemPoolImportPointer(&pointer, pool, &it.data), OOM);
		IS(pointer, POISON);
		IS(charged(), LIMIT - 2 * MiB);
		OK(cuMemFree_v2(filler));
	}
	OK(cuMemPoolImportPointer(&pointer, pool, &it.data));
	IS(charged(), charge);
	OK(cuMemFree_v2(pointer));
	IS(charged(), 0);
	OK(cuMemPoolDestroy(pool));
}

static void pool_export(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	struct shared_pool it;
	CUmemoryPool pool;
	CUdeviceptr pointer;
	int ends[2], fd, status;
	char number[12];

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&pointer, 4 * MiB, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemPoolExportPointer(&it.data, pointer));
	it.fd = fcntl(fd, F_DUPFD, 50);
	if (pipe(ends) || write(ends[1], &it, sizeof(it)) != sizeof(it))
		exit(2);
	snprintf(number, sizeof(number), "%d", ends[0]);
	if (fork() == 0) {
		setenv("FD", number, 1);
		execl("/proc/self/exe", "families", "pool_importer", NULL);
		_exit(127);
	}
	wait(&status);
	IS(status, 0);
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuMemPoolDestroy(pool));
}

/* One ledger, whatever way a function was found and whatever family it is of. */
static void three_paths(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*look_up)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*found)(CUdeviceptr *, size_t);
	CUdeviceptr linked, looked_up, pooled, more = POISON;

	look_up = (__typeof__(look_up))dlsym(handle, "cuGetProcAddress_v2");
	OK(look_up("cuMemAlloc", (void **)&found, 12000, 0, NULL));
	OK(cuMemAlloc_v2(&linked, 80 * MiB));
	OK(found(&looked_up, 80 * MiB));
	OK(cuMemAllocAsync(&pooled, 80 * MiB, NULL));
	IS(charged(), 240 * MiB);
	IS(found(&more, 17 * MiB), OOM);
	IS(cuMemAllocAsync(&more, 17 * MiB, NULL), OOM);
	IS(more, POISON);
}

/* ---- limits of a kind ---- */

static void kinds(void)
{
	CUdeviceptr managed;
	void *pinned;

	OK(cuMemAllocManaged(&managed, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
	IS(cuMemAllocManaged(&managed, 4 * MiB + 1, CU_MEM_ATTACH_GLOBAL), OOM);
	IS(charged(), 0);
	OK(cuMemFree_v2(managed));
	OK(cuMemAllocManaged(&managed, 8 * MiB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocHost_v2(&pinned, 2 * MiB));
	IS(cuMemHostAlloc(&pinned, 1, 0), OOM);
}

/* ---- what nobody asked for by name ---- */

static void overhead(void)
{
	size_t available, total;
	CUdeviceptr pointer = POISON;

	OK(cuMemGetInfo_v2(&available, &total));
	printf("%llu of %llu\n", (unsigned long long)available, (unsigned long long)total);
	IS(cuMemAlloc_v2(&pointer, available + 1), OOM);
	if (available)
		OK(cuMemAlloc_v2(&pointer, available));
}

static void modules(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";
	CUmodule module, other;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleLoadData(&other, ptx));
	OK(cuModuleUnload(other));
}

static void green(void)
{
	CUdevResource all;
	CUdevResourceDesc desc;
	CUcontext current;
	CUgreenCtx green;
	CUstream stream;
	CUdeviceptr pointer;

	OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &all, 1));
	OK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuCtxFromGreenCtx(&current, green));
	OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	OK(cuCtxSetCurrent(current));
	OK(cuMemAlloc_v2(&pointer, MiB));
	OK(cuCtxSetCurrent(context));
	if (getenv("STREAM_FIRST"))
		OK(cuStreamDestroy_v2(stream));
	OK(cuGreenCtxDestroy(green));
	IS(charged(), MiB);
	OK(cuDevicePrimaryCtxReset_v2(device));
	IS(cuMemFree_v2(pointer) != 0, 1);
}

static void objects(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";
	CUuserObject object;
	CUlibrary library;
	CUlinkState link;
	CUtexref texture;
	CUkernel kernel;
	CUgraph graph;

	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "nothing"));
	OK(cuLibraryGetKernel(&kernel, library, "nothing"));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuTexRefCreate(&texture));
	OK(cuGraphCreate(&graph, 0));
	OK(cuUserObjectCreate(&object, NULL, (CUhostFn)free, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuUserObjectRelease(object, 1));
	if (getenv("LEAVE"))
		return;
	OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	OK(cuGraphDestroy(graph));
	OK(cuTexRefDestroy(texture));
	OK(cuLinkDestroy(link));
	OK(cuLibraryUnload(library));
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
#define S(name) { #name, name }
	S(vmm_odd), S(exported_and_kept), S(vmm_export), S(vmm_importer), S(sparse), S(pool_cycles),
	S(pool_importer), S(pool_export), S(three_paths),
	S(vmm_orders), S(vmm_limit), S(released), S(vmm_context), S(multicast), S(import_own), S(arrays), S(mipmaps),
	S(array_context), S(graph_memory), S(graph_again), S(graph_freed_outside), S(captured), S(captured_nodes), S(external), S(exporter),
	S(ipc), S(ipc_charged), S(pool_reserved), S(pool_reused), S(pool_many), S(pool_on_host), S(kinds), S(overhead), S(modules),
	S(green), S(objects),
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
