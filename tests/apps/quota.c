/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * quota.c - one small story of memory under a limit: `quota STORY`. It checks what the program
 * itself sees; tests/t/quota.bats compares the report and the truth of the simulated driver.
 *
 * The driver is reached by the route of route.h. Status 1, with the line, when a check fails.
 */
#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "route.h"

static CUcontext context_on(int device)
{
	CUcontext context;

	IS(cu.cuDevicePrimaryCtxRetain(&context, device), 0);
	IS(cu.cuCtxSetCurrent(context), 0);
	return context;
}

static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr pointer;

	IS(cu.cuMemAlloc_v2(&pointer, bytes), 0);
	return pointer;
}

/* One call site, whatever the compiler thinks of it. */
static __attribute__((noinline)) void refused(size_t bytes)
{
	CUdeviceptr pointer = POISON;

	IS(cu.cuMemAlloc_v2(&pointer, bytes), OOM);
	IS(pointer, POISON);
}

/* ---- plain device memory ---- */

static void to_the_byte(void)
{
	take(MiB);
	refused(1);
	refused(SIZE_MAX);
	refused(1ull << 46);
	refused((1ull << 46) + 1);
}

static void again(void)
{
	IS(cu.cuMemFree_v2(take(MiB)), 0);
	take(MiB);
}

