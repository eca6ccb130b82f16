/*
 * dying.c - contexts that are destroyed while other threads allocate and free in them: `dying THREADS
 * ROUNDS`. After each, both sides must know of the same memory: of none.
 *
 * Whether a call was before the end or after it the driver decides, and says so in its answer. Give the
 * calls a delay before and behind what they do, and the end comes while the shim is half through.
 */
#include <cuda.h>
#include <cudaProfiler.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

#define HELD 8
#define THREADS_MAX 16

enum way { DEVICE, MANAGED, PITCH, ARRAY, PINNED, EVENT, WAYS };

static CUcontext context;
static bool stop, end;
static pthread_barrier_t barrier;
static uint64_t taken, freed, late; /* calls that came after the end */

static CUresult take(enum way way, uint64_t *handle)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 100, 10, CU_AD_FORMAT_FLOAT, 1 };
	size_t pitch;

	switch (way) {
	case MANAGED:
		return cuMemAllocManaged((CUdeviceptr *)handle, 3000, CU_MEM_ATTACH_GLOBAL);
	case PITCH:
		return cuMemAllocPitch_v2((CUdeviceptr *)handle, &pitch, 100, 10, 4);
	case ARRAY:
		return cuArrayCreate_v2((CUarray *)handle, &shape);
	case PINNED:
		return cuMemAllocHost_v2((void **)handle, 5000);
	case EVENT:
		return cuEventCreate((CUevent *)handle, 0);
	default:
		return cuMemAlloc_v2((CUdeviceptr *)handle, 1000);
	}
}

static CUresult give_back(enum way way, uint64_t handle)
{
	switch (way) {
	case ARRAY:
		return cuArrayDestroy((CUarray)handle);
	case PINNED:
		return cuMemFreeHost((void *)handle);
	case EVENT:
		return cuEventDestroy_v2((CUevent)handle);
	default:
		return cuMemFree_v2(handle);
	}
}

static void count(uint64_t *calls, CUresult result)
{
	__atomic_add_fetch(result == CUDA_SUCCESS ? calls : &late, 1, __ATOMIC_RELAXED);
}

static void one_round(uint64_t *random)
{
	uint64_t held[HELD] = { 0 };
	enum way ways[HELD];

	cuCtxSetCurrent(context);
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		unsigned place;

		*random = *random * 6364136223846793005ull + 1442695040888963407ull;
		place = *random >> 60 & (HELD - 1);
		if (held[place]) {
			count(&freed, give_back(ways[place], held[place]));
			held[place] = 0;
			continue;
		}
		ways[place] = (*random >> 33) % WAYS;
		count(&taken, take(ways[place], &held[place]));
	}
}

static void *work(void *number)
{
	uint64_t random = (uint64_t)number * 2 + 1;

	for (;;) {
		pthread_barrier_wait(&barrier);
		if (end)
			return NULL;
		one_round(&random);
		pthread_barrier_wait(&barrier);
	}
}

/* Both sides are looked at while all threads rest. */
static int differences(int round)
{
	struct seen ours, theirs;
	int wrong = 0;

	seen_read(&ours);
	seen_truth(&theirs);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		if (ours.live[kind] == theirs.live[kind] && ours.bytes[kind] == theirs.bytes[kind])
			continue;
		fprintf(stderr, "round %d: %s: the ledger says %lld of %lld bytes, the driver %lld of %lld\n",
			round, seen_kinds[kind], (long long)ours.live[kind], (long long)ours.bytes[kind],
			(long long)theirs.live[kind], (long long)theirs.bytes[kind]);
		wrong++;
	}
	if (ours.used[0] != theirs.used[0] || ours.objects[OBJECT_EVENT] != 0) {
		fprintf(stderr, "round %d: %llu charged of %llu, %lld events\n", round,
			(unsigned long long)ours.used[0], (unsigned long long)theirs.used[0],
			(long long)ours.objects[OBJECT_EVENT]);
		wrong++;
	}
	return wrong;
}

/* Until the others are at it. */
static void let_them_work(uint64_t calls)
{
	uint64_t before = __atomic_load_n(&taken, __ATOMIC_RELAXED);

	while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < before + calls)
		sched_yield();
}

int main(int argc, char **argv)
{
	int threads = argc == 3 ? atoi(argv[1]) : 0, rounds = argc == 3 ? atoi(argv[2]) : 0;
	pthread_t ids[THREADS_MAX];
	int wrong = 0;

	if (threads < 1 || threads > THREADS_MAX || rounds < 1 || cuInit(0))
		return 2;
	seen_open();
	pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, (void *)i);
	for (int round = 0; round < rounds && !wrong; round++) {
		if (cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
			return 3;
		stop = false;
		pthread_barrier_wait(&barrier);
		let_them_work(1 + (uint64_t)round % 20);
		if (cuCtxDestroy_v2(context) != CUDA_SUCCESS)
			return 3;
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
		pthread_barrier_wait(&barrier);
		wrong = differences(round);
	}
	end = true;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("%d different, %s\n", wrong, late ? "some calls were late" : "no call was late");
	fprintf(stderr, "%llu taken, %llu freed, %llu late\n", (unsigned long long)taken,
		(unsigned long long)freed, (unsigned long long)late);
	return wrong != 0;
}
