/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * lives.c - stories of memory whose end is not its free: `lives STORY`, under a limit of 64 MiB on device 0, of 16 GiB.
 * What is charged is read as the program sees it; tests/t/lives.bats compares report, truth and trace.
 *
 * Status 1, with the line, when a check fails.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "own_symbol.h"

#define LIMIT (64 * MiB)
#define INVALID CUDA_ERROR_INVALID_VALUE

static CUcontext context;
static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
	".visible .entry nothing() { ret; }\n";

static uint64_t charged(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	IS(total, LIMIT);
	return total - available;
}

static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr pointer;

	OK(cuMemAlloc_v2(&pointer, bytes));
	return pointer;
}

static void refused(size_t bytes)
{
	CUdeviceptr pointer = POISON;

	IS(cuMemAlloc_v2(&pointer, bytes), OOM);
	IS(pointer, POISON);
}

static CUmemAllocationProp place(int type, int id)
{
	return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = type, .id = id },
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
	CUmemAllocationProp here = place(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, bytes, &here, 0));
	return handle;
}

/* ---- addresses cost nothing ---- */

static void ranges(void)
{
	CUmemAllocationProp here = place(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUmemGenericAllocationHandle handle = POISON, first;
	CUdeviceptr at[4];

	OK(cuMemAddressReserve(&at[0], 18 * GiB, 0, 0, 0)); /* 9/8 of what there is */
	OK(cuMemAddressReserve(&at[1], 32 * GiB, 0, 0, 0));
	IS(charged(), 0);
	first = create(LIMIT);
	OK(cuMemMap(at[0] + 2 * GiB, LIMIT, 0, first, 0));
	/* The limit is reached, and addresses are still to be had; memory for them is not. */
	OK(cuMemAddressReserve(&at[2], 1ull << 40, 0, 0, 0));
	OK(cuMemAddressReserve(&at[3], 2 * MiB, 0, 0, 0));
	IS(cuMemCreate(&handle, 2 * MiB, &here, 0), OOM);
	IS(handle, POISON);
	IS(charged(), LIMIT);
	OK(cuMemUnmap(at[0] + 2 * GiB, LIMIT));
	OK(cuMemRelease(first));
	IS(charged(), 0);
	OK(cuMemAddressFree(at[3], 2 * MiB));
	IS(cuMemAddressFree(at[3], 2 * MiB) != 0, 1);
	IS(cuMemAddressFree(at[1], GiB) != 0, 1); /* not all of it */
}

/* ---- objects for several GPUs ---- */

static void multicasts(void)
{
	CUmulticastObjectProp prop = {
		.numDevices = 2, .size = 64 * MiB, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	CUmemGenericAllocationHandle object, memory, again;
	CUdeviceptr at;

	OK(cuMemAddressReserve(&at, 128 * MiB, 0, 0, 0));
	OK(cuMulticastCreate(&object, &prop));
	OK(cuMulticastAddDevice(object, 0));
	OK(cuMulticastAddDevice(object, 1));
	IS(charged(), 0);
	OK(cuMemMap(at, 64 * MiB, 0, object, 0));
	IS(charged(), 0);
	/* What is bound to it is charged where it was made, and only there. */
	memory = create(32 * MiB);
	OK(cuMulticastBindMem(object, 0, memory, 0, 32 * MiB, 0));
	IS(charged(), 32 * MiB);
	OK(cuMemRetainAllocationHandle(&again, (void *)at));
	IS(again, object);
	OK(cuMemRelease(object));
	IS(charged(), 32 * MiB);
	OK(cuMulticastUnbind(object, 0, 0, 32 * MiB));
	OK(cuMemRelease(memory));
	IS(charged(), 0);
	OK(cuMemUnmap(at, 64 * MiB));
	if (getenv("RELEASE"))
		OK(cuMemRelease(again));
	OK(cuMemAddressFree(at, 128 * MiB));
	IS(charged(), 0);
}

/* ---- registered memory that is gone ---- */

static void registered(void)
{
	void *heap = aligned_alloc(4096, MiB), *other = aligned_alloc(4096, 512 * KiB);
	void *mapped = mmap(NULL, 256 * KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(cuMemHostRegister_v2(heap, MiB, 0));
	OK(cuMemHostRegister(other, 512 * KiB, CU_MEMHOSTREGISTER_PORTABLE));
	OK(cuMemHostRegister_v2(mapped, 256 * KiB, CU_MEMHOSTREGISTER_DEVICEMAP));
	IS(charged(), 0);
	IS(cuMemHostRegister_v2(heap, MiB, 0) != 0, 1);
	OK(cuMemHostUnregister(other));
	free(other);
	/* Those two are given back to the system and not to the driver. */
	free(heap);
	munmap(mapped, 256 * KiB);
	IS(charged(), 0);
}

/* ---- a primary context is reset under everything ---- */

static void reset(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUDA_ARRAY3D_DESCRIPTOR solid = { .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUmipmappedArray mipmap;
	CUmodule module;
	CUstream stream;
	CUevent event;
	CUarray array;
	CUdeviceptr pooled;
	void *pinned;

	take(MiB);
	OK(cuMemAllocManaged(&pooled, MiB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocHost_v2(&pinned, KiB));
	OK(cuArrayCreate_v2(&array, &flat));
	OK(cuMipmappedArrayCreate(&mipmap, &solid, 2));
	OK(cuStreamCreate(&stream, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuModuleLoadData(&module, ptx));
	create(2 * MiB);
	OK(cuMemAllocAsync(&pooled, 3 * MiB, stream));
	OK(cuStreamSynchronize(stream));
	IS(charged(), 7 * MiB + 16384 + 320);
	OK(getenv("FIRST") ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	IS(charged(), 5 * MiB); /* the handle, and what is the pool's */
	OK(cuMemFree_v2(pooled));
	IS(charged(), 2 * MiB);
	refused(LIMIT - 2 * MiB + 1);
	OK(cuMemFree_v2(take(LIMIT - 2 * MiB)));
}

/* ---- a stream that is captured frees nothing yet ---- */

static void capture_frees(void)
{
	CUdeviceptr before, linear;
	CUstream stream;
	CUgraph graph = NULL;
	CUresult result;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&before, 8 * MiB, stream));
	linear = take(4 * MiB);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	/* Whatever the driver says to this, nothing was freed. */
	result = cuMemFreeAsync(before, stream);
	IS(charged(), 12 * MiB);
	if (result == CUDA_SUCCESS)
		result = cuMemFreeAsync(linear, stream);
	IS(charged(), 12 * MiB);
	cuStreamEndCapture(stream, &graph);
	IS(charged(), 12 * MiB);
	OK(cuMemFreeAsync(before, stream));
	OK(cuMemFree_v2(linear));
	IS(charged(), 0);
}

/* ---- pools ---- */

static void kept_by(CUmemoryPool pool, uint64_t bytes)
{
	cuuint64_t reserved;

	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	IS(reserved, bytes);
}

/* With CUWARD_POOLS=reserved: what a pool gave up without a call that says so is there again. */
static void resampled(void)
{
	cuuint64_t all = UINT64_MAX, none = 0;
	CUmemoryPool pool;
	CUdeviceptr pointer;
	CUevent event;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&pointer, 40 * MiB, NULL));
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuStreamSynchronize(NULL));
	kept_by(pool, 0);
	IS(charged(), 0);
	/* Kept, until the next wait after the threshold is lowered; that one is any wait. */
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	OK(cuMemAllocAsync(&pointer, 40 * MiB, NULL));
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuStreamSynchronize(NULL));
	kept_by(pool, 40 * MiB);
	IS(charged(), 40 * MiB);
	refused(40 * MiB);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, NULL));
	OK(cuEventSynchronize(event));
	kept_by(pool, 0);
	OK(cuMemFree_v2(take(60 * MiB)));
	IS(charged(), 0);
	/* Freed, and the pool may have it back at the wait that nobody has to announce. */
	OK(cuMemAllocAsync(&pointer, 40 * MiB, NULL));
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(take(LIMIT)));
	/* A pool of one's own, destroyed while something of it is live. */
	OK(cuMemAllocAsync(&pointer, 10 * MiB, NULL));
	OK(cuMemPoolTrimTo(pool, 0));
	IS(charged(), 10 * MiB);
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuStreamSynchronize(NULL));
	IS(charged(), 0);
}

