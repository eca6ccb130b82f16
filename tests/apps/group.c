/*
 * group.c - processes and threads that share a limit, as fast as they can:
 *
 *	group PROCESSES THREADS GRANTS BYTES [HOLD [US]]
 *
 * Each thread allocates BYTES, holds up to HOLD (default 4) of them and frees at random, until all of
 * them together were granted GRANTS; US is how long it sleeps between two calls. Prints `granted N refused M milliseconds T`. Status 1 if a call
 * answered anything but success or out of memory.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct shared {
	long granted;
	long refused;
	long wanted;
	int ready;
	int go;
	int failed;
} *shared;

static size_t bytes;
static unsigned hold = 4, pause_us;
static CUcontext context;

static unsigned next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static void check(CUresult result)
{
	if (result != CUDA_SUCCESS)
		__atomic_store_n(&shared->failed, result, __ATOMIC_RELAXED);
}

static void *work(void *number)
{
	uint64_t state = (uintptr_t)number * 7919 + getpid();
	CUdeviceptr held[64];
	unsigned count = 0;

	check(cuCtxSetCurrent(context));
	while (!__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE))
		usleep(100);
	while (__atomic_load_n(&shared->granted, __ATOMIC_RELAXED) < shared->wanted && !shared->failed) {
		CUresult result = CUDA_SUCCESS;

		if (count < hold && (count == 0 || next(&state) % 2)) {
			result = cuMemAlloc_v2(&held[count], bytes);
			count += result == CUDA_SUCCESS;
			__atomic_fetch_add(result == CUDA_SUCCESS ? &shared->granted : &shared->refused, 1,
				__ATOMIC_RELAXED);
		} else {
			check(cuMemFree_v2(held[--count]));
		}
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			check(result);
		if (pause_us)
			usleep(pause_us);
	}
	while (count)
		check(cuMemFree_v2(held[--count]));
	return NULL;
}

static int process(unsigned threads)
{
	pthread_t all[64];
	CUdevice device;

	check(cuInit(0));
	check(cuDeviceGet(&device, 0));
	check(cuDevicePrimaryCtxRetain(&context, device));
	for (uintptr_t i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, (void *)(i + 1));
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return shared->failed != 0;
}

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	int processes = argc > 4 ? atoi(argv[1]) : 0;
	double began;
	int status, failed = 0;

	if (!processes)
		return 2;
	alarm(120); /* whatever happens to those who started us */
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared->wanted = atol(argv[3]);
	bytes = strtoull(argv[4], NULL, 0);
	hold = argc > 5 ? (unsigned)atoi(argv[5]) : hold;
	pause_us = argc > 6 ? (unsigned)atoi(argv[6]) : 0;
	for (int i = 0; i < processes; i++) {
		if (fork() == 0) {
			alarm(120);
			exit(process(atoi(argv[2])));
		}
	}
	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) < processes && !shared->failed)
		usleep(1000);
	began = milliseconds();
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	while (wait(&status) > 0)
		failed |= status;
	printf("granted %ld refused %ld milliseconds %.0f\n", shared->granted, shared->refused,
		milliseconds() - began);
	return failed || shared->failed ? 1 : 0;
}