static void nothing(void)
{
	CUdeviceptr pointer = POISON;

	IS(cu.cuMemAlloc_v2(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
	IS(pointer, POISON);
	take(MiB);
	IS(cu.cuMemAlloc_v2(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
	IS(cu.cuMemAlloc_v2(NULL, KiB), OOM);
}

static void one_fails(void)
{
	CUdeviceptr pointer = POISON;

	IS(cu.cuMemAlloc_v2(&pointer, KiB), OOM);
	IS(pointer, POISON);
}

static void free_fails(void)
{
	CUdeviceptr pointer = take(MiB);

	IS(cu.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
	refused(1);
	IS(cu.cuMemFree_v2(pointer), 0);
	take(MiB);
}

static void free_twice(void)
{
	CUdeviceptr kept = take(KiB);
	CUdeviceptr pointer = take(KiB);

	(void)kept;
	IS(cu.cuMemFree_v2(pointer), 0);
	IS(cu.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
}

static void free_null(void)
{
	take(KiB);
	IS(cu.cuMemFree_v2(0), 0);
}

static void free_inside(void)
{
	CUdeviceptr pointer = take(KiB);

	IS(cu.cuMemFree_v2(pointer + 256), CUDA_ERROR_INVALID_VALUE);
}

static void free_unknown(void)
{
	take(KiB);
	IS(cu.cuMemFree_v2(0x123456789000), CUDA_ERROR_INVALID_VALUE);
}

static CUcontext shared_context;

static void *take_one(void *result)
{
	CUdeviceptr pointer = POISON;

	IS(cu.cuCtxSetCurrent(shared_context), 0);
	*(CUresult *)result = cu.cuMemAlloc_v2(&pointer, MiB);
	return NULL;
}

static void threads(void)
{
	pthread_t id[32];
	CUresult result[32];
	int granted = 0;

	shared_context = context_on(0);
	for (int i = 0; i < 32; i++)
		pthread_create(&id[i], NULL, take_one, &result[i]);
	for (int i = 0; i < 32; i++) {
		pthread_join(id[i], NULL);
		granted += result[i] == CUDA_SUCCESS;
		IS(result[i] == CUDA_SUCCESS || result[i] == OOM, 1);
	}
	IS(granted, 16);
}

/* Memory of device 0 is freed while device 1 is current. */
static void free_elsewhere(void)
{
	CUdeviceptr pointer = take(MiB);

	context_on(1);
	take(MiB);
	refused(1);
	IS(cu.cuMemFree_v2(pointer), 0);
	refused(1);
	context_on(0);
	take(MiB - 1);
}

static void pitched(void)
{
	CUdeviceptr pointer = POISON;
	size_t pitch = 0;

	IS(cu.cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 4), 0);
	IS(pitch, 512);
	refused(MiB - 5120 + 1);
	take(MiB - 5120);
}

static void pitched_too_far(void)
{
	CUdeviceptr pointer = POISON;
	size_t pitch = POISON;

	IS(cu.cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 4), OOM);
	IS(pointer, POISON);
	IS(pitch, POISON);
	take(4096);
}

/* Sizes that overflow or mean nothing: the driver's error or OOM, and nothing held. */
static void pitched_oddly(void)
{
	static const size_t sizes[][3] = { { 0, 10, 4 }, { 100, 0, 4 }, { 100, 10, 3 },
		{ 1ull << 40, 1ull << 40, 4 }, { SIZE_MAX, SIZE_MAX, 16 }, { SIZE_MAX, 1, 16 } };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CUdeviceptr pointer = POISON;
		size_t pitch = POISON;
		CUresult result = cu.cuMemAllocPitch_v2(&pointer, &pitch, sizes[i][0], sizes[i][1],
			(unsigned)sizes[i][2]);

		IS(result == CUDA_ERROR_INVALID_VALUE || result == OOM, 1);
		IS(pointer, POISON);
		IS(pitch, POISON);
	}
}

/* The first ABI: 32-bit pointers and sizes. What follows the pointer must stay. */
static void first_abi(void)
{
	struct {
		CUdeviceptr_v1 pointer;
		unsigned int after;
	} one = { 0, 0x5a5a5a5a }, two = { 0x5a5a5a5a, 0x5a5a5a5a };
	unsigned int pitch;
	CUdeviceptr_v1 pitched;

	IS(cu.cuMemAlloc(&one.pointer, (unsigned)MiB), 0);
	IS(one.after, 0x5a5a5a5a);
	IS(cu.cuMemAlloc(&two.pointer, 1), OOM);
	IS(two.pointer, 0x5a5a5a5a);
	IS(cu.cuMemFree(one.pointer), 0);
	IS(cu.cuMemFree(one.pointer), CUDA_ERROR_INVALID_VALUE);
	IS(cu.cuMemAllocPitch(&pitched, &pitch, 100, 10, 4), 0);
	IS(pitch, 512);
	refused(MiB - 5120 + 1);
	take(MiB - 5120);
}

static void two_devices(void)
{
	context_on(1);
	take(2 * MiB);
	refused(1);
	context_on(0);
	refused(MiB + 1);
	context_on(1);
}

static void unlimited(void)
{
	size_t room, total;

	take(3 * GiB);
	IS(cu.cuMemGetInfo_v2(&room, &total), 0);
	IS(total, 16 * GiB);
	IS(room, 13 * GiB - 300 * MiB);
	IS(cu.cuDeviceTotalMem_v2(&total, 0), 0);
	IS(total, 16 * GiB);
}

/* ---- contexts ---- */

static void context_dies(void)
{
	CUcontext context;

	IS(cu.cuCtxCreate_v2(&context, 0, 0), 0);
	take(MiB);
	IS(cu.cuCtxDestroy_v2(context), 0);
	context_on(0);
	take(MiB);
	refused(1);
}

static void pool_memory_stays(void)
{
	CUcontext context;
	CUdeviceptr pointer;

	IS(cu.cuCtxCreate_v2(&context, 0, 0), 0);
	IS(cu.cuMemAllocAsync(&pointer, MiB, NULL), 0);
	IS(cu.cuCtxDestroy_v2(context), 0);
	context_on(0);
	refused(1);
}

static void primary_released(void)
{
	context_on(0);
	take(MiB);
	IS(cu.cuDevicePrimaryCtxRelease_v2(0), 0);
	refused(1);
	IS(cu.cuDevicePrimaryCtxRelease(0), 0);
	context_on(0);
	take(MiB);
	refused(1);
}

static void primary_reset(void)
{
	CUstream stream;
	CUevent event;
	void *pinned;

	take(MiB);
	IS(cu.cuMemAllocHost_v2(&pinned, KiB), 0);
	IS(cu.cuStreamCreate(&stream, 0), 0);
	IS(cu.cuEventCreate(&event, 0), 0);
	IS(cu.cuDevicePrimaryCtxReset_v2(0), 0);
	context_on(0);
	take(MiB);
	refused(1);
}

/* ---- pools ---- */

static void async(void)
{
	CUdeviceptr pointer;
	CUstream stream;

	IS(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
	IS(cu.cuMemAllocAsync(&pointer, MiB, stream), 0);
	refused(1);
	IS(cu.cuMemFreeAsync(pointer, stream), 0);
	IS(cu.cuMemAllocAsync(&pointer, MiB, stream), 0);
	IS(cu.cuMemFreeAsync(pointer, stream), 0);
	IS(cu.cuStreamSynchronize(stream), 0);
	IS(cu.cuStreamDestroy_v2(stream), 0);
}

static void async_crossed(void)
{
	CUdeviceptr pointer = 0;

	IS(cu.cuMemAllocAsync(&pointer, MiB, NULL), 0);
	IS(cu.cuStreamSynchronize(NULL), 0);
	IS(cu.cuMemFree_v2(pointer), 0);
	pointer = take(MiB);
	refused(1);
	IS(cu.cuMemFreeAsync(pointer, NULL), 0);
	IS(cu.cuStreamSynchronize(NULL), 0);
	take(MiB);
}

static void async_free_fails(void)
{
	CUdeviceptr pointer;

	IS(cu.cuMemAllocAsync(&pointer, MiB, NULL), 0);
	IS(cu.cuMemFreeAsync(pointer, NULL), CUDA_ERROR_INVALID_VALUE);
	refused(1);
}

static void async_refused(void)
{
	CUdeviceptr pointer = POISON;

	IS(cu.cuMemAllocAsync(&pointer, MiB + 1, NULL), OOM);
	IS(pointer, POISON);
	IS(cu.cuMemAllocAsync(&pointer, MiB, NULL), 0);
}

/* The device is the pool's, whatever context and stream are current; 1 has half of the limit. */
static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 } };
	CUdeviceptr pointer;
	CUmemoryPool pool;

	IS(cu.cuMemPoolCreate(&pool, &props), 0);
	IS(cu.cuMemAllocFromPoolAsync(&pointer, MiB, pool, NULL), 0);
	IS(cu.cuMemAllocFromPoolAsync(&pointer, 1, pool, NULL), OOM);
	take(2 * MiB);
	refused(1);
	IS(cu.cuMemFreeAsync(pointer, NULL), 0);
	IS(cu.cuMemPoolDestroy(pool), 0);
	IS(cu.cuDeviceGetDefaultMemPool(&pool, 1), 0);
	IS(cu.cuMemAllocFromPoolAsync(&pointer, MiB, pool, NULL), 0);
	IS(cu.cuMemAllocFromPoolAsync(&pointer, 1, pool, NULL), OOM);
}

static void host_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0 } };
	CUdeviceptr pointer;
	CUmemoryPool pool;

	IS(cu.cuMemPoolCreate(&pool, &props), 0);
	IS(cu.cuMemAllocFromPoolAsync(&pointer, 8 * MiB, pool, NULL), 0);
	take(MiB);
	refused(1);
}