/* Live bytes go at the free, what the pool keeps at the wait. */
static void live(void)
{
	CUmemoryPool pool;
	CUdeviceptr pointer;
	CUstream stream;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&pointer, MiB, stream));
	IS(charged(), MiB);
	kept_by(pool, 2 * MiB);
	OK(cuMemFreeAsync(pointer, stream));
	IS(charged(), 0);
	OK(cuStreamSynchronize(stream));
	kept_by(pool, 0);
}

static void crossed(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUdeviceptr pointer[4];
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	for (int i = 0; i < 4; i++)
		OK(i % 2 ? cuMemAllocFromPoolAsync_ptsz(&pointer[i], 4 * MiB, pool, NULL) :
			cuMemAllocFromPoolAsync(&pointer[i], 4 * MiB, pool, NULL));
	IS(charged(), 16 * MiB);
	OK(cuMemFree_v2(pointer[0]));
	IS(cuMemFree_v2(pointer[0]), INVALID);
	IS(cuMemFreeAsync(pointer[0], NULL), INVALID);
	IS(charged(), 12 * MiB);
	OK(cuMemFreeAsync(pointer[1], NULL));
	OK(cuMemFreeAsync_ptsz(pointer[2], NULL));
	IS(charged(), 4 * MiB);
	OK(cuMemPoolDestroy(pool));
	IS(charged(), 4 * MiB);
	OK(cuMemFree_v2(pointer[3]));
	IS(charged(), 0);
}

