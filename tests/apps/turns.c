/*
 * turns.c - threads that wait for memory under CUWARD_MEMORY=8M CUWARD_ON_LIMIT=wait, and one that gives it
 * back and wants it again: `turns threads`, `turns barge`.
 *
 *	threads	one thread waits for 2M, the next for 2M, a third for 1M; then 2M, 2M and 1M come free, one after
 *		the other. Prints who got memory, in that order.
 *	barge	holds 8M, and once the file `go` is there gives 4M back and wants them again, at once, at most
 *		1000 times: until they are refused. Prints how often it got them before somebody else did.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static CUcontext context;
static volatile int asked;

static void *want(void *mib)
{
	CUdeviceptr pointer;

	OK(cuCtxSetCurrent(context));
	asked = 1;
	OK(cuMemAlloc(&pointer, (uintptr_t)mib * MiB));
	return NULL;
}

static pthread_t start(uintptr_t mib)
{
	pthread_t thread;

	asked = 0;
	pthread_create(&thread, NULL, want, (void *)mib);
	while (!asked)
		usleep(1000);
	usleep(300000); /* it waits by now */
	return thread;
}

static int threads(void)
{
	static const int sizes[] = { 2, 2, 1 };
	CUdeviceptr held[8];
	pthread_t all[3];
	int freed = 0;

	for (int i = 0; i < 8; i++)
		OK(cuMemAlloc(&held[i], MiB));
	for (int i = 0; i < 3; i++)
		all[i] = start(sizes[i]);
	for (int i = 0; i < 3; i++) {
		for (int mib = 0; mib < sizes[i]; mib++)
			OK(cuMemFree(held[freed++]));
		/* Whoever is not next would be at it for ever. */
		pthread_join(all[i], NULL);
		printf("%d\n", i);
		fflush(stdout);
	}
	return 0;
}

static int barge(void)
{
	CUdeviceptr first, second;
	int times = 0;

	OK(cuMemAlloc(&first, 4 * MiB));
	OK(cuMemAlloc(&second, 4 * MiB));
	puts("held");
	fflush(stdout);
	while (access("go", F_OK) != 0)
		usleep(1000);
	do {
		OK(cuMemFree(second));
	} while (++times <= 1000 && cuMemAlloc(&second, 4 * MiB) == CUDA_SUCCESS);
	printf("%d\n", times);
	fflush(stdout);
	sleep(600);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return strcmp(argv[1], "threads") == 0 ? threads() : strcmp(argv[1], "barge") == 0 ? barge() : 2;
}