/* What a pool keeps for itself is not charged: live bytes are. */
static void pool_keeps(void)
{
	CUdeviceptr pointer;
	CUmemoryPool pool;
	cuuint64_t all = UINT64_MAX, reserved;

	IS(cu.cuDeviceGetDefaultMemPool(&pool, 0), 0);
	IS(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), 0);
	for (int i = 0; i < 10000; i++) {
		IS(cu.cuMemAllocAsync(&pointer, MiB - 97 * (i % 1000), NULL), 0);
		IS(cu.cuMemFreeAsync(pointer, NULL), 0);
	}
	IS(cu.cuStreamSynchronize(NULL), 0);
	IS(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved), 0);
	IS(reserved >= MiB, 1);
	IS(cu.cuMemFree_v2(take(MiB)), 0);
	IS(cu.cuMemPoolTrimTo(pool, 0), 0);
	take(MiB);
}

/* ---- host and managed memory ---- */

static void host(void)
{
	static char registered[64 * KiB] __attribute__((aligned(4096)));
	void *pinned = NULL;

	take(MiB);
	IS(cu.cuMemHostAlloc(&pinned, 8 * MiB, 0), 0);
	memset(pinned, 1, 8 * MiB);
	IS(cu.cuMemFreeHost(pinned), 0);
	IS(cu.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	IS(cu.cuMemAllocHost_v2(&pinned, 8 * MiB), 0);
	IS(cu.cuMemFreeHost(pinned), 0);
	IS(cu.cuMemAllocHost(&pinned, KiB), 0);
	IS(cu.cuMemFreeHost(pinned), 0);
	IS(cu.cuMemHostRegister(registered, 4096, 0), 0);
	IS(cu.cuMemHostUnregister(registered), 0);
	IS(cu.cuMemHostRegister_v2(registered, sizeof(registered), 0), 0);
}

static void managed(void)
{
	CUdeviceptr pointer = POISON;
	CUresult result = cu.cuMemAllocManaged(&pointer, 8 * MiB, CU_MEM_ATTACH_GLOBAL);

	IS(result, getenv("CUWARD_MANAGED") ? 0 : OOM);
	IS(pointer == POISON, result != 0);
	IS(cu.cuMemAllocManaged(&pointer, MiB, CU_MEM_ATTACH_GLOBAL), 0);
}

/* ---- queries: the limit is 4G of 16G, of which others hold what OTHERS says ---- */

static void info(void)
{
	uint64_t others = getenv("OTHERS") ? strtoull(getenv("OTHERS"), NULL, 10) << 30 : 0;
	uint64_t real = 16 * GiB - 300 * MiB - others;
	size_t room, total;
	unsigned int room_v1, total_v1;

	take(GiB);
	IS(cu.cuMemGetInfo_v2(&room, &total), 0);
	IS(total, 4 * GiB);
	IS(room, real - GiB < 3 * GiB ? real - GiB : 3 * GiB);
	IS(cu.cuDeviceTotalMem_v2(&total, 0), 0);
	IS(total, 4 * GiB);
	IS(cu.cuDeviceTotalMem(&total_v1, 0), 0);
	IS(total_v1, UINT32_MAX);
	IS(cu.cuMemGetInfo(&room_v1, &total_v1), 0);
	IS(total_v1, UINT32_MAX);
	IS(room_v1, room < UINT32_MAX ? room : UINT32_MAX);
	IS(cu.cuDeviceTotalMem_v2(&total, 1), 0);
	IS(total, 16 * GiB);
	context_on(1);
	IS(cu.cuMemGetInfo_v2(&room, &total), 0);
	IS(total, 16 * GiB);
}

static void info_without_context(void)
{
	size_t room = POISON, total = POISON;

	IS(cu.cuCtxSetCurrent(NULL), 0);
	IS(cu.cuMemGetInfo_v2(&room, &total), CUDA_ERROR_INVALID_CONTEXT);
	IS(room, POISON);
	IS(total, POISON);
}

/* ---- a driver that fails: FAULT names the call that does, once, with error CODE ---- */

static void each_call(CUresult wanted[], CUdeviceptr out[])
{
	static char registered[4096] __attribute__((aligned(4096)));
	CUdeviceptr_v1 narrow = 0x5a5a5a5a;
	unsigned int narrow_pitch = 0x5a5a5a5a;
	size_t pitch = POISON;
	int i = 0;

	for (int j = 0; j < 16; j++)
		out[j] = POISON;
	wanted[i] = cu.cuMemAlloc_v2(&out[i], KiB), i++;
	wanted[i] = cu.cuMemAllocPitch_v2(&out[i], &pitch, 100, 10, 4), i++;
	wanted[i] = cu.cuMemAllocManaged(&out[i], KiB, CU_MEM_ATTACH_GLOBAL), i++;
	wanted[i] = cu.cuMemAllocHost_v2((void **)&out[i], KiB), i++;
	wanted[i] = cu.cuMemHostAlloc((void **)&out[i], KiB, 0), i++;
	wanted[i] = cu.cuMemAllocAsync(&out[i], KiB, NULL), i++;
	wanted[i] = cu.cuMemHostRegister_v2(registered, sizeof(registered), 0), i++;
	wanted[i] = cu.cuMemAlloc(&narrow, KiB), i++;
	out[7] = wanted[7] ? narrow == 0x5a5a5a5a ? POISON : 0 : narrow;
	wanted[i] = cu.cuMemAllocPitch(&narrow, &narrow_pitch, 100, 10, 4), i++;
	out[8] = wanted[8] ? narrow_pitch == 0x5a5a5a5a ? POISON : 0 : narrow;
	wanted[i] = cu.cuMemAllocHost((void **)&out[i], KiB), i++;
	IS(!wanted[1] == (pitch == 512), 1);
	out[6] = wanted[6] ? POISON : (CUdeviceptr)registered;
}

static void faults(void)
{
	static const char *const names[] = { "cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged",
		"cuMemAllocHost_v2", "cuMemHostAlloc", "cuMemAllocAsync", "cuMemHostRegister_v2",
		"cuMemAlloc", "cuMemAllocPitch", "cuMemAllocHost" };
	CUresult code = (CUresult)atoi(getenv("CODE"));
	CUresult results[16];
	CUdeviceptr out[16];

	each_call(results, out);
	for (int i = 0; i < 10; i++) {
		IS(results[i], strcmp(names[i], getenv("FAULT")) ? 0 : code);
		IS(out[i] == POISON, results[i] != 0);
	}
}

/* A free that fails once keeps everything; the second one works. */
static void free_faults(void)
{
	CUresult code = (CUresult)atoi(getenv("CODE"));
	static char registered[4096] __attribute__((aligned(4096)));
	CUresult results[6], seconds[6];
	CUdeviceptr plain = take(KiB), async;
	CUdeviceptr_v1 narrow;
	void *pinned;
	int failed = 0;

	IS(cu.cuMemAlloc(&narrow, KiB), 0);
	IS(cu.cuMemAllocAsync(&async, KiB, NULL), 0);
	IS(cu.cuMemAllocHost_v2(&pinned, KiB), 0);
	IS(cu.cuMemHostRegister_v2(registered, sizeof(registered), 0), 0);
#define TWICE(i, call) \
	results[i] = call, seconds[i] = results[i] ? call : CUDA_SUCCESS
	TWICE(0, cu.cuMemFree_v2(plain));
	TWICE(1, cu.cuMemFree(narrow));
	TWICE(2, cu.cuMemFreeAsync(async, NULL));
	TWICE(3, cu.cuMemFreeHost(pinned));
	TWICE(4, cu.cuMemHostUnregister(registered));
	for (int i = 0; i < 5; i++) {
		IS(results[i] == 0 || results[i] == code, 1);
		failed += results[i] != 0;
		IS(seconds[i], 0);
	}
	IS(failed, 1);
}

#define STORY(name) { #name, name }

static const struct {
	const char *name;
	void (*play)(void);
} stories[] = {
	STORY(to_the_byte), STORY(again), STORY(nothing), STORY(one_fails), STORY(free_fails),
	STORY(free_twice), STORY(free_null), STORY(free_inside), STORY(free_unknown), STORY(threads),
	STORY(free_elsewhere), STORY(pitched), STORY(pitched_too_far), STORY(pitched_oddly),
	STORY(first_abi), STORY(two_devices), STORY(unlimited), STORY(context_dies),
	STORY(pool_memory_stays), STORY(primary_released), STORY(primary_reset), STORY(async),
	STORY(async_crossed), STORY(async_free_fails), STORY(async_refused), STORY(pools),
	STORY(host_pool), STORY(pool_keeps), STORY(host), STORY(managed), STORY(info),
	STORY(info_without_context), STORY(faults), STORY(free_faults),
};

int main(int argc, char **argv)
{
	route_open();
	IS(cu.cuInit(0), 0);
	context_on(0);
	for (unsigned i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		if (argc > 1 && !strcmp(stories[i].name, argv[1])) {
			stories[i].play();
			return 0;
		}
	}
	fprintf(stderr, "quota: no such story\n");
	return 2;
}