/* ---- places that are no GPU, and none at all ---- */

static void places(void)
{
	static const int hosts[] = { CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
		CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT };
	static const struct {
		int type, id;
	} wrong[] = { { CU_MEM_LOCATION_TYPE_INVALID, 0 }, { CU_MEM_LOCATION_TYPE_DEVICE, 99 },
		{ CU_MEM_LOCATION_TYPE_DEVICE, -1 }, { 77, 0 } };
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	int made = 0;

	take(LIMIT);
	for (int i = 0; i < 3; i++) {
		prop = place(hosts[i], 0);
		handle = POISON;
		if (cuMemCreate(&handle, 128 * MiB, &prop, 0) != CUDA_SUCCESS)
			continue; /* not on every driver */
		IS(charged(), LIMIT);
		OK(cuMemRelease(handle));
		made++;
	}
	IS(made >= 2, 1);
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		prop = place(wrong[i].type, wrong[i].id);
		handle = POISON;
		IS(cuMemCreate(&handle, 2 * MiB, &prop, 0) != 0, 1);
		IS(handle, POISON);
		IS(charged(), LIMIT);
	}
	/* The other GPU has no limit, whatever context is current. */
	prop = place(CU_MEM_LOCATION_TYPE_DEVICE, 1);
	OK(cuMemCreate(&handle, 1 * GiB, &prop, 0));
	IS(charged(), LIMIT);
	printf("%d\n", made);
}

/* ---- shapes that mean nothing ---- */

/* Width, height, size of an element; what the driver says of it, or we of what wraps. */
static void pitches(void)
{
	static const struct {
		size_t width, height;
		unsigned element;
		CUresult result;
	} odd[] = { { 64, 8, 0, INVALID }, { 64, 8, 3, INVALID }, { 64, 8, UINT32_MAX, INVALID }, { 0, 8, 4, INVALID },
		{ 64, 0, 4, INVALID }, { 0, 0, 0, INVALID }, { SIZE_MAX, 1, 4, OOM }, { SIZE_MAX, 8, 0, OOM },
		{ 1ull << 33, 1ull << 31, 4, OOM }, { 1ull << 32, 1ull << 32, 16, OOM }, { 4, SIZE_MAX, 4, OOM } };

	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		CUdeviceptr pointer = POISON;
		size_t pitch = POISON;

		IS(cuMemAllocPitch_v2(&pointer, &pitch, odd[i].width, odd[i].height, odd[i].element), odd[i].result);
		IS(pointer, POISON);
		IS(pitch, POISON);
		IS(charged(), 0);
	}
}

static void shapes(void)
{
	static const size_t odd[][3] = { { 0, 0, 0 }, { 0, 8, 8 }, { SIZE_MAX, 1, 1 }, { SIZE_MAX, SIZE_MAX, SIZE_MAX },
		{ 1ull << 32, 1ull << 32, 0 }, { 1ull << 33, 1ull << 31, 1 }, { 1ull << 62, 4, 0 }, { 3, SIZE_MAX, 0 } };

	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = odd[i][0], .Height = odd[i][1], .Depth = odd[i][2],
			.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
		CUDA_ARRAY_DESCRIPTOR flat = { .Width = odd[i][0], .Height = odd[i][1],
			.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
		CUmipmappedArray mipmap = (CUmipmappedArray)POISON;
		CUarray array = (CUarray)POISON;
		CUresult results[] = { cuArray3DCreate_v2(&array, &shape), cuArrayCreate_v2(&array, &flat),
			cuMipmappedArrayCreate(&mipmap, &shape, 3) };

		for (int k = 0; k < 3; k++)
			IS(results[k] == INVALID || results[k] == OOM, 1);
		IS(array, POISON);
		IS(mipmap, POISON);
		IS(charged(), 0);
	}
	pitches();
}

/* ---- after a refusal the next small request is served, whichever call was refused ---- */

