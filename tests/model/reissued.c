/*
 * reissued.c - handles that the driver gives out again while the call that ended the first one is on its
 * way back to the program: `reissued ROUNDS`. What is known of the second one must stay.
 *
 * Give cuMemPoolDestroy and cuGreenCtxDestroy a delay behind what they do, and handles are reused at once.
 */
#include <cuda.h>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../apps/check.h"
#include "seen.h"

static CUcontext primary[SEEN_DEVICES];
static int wrong;

static void compare(const char *when)
{
	struct seen ours, theirs;

	seen_read(&ours);
	seen_truth(&theirs);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		if (ours.bytes[kind] == theirs.bytes[kind])
			continue;
		fprintf(stderr, "%s: %s: the ledger says %lld, the driver %lld\n", when, seen_kinds[kind],
			(long long)ours.bytes[kind], (long long)theirs.bytes[kind]);
		wrong++;
	}
	for (int i = 0; i < SEEN_DEVICES; i++) {
		if (ours.used[i] == theirs.used[i])
			continue;
		fprintf(stderr, "%s: device %d: %llu charged of %llu\n", when, i,
			(unsigned long long)ours.used[i], (unsigned long long)theirs.used[i]);
		wrong++;
	}
}

/* ---- one thread ends, the other one makes ---- */

static void *end_pool(void *pool)
{
	OK(cuMemPoolDestroy((CUmemoryPool)pool));
	return NULL;
}

static void *end_green(void *green)
{
	OK(cuGreenCtxDestroy((CUgreenCtx)green));
	return NULL;
}

/* Returns once the driver has surely done what is asked of it, and the call is not back yet. */
static pthread_t begin_to_end(void *(*how)(void *), const char *symbol, void *handle)
{
	int call = sim->call(symbol);
	uint64_t before = sim->count(call);
	pthread_t thread;

	pthread_create(&thread, NULL, how, handle);
	while (sim->count(call) == before)
		sched_yield();
	usleep(5000);
	return thread;
}

static CUmemoryPool pool_on(int device)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

/* A pool of the other device: whose memory is it? */
static bool pools(void)
{
	CUmemoryPool first = pool_on(0), second;
	pthread_t thread = begin_to_end(end_pool, "cuMemPoolDestroy", first);
	CUdeviceptr memory;

	second = pool_on(1);
	pthread_join(thread, NULL);
	OK(cuMemAllocFromPoolAsync(&memory, 3000, second, NULL));
	compare("pools");
	OK(cuMemFreeAsync(memory, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(second));
	compare("pools, freed");
	return first == second;
}

static CUgreenCtx green_of(CUcontext *face)
{
	CUdevResource all;
	CUdevResourceDesc some;
	CUgreenCtx green;

	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&some, &all, 1));
	OK(cuGreenCtxCreate(&green, some, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuCtxFromGreenCtx(face, green));
	return green;
}

/* What is made in a green context is the primary one's, and goes with that. */
static bool greens(void)
{
	CUcontext face, again;
	CUgreenCtx first = green_of(&face), second;
	pthread_t thread = begin_to_end(end_green, "cuGreenCtxDestroy", first);
	CUdeviceptr memory;

	second = green_of(&again);
	pthread_join(thread, NULL);
	OK(cuCtxSetCurrent(again));
	OK(cuMemAlloc_v2(&memory, 3000));
	compare("green contexts");
	OK(cuCtxSetCurrent(primary[1]));
	OK(cuGreenCtxDestroy(second));
	OK(cuDevicePrimaryCtxReset_v2(0));
	compare("green contexts, reset");
	OK(cuDevicePrimaryCtxRetain(&primary[0], 0));
	OK(cuCtxSetCurrent(primary[0]));
	return first == second;
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0, met[2] = { 0 };

	if (rounds < 1 || cuInit(0))
		return 2;
	seen_open();
	for (int i = SEEN_DEVICES - 1; i >= 0; i--) {
		OK(cuDevicePrimaryCtxRetain(&primary[i], i));
		OK(cuCtxSetCurrent(primary[i]));
	}
	for (int i = 0; i < rounds; i++) {
		met[0] += pools();
		met[1] += greens();
	}
	printf("%d wrong, %s pools and %s green contexts had the same handle\n", wrong,
		met[0] ? "some" : "no", met[1] ? "some" : "no");
	return wrong != 0;
}
