/* flags: -D__CUDA_API_VERSION_INTERNAL -Wno-deprecated-declarations */
/*
 * forms.c - one piece of work in each form there is, each on an idle GPU, all of them twice: `forms KERNEL_NS COPY_NS`, on two
 * devices, with CUWARD_SIM_KERNEL_NS=KERNEL_NS and CUWARD_SIM_COPY_GBPS=(16 KiB / COPY_NS).
 *
 * Prints a line each: its number among launches and copies, the call, the earliest and the latest moment
 * (CLOCK_MONOTONIC, ns) at which it can have begun, how long it takes, and its device.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES (16u << 10)
#define ROW 256u
#define ROWS (BYTES / ROW)

#define MUST(call) \
	do { \
		CUresult must_result = call; \
		if (must_result) { \
			fprintf(stderr, "%s: %d\n", #call, must_result); \
			exit(1); \
		} \
	} while (0)

static unsigned number;
static CUcontext contexts[2];
static CUfunction functions[2];
static CUstream streams[2];
static CUdeviceptr to, from;
static CUdeviceptr_v1 to_v1, from_v1;
static CUarray array;
static char host[BYTES];

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void tell(const char *call, uint64_t early, uint64_t late, uint64_t ns, int device)
{
	printf("%u %.*s %llu %llu %llu %d\n", ++number, (int)strcspn(call, "("), call,
		(unsigned long long)early, (unsigned long long)late, (unsigned long long)ns, device);
}

#define WORK(ns, call) \
	do { \
		uint64_t work_early = now(); \
		MUST(call); \
		tell(#call, work_early, now(), ns, 0); \
		MUST(cuCtxSynchronize()); \
	} while (0)

static void open_device(int device)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry work() { ret; }\n";
	CUmodule module;

	MUST(cuDevicePrimaryCtxRetain(&contexts[device], device));
	MUST(cuCtxSetCurrent(contexts[device]));
	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&functions[device], module, "work"));
	MUST(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
}

static void kernels(uint64_t ns)
{
	CUlaunchConfig config = { .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1,
		.blockDimZ = 1, .hStream = streams[0] };
	CUlaunchConfig defaults = config;
	CUfunction work = functions[0];

	defaults.hStream = NULL;
	WORK(ns, cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, streams[0], NULL, NULL));
	WORK(ns, cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORK(ns, cuLaunchKernel_ptsz(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORK(ns, cuLaunchKernelEx(&config, work, NULL, NULL));
	WORK(ns, cuLaunchKernelEx_ptsz(&defaults, work, NULL, NULL));
	WORK(ns, cuLaunchCooperativeKernel(work, 1, 1, 1, 1, 1, 1, 0, streams[0], NULL));
	WORK(ns, cuLaunchCooperativeKernel_ptsz(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
	MUST(cuFuncSetBlockShape(work, 32, 1, 1));
	WORK(ns, cuLaunch(work));
	WORK(ns, cuLaunchGrid(work, 3, 2));
	WORK(ns, cuLaunchGridAsync(work, 3, 2, streams[0]));
}

static void on_both_devices(uint64_t ns)
{
	CUDA_LAUNCH_PARAMS params[2];
	uint64_t early, late;

	for (int i = 0; i < 2; i++)
		params[i] = (CUDA_LAUNCH_PARAMS){ functions[i], 1 + i, 1, 1, 32, 1, 1, 0, streams[i], NULL };
	early = now();
	MUST(cuLaunchCooperativeKernelMultiDevice(params, 2, 0));
	late = now();
	for (int i = 0; i < 2; i++)
		tell("cuLaunchCooperativeKernelMultiDevice", early, late, ns, i);
	for (int i = 1; i >= 0; i--) {
		MUST(cuCtxSetCurrent(contexts[i]));
		MUST(cuCtxSynchronize());
	}
}

/* Three kernels, one after the other, are one item. */
static void graphs(uint64_t ns)
{
	CUDA_KERNEL_NODE_PARAMS_v2 params = { .func = functions[0], .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1 };
	CUgraphNode before = NULL;
	CUgraphExec exec;
	CUgraph graph;

	MUST(cuGraphCreate(&graph, 0));
	for (int i = 0; i < 3; i++) {
		CUgraphNode node;

		MUST(cuGraphAddKernelNode_v2(&node, graph, before ? &before : NULL, before ? 1 : 0, &params));
		before = node;
	}
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	WORK(3 * ns, cuGraphLaunch(exec, streams[0]));
	WORK(3 * ns, cuGraphLaunch_ptsz(exec, NULL));
}