static void refused_on_host(void)
{
	CUmemAllocationProp there = place(CU_MEM_LOCATION_TYPE_HOST, 0);
	CUmemGenericAllocationHandle handle;

	IS(cuMemCreate(&handle, 16 * MiB, &there, 0), OOM);
	OK(cuMemCreate(&handle, 2 * MiB, &there, 0));
	OK(cuMemRelease(handle));
}

static void refused_from_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool;
	CUdeviceptr pointer;

	OK(cuMemPoolCreate(&pool, &props));
	IS(cuMemAllocFromPoolAsync(&pointer, LIMIT + 1, pool, NULL), OOM);
	OK(cuMemAllocFromPoolAsync(&pointer, 1, pool, NULL));
	OK(cuMemFreeAsync(pointer, NULL));
	OK(cuMemPoolDestroy(pool));
}

static void refused_at_launch(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = { .bytesize = 48 * MiB, .poolProps = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } } };
	CUdeviceptr filler;
	CUgraphNode first, last;
	CUgraph graph;
	CUgraphExec exec;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&first, graph, NULL, 0, &node));
	OK(cuGraphAddMemFreeNode(&last, graph, &first, 1, node.dptr));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	filler = take(32 * MiB);
	IS(cuGraphLaunch(exec, NULL), OOM);
	OK(cuMemFree_v2(take(1)));
	OK(cuMemFree_v2(filler));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void refused_first_abi(void)
{
	CUdeviceptr_v1 pointer;
	unsigned pitch;

	IS(cuMemAlloc(&pointer, LIMIT + 1), OOM);
	OK(cuMemAlloc(&pointer, 1));
	OK(cuMemFree(pointer));
	IS(cuMemAllocPitch(&pointer, &pitch, 8192, 65536, 4), OOM);
	OK(cuMemAllocPitch(&pointer, &pitch, 8, 8, 4));
	OK(cuMemFree(pointer));
}

static void small_next(void)
{
	CUmemAllocationProp here = place(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 8192, .Height = 8192, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUDA_ARRAY_DESCRIPTOR tiny = { .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr pointer;
	CUDA_ARRAY3D_DESCRIPTOR deep = { .Width = 8192, .Height = 8192, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUDA_ARRAY3D_DESCRIPTOR shallow = { .Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4 };
	CUmipmappedArray mipmap;
	CUarray array;
	size_t pitch;

	for (int i = 0; i < 3; i++) {
		refused(LIMIT + 1);
		OK(cuMemFree_v2(take(1)));
		IS(cuMemAllocPitch_v2(&pointer, &pitch, 8192, 65536, 4), OOM);
		OK(cuMemAllocPitch_v2(&pointer, &pitch, 8, 8, 4));
		OK(cuMemFree_v2(pointer));
		IS(cuMemAllocManaged(&pointer, LIMIT + 1, CU_MEM_ATTACH_GLOBAL), OOM);
		OK(cuMemAllocManaged(&pointer, 1, CU_MEM_ATTACH_GLOBAL));
		OK(cuMemFree_v2(pointer));
		IS(cuMemAllocAsync(&pointer, LIMIT + 1, NULL), OOM);
		OK(cuMemAllocAsync(&pointer, 1, NULL));
		OK(cuMemFreeAsync(pointer, NULL));
		IS(cuMemCreate(&handle, LIMIT + 2 * MiB, &here, 0), OOM);
		OK(cuMemRelease(create(2 * MiB)));
		IS(cuArrayCreate_v2(&array, &flat), OOM);
		OK(cuArrayCreate_v2(&array, &tiny));
		OK(cuArrayDestroy(array));
		IS(cuArray3DCreate_v2(&array, &deep), OOM);
		OK(cuArray3DCreate_v2(&array, &shallow));
		OK(cuArrayDestroy(array));
		IS(cuMipmappedArrayCreate(&mipmap, &deep, 4), OOM);
		OK(cuMipmappedArrayCreate(&mipmap, &shallow, 4));
		OK(cuMipmappedArrayDestroy(mipmap));
		refused_from_pool();
		refused_at_launch();
		refused_on_host();
		refused_first_abi();
		OK(cuCtxSynchronize());
		IS(charged(), 0);
	}
}

/* ---- heaps that a context keeps for its kernels; LIMIT is charged with what is measured, or is not ---- */

static void heaps(void)
{
	CUcontext other;

	printf("%llu", (unsigned long long)charged() >> 20);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 24 * MiB));
	printf(" %llu", (unsigned long long)charged() >> 20);
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 9 * MiB));
	printf(" %llu", (unsigned long long)charged() >> 20);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 50) != 0, 1);
	printf(" %llu", (unsigned long long)charged() >> 20);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MiB));
	printf(" %llu", (unsigned long long)charged() >> 20);
	/* They go with their context. */
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 40 * MiB));
	printf(" %llu", (unsigned long long)charged() >> 20);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(context));
	printf(" %llu\n", (unsigned long long)charged() >> 20);
}

/* ---- frees by a thread that has no context, or another's, or one that is gone ---- */

static struct {
	CUdeviceptr linear[4], managed, pooled, narrow;
	CUarray array;
	CUmemGenericAllocationHandle handle;
	void *pinned;
} left;

static void *free_all(void *current)
{
	OK(cuCtxSetCurrent(current));
	/* What the driver agrees to is credited, what not is not: both are compared with its truth. */
	cuMemFree_v2(left.linear[0]);
	cuMemFreeAsync(left.linear[1], NULL);
	cuMemFree_v2(left.managed);
	cuMemFree_v2(left.pooled);
	cuArrayDestroy(left.array);
	cuMemRelease(left.handle);
	cuMemFreeHost(left.pinned);
	return NULL;
}

static void elsewhere(void)
{
	CUDA_ARRAY_DESCRIPTOR flat = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	const char *who = getenv("WHO");
	CUcontext other = NULL, none = NULL;
	pthread_t thread;

	OK(cuCtxCreate_v2(&other, 0, strcmp(who, "device") == 0));
	if (strcmp(who, "gone") == 0)
		OK(cuCtxDestroy_v2(other));
	if (strcmp(who, "nobody") == 0)
		other = none;
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 3; i++)
		left.linear[i] = take(MiB);
	OK(cuMemAllocManaged(&left.managed, MiB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocAsync(&left.pooled, MiB, NULL));
	OK(cuArrayCreate_v2(&left.array, &flat));
	left.handle = create(2 * MiB);
	OK(cuMemAllocHost_v2(&left.pinned, MiB));
	OK(cuCtxSynchronize());
	if (strcmp(who, "gone") == 0) {
		cuCtxSetCurrent(other); /* is refused: then it is the one before, as on a real driver */
		free_all(context);
	} else if (pthread_create(&thread, NULL, free_all, other) || pthread_join(thread, NULL)) {
		exit(2);
	}
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
	printf("%llu\n", (unsigned long long)charged());
}

/* ---- a primary context that others retained, around everybody ---- */

typedef CUresult retain(CUcontext *, CUdevice);

static void unseen(void)
{
	retain *around = (retain *)own_symbol("cuDevicePrimaryCtxRetain");
	CUcontext other;
	int round;

	IS(around != NULL, 1);
	for (round = 0; round < 2; round++) {
		OK(around(&other, 0));
		OK(cuCtxSetCurrent(other));
		take(20 * MiB);
		IS(charged(), 20 * MiB);
		/* Somebody else needs it still: nothing goes. */
		OK(around(&other, 0));
		OK(round ? cuDevicePrimaryCtxRelease(0) : cuDevicePrimaryCtxRelease_v2(0));
		IS(charged(), 20 * MiB);
		OK(round ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxRelease_v2(0));
		OK(around(&context, 0));
		OK(cuCtxSetCurrent(context));
		IS(charged(), 0);
		OK(cuMemFree_v2(take(LIMIT)));
		OK(cuDevicePrimaryCtxRelease_v2(0));
	}
}

/* ---- which stream the trace names ---- */

static void streams(void)
{
	CUdeviceptr pointer[2];

	OK(cuMemAllocAsync(&pointer[0], 1000, NULL));
	OK(cuMemAllocAsync_ptsz(&pointer[1], 2000, NULL));
	OK(cuMemAllocAsync(&pointer[0], 3000, CU_STREAM_PER_THREAD));
	OK(cuMemAllocAsync_ptsz(&pointer[1], 4000, CU_STREAM_LEGACY));
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
#define S(name) { #name, name }
	S(ranges), S(multicasts), S(registered), S(reset), S(capture_frees), S(resampled), S(live), S(crossed),
	S(places), S(shapes), S(small_next), S(streams), S(heaps), S(elsewhere), S(unseen),
#undef S
};

int main(int argc, char **argv)
{
	OK(cuInit(0));
	if (argc == 2 && strcmp(argv[1], "unseen") != 0) {
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		OK(cuCtxSetCurrent(context));
	}
	for (unsigned i = 0; argc == 2 && i < sizeof(stories) / sizeof(stories[0]); i++) {
		if (strcmp(stories[i].name, argv[1]) == 0) {
			stories[i].tell();
			return 0;
		}
	}
	return 2;
}