static void memory(void)
{

	MUST(cuMemAlloc_v2(&to, BYTES));
	MUST(cuMemAlloc_v2(&from, BYTES));
	MUST(cuMemAlloc(&to_v1, BYTES));
	MUST(cuMemAlloc(&from_v1, BYTES));
	MUST(cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){ .Width = BYTES / 16, .Height = 4,
		.Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1 }));
}

static void lines(uint64_t ns)
{
	CUcontext here = contexts[0];
	CUstream stream = streams[0];

	WORK(ns, cuMemcpyAsync(to, from, BYTES, stream));
	WORK(ns, cuMemcpyAsync_ptsz(to, from, BYTES, NULL));
	WORK(ns, cuMemcpyPeerAsync(to, here, from, here, BYTES, stream));
	WORK(ns, cuMemcpyPeerAsync_ptsz(to, here, from, here, BYTES, NULL));
	WORK(ns, cuMemcpyHtoDAsync(to_v1, host, BYTES, stream));
	WORK(ns, cuMemcpyHtoDAsync_v2(to, host, BYTES, stream));
	WORK(ns, cuMemcpyHtoDAsync_v2_ptsz(to, host, BYTES, NULL));
	WORK(ns, cuMemcpyDtoHAsync(host, from_v1, BYTES, stream));
	WORK(ns, cuMemcpyDtoHAsync_v2(host, from, BYTES, stream));
	WORK(ns, cuMemcpyDtoHAsync_v2_ptsz(host, from, BYTES, NULL));
	WORK(ns, cuMemcpyDtoDAsync(to_v1, from_v1, BYTES, stream));
	WORK(ns, cuMemcpyDtoDAsync_v2(to, from, BYTES, stream));
	WORK(ns, cuMemcpyDtoDAsync_v2_ptsz(to, from, BYTES, NULL));
	/* A quarter: a line of the array. */
	WORK(ns / 4, cuMemcpyHtoAAsync(array, 0, host, BYTES / 4, stream));
	WORK(ns / 4, cuMemcpyHtoAAsync_v2(array, 0, host, BYTES / 4, stream));
	WORK(ns / 4, cuMemcpyHtoAAsync_v2_ptsz(array, 0, host, BYTES / 4, NULL));
	WORK(ns / 4, cuMemcpyAtoHAsync(host, array, 0, BYTES / 4, stream));
	WORK(ns / 4, cuMemcpyAtoHAsync_v2(host, array, 0, BYTES / 4, stream));
	WORK(ns / 4, cuMemcpyAtoHAsync_v2_ptsz(host, array, 0, BYTES / 4, NULL));
}

static void boxes(uint64_t ns)
{
	CUDA_MEMCPY2D_v1 plane_v1 = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from_v1, .srcPitch = ROW,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to_v1, .dstPitch = ROW, .WidthInBytes = ROW,
		.Height = ROWS };
	CUDA_MEMCPY2D plane = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .srcPitch = ROW,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to, .dstPitch = ROW, .WidthInBytes = ROW,
		.Height = ROWS };
	CUDA_MEMCPY3D_v1 box_v1 = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from_v1, .srcPitch = ROW,
		.srcHeight = ROWS / 2, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to_v1, .dstPitch = ROW,
		.dstHeight = ROWS / 2, .WidthInBytes = ROW, .Height = ROWS / 2, .Depth = 2 };
	CUDA_MEMCPY3D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .srcPitch = ROW,
		.srcHeight = ROWS / 2, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to, .dstPitch = ROW,
		.dstHeight = ROWS / 2, .WidthInBytes = ROW, .Height = ROWS / 2, .Depth = 2 };
	CUDA_MEMCPY3D_PEER peer = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from,
		.srcContext = contexts[0], .srcPitch = ROW, .srcHeight = ROWS, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to, .dstContext = contexts[0], .dstPitch = ROW, .dstHeight = ROWS, .WidthInBytes = ROW,
		.Height = ROWS, .Depth = 1 };
	CUstream stream = streams[0];

	WORK(ns, cuMemcpy2DAsync(&plane_v1, stream));
	WORK(ns, cuMemcpy2DAsync_v2(&plane, stream));
	WORK(ns, cuMemcpy2DAsync_v2_ptsz(&plane, NULL));
	WORK(ns, cuMemcpy3DAsync(&box_v1, stream));
	WORK(ns, cuMemcpy3DAsync_v2(&box, stream));
	WORK(ns, cuMemcpy3DAsync_v2_ptsz(&box, NULL));
	WORK(ns, cuMemcpy3DPeerAsync(&peer, stream));
	WORK(ns, cuMemcpy3DPeerAsync_ptsz(&peer, NULL));
}

#if CUDA_VERSION >= 13020
/* The driver may be older than its header. */
#pragma weak cuMemcpyWithAttributesAsync
#pragma weak cuMemcpyWithAttributesAsync_ptsz
#pragma weak cuMemcpy3DWithAttributesAsync
#pragma weak cuMemcpy3DWithAttributesAsync_ptsz
#endif

static void batches(uint64_t ns)
{
	int version = 0;
	CUdeviceptr targets[2] = { to, to + BYTES / 2 }, sources[2] = { from, from + BYTES / 2 };
	size_t sizes[2] = { BYTES / 2, BYTES / 2 }, first = 0, failed;
	CUmemcpyAttributes ordered = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUDA_MEMCPY3D_BATCH_OP box = {
		.src = { CU_MEMCPY_OPERAND_TYPE_POINTER, { .ptr = { .ptr = from, .rowLength = ROW, .layerHeight = ROWS } } },
		.dst = { CU_MEMCPY_OPERAND_TYPE_POINTER, { .ptr = { .ptr = to, .rowLength = ROW, .layerHeight = ROWS } } },
		.extent = { ROW, ROWS, 1 }, .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};
	CUstream stream = streams[0], per_thread = (CUstream)CU_STREAM_PER_THREAD;

	MUST(cuDriverGetVersion(&version));
	WORK(ns, cuMemcpyBatchAsync(targets, sources, sizes, 2, &ordered, &first, 1, &failed, stream));
	WORK(ns, cuMemcpyBatchAsync_ptsz(targets, sources, sizes, 2, &ordered, &first, 1, &failed, per_thread));
	WORK(ns, cuMemcpyBatchAsync_v2(targets, sources, sizes, 2, &ordered, &first, 1, stream));
	WORK(ns, cuMemcpyBatchAsync_v2_ptsz(targets, sources, sizes, 2, &ordered, &first, 1, per_thread));
	WORK(ns, cuMemcpy3DBatchAsync(1, &box, &failed, 0, stream));
	WORK(ns, cuMemcpy3DBatchAsync_ptsz(1, &box, &failed, 0, per_thread));
	WORK(ns, cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
	WORK(ns, cuMemcpy3DBatchAsync_v2_ptsz(1, &box, 0, per_thread));
#if CUDA_VERSION >= 13020
	if (version >= 13020) {
		WORK(ns, cuMemcpyWithAttributesAsync(to, from, BYTES, &ordered, stream));
		WORK(ns, cuMemcpyWithAttributesAsync_ptsz(to, from, BYTES, &ordered, NULL));
		WORK(ns, cuMemcpy3DWithAttributesAsync(&box, 0, stream));
		WORK(ns, cuMemcpy3DWithAttributesAsync_ptsz(&box, 0, NULL));
	}
#endif
}

static void sets(uint64_t ns)
{
	CUstream stream = streams[0];

	WORK(ns, cuMemsetD8Async(to, 1, BYTES, stream));
	WORK(ns, cuMemsetD8Async_ptsz(to, 1, BYTES, NULL));
	WORK(ns, cuMemsetD16Async(to, 1, BYTES / 2, stream));
	WORK(ns, cuMemsetD16Async_ptsz(to, 1, BYTES / 2, NULL));
	WORK(ns, cuMemsetD32Async(to, 1, BYTES / 4, stream));
	WORK(ns, cuMemsetD32Async_ptsz(to, 1, BYTES / 4, NULL));
	WORK(ns, cuMemsetD2D8Async(to, ROW, 1, ROW, ROWS, stream));
	WORK(ns, cuMemsetD2D8Async_ptsz(to, ROW, 1, ROW, ROWS, NULL));
	WORK(ns, cuMemsetD2D16Async(to, ROW, 1, ROW / 2, ROWS, stream));
	WORK(ns, cuMemsetD2D16Async_ptsz(to, ROW, 1, ROW / 2, ROWS, NULL));
	WORK(ns, cuMemsetD2D32Async(to, ROW, 1, ROW / 4, ROWS, stream));
	WORK(ns, cuMemsetD2D32Async_ptsz(to, ROW, 1, ROW / 4, ROWS, NULL));
}

int main(int argc, char **argv)
{
	uint64_t kernel_ns = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t copy_ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

	MUST(cuInit(0));
	open_device(1);
	open_device(0);
	memory();
	/* What is touched for the first time takes longer. */
	for (int i = 0; i < 2; i++) {
		kernels(kernel_ns);
		on_both_devices(kernel_ns);
		graphs(kernel_ns);
		lines(copy_ns);
		boxes(copy_ns);
		batches(copy_ns);
		sets(copy_ns);
	}
	/* The trace has what is read by a later call. */
	MUST(cuCtxSynchronize());
	return 0;
}
