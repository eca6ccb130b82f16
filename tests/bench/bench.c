/*
 * bench.c - what one call costs: prints `name value` lines, nanoseconds a call unless the name says
 * otherwise. Run bare, under the shim and traced by run.sh, which compares.
 *
 *	bench time LIVE        launch, cuMemGetInfo, AllocAsync pair, pairs at 0 and LIVE live allocations
 *	bench stack DEPTH      pairs of a function that is DEPTH calls deep
 *	bench threads N        pairs of N threads on one device, million pairs a second
 *	bench steps WHAT       between two breakpoints 100 calls of WHAT (launch, pair), for steps.c
 *
 * Each figure is the least of many short rounds: what disturbs a round only ever adds to it.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 40

static CUcontext context;
static CUfunction kernel;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench: %s: error %d\n", what, result);
	exit(1);
}

#define LEAST(name, calls, body) \
	do { \
		double best = 1e18; \
		for (int round = 0; round < ROUNDS; round++) { \
			double began = now_ns(), ns; \
			for (long i = 0; i < (calls); i++) { \
				body; \
			} \
			ns = (now_ns() - began) / (calls); \
			best = ns < best ? ns : best; \
		} \
		printf("%s %.2f\n", name, best); \
	} while (0)

static void start(void)
{
	CUmodule module;
	CUdevice device;
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";

	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "context");
	must(cuCtxSetCurrent(context), "current");
	must(cuModuleLoadData(&module, ptx), "module");
	must(cuModuleGetFunction(&kernel, module, "nothing"), "kernel");
}

static void launch(void)
{
	cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void pair(void)
{
	CUdeviceptr pointer;

	if (cuMemAlloc(&pointer, 1024) == CUDA_SUCCESS)
		cuMemFree(pointer);
}

static void time_live(long live)
{
	CUdeviceptr *all = malloc((live + 1) * sizeof(*all));
	unsigned long random = 1;
	CUdeviceptr pointer;
	char name[64];

	for (long i = 0; i < live; i++)
		must(cuMemAlloc(&all[i], 512), "live allocations");
	snprintf(name, sizeof(name), "pair_lifo_%ld", live);
	LEAST(name, 50000, pair());
	snprintf(name, sizeof(name), "pair_random_%ld", live);
	LEAST(name, 50000, {
		random = random * 6364136223846793005ul + 1442695040888963407ul;
		pointer = (random >> 33) % live;
		cuMemFree(all[pointer]);
		cuMemAlloc(&all[pointer], 512);
	});
	for (long i = 0; i < live; i++)
		cuMemFree(all[i]);
	free(all);
}

static void time_calls(long live)
{
	size_t free_bytes, total_bytes;
	CUdeviceptr pointer;
	CUstream stream;

	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	LEAST("launch", 100000, launch());
	LEAST("mem_get_info", 20000, cuMemGetInfo(&free_bytes, &total_bytes));
	LEAST("pair_async", 20000, {
		cuMemAllocAsync(&pointer, 1024, stream);
		cuMemFreeAsync(pointer, stream);
	});
	LEAST("pair_0", 50000, pair());
	if (live > 0)
		time_live(live);
}

static __attribute__((noinline)) void pairs_at(int depth)
{
	if (depth > 1) {
		pairs_at(depth - 1);
		__asm__ volatile(""); /* no jump in place of the call */
		return;
	}
	LEAST("pair_deep", 20000, pair());
}

static void *thread_pairs(void *count)
{
	must(cuCtxSetCurrent(context), "current");
	for (long i = 0; i < *(long *)count; i++)
		pair();
	return NULL;
}

static void time_threads(int threads)
{
	pthread_t ids[64];
	long count = 500000;
	double best = 0;

	for (int round = 0; round < 5; round++) {
		double began = now_ns(), rate;

		for (int i = 0; i < threads; i++)
			pthread_create(&ids[i], NULL, thread_pairs, &count);
		for (int i = 0; i < threads; i++)
			pthread_join(ids[i], NULL);
		rate = threads * count / (now_ns() - began) * 1e3;
		best = rate > best ? rate : best;
	}
	printf("threads_%d_mpairs_per_s %.2f\n", threads, best);
}

static void steps(void (*call)(void))
{
	for (int i = 0; i < 200; i++)
		call();
	__asm__ volatile("int3");
	for (int i = 0; i < 100; i++)
		call();
	__asm__ volatile("int3");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	start();
	if (strcmp(argv[1], "time") == 0)
		time_calls(atol(argv[2]));
	else if (strcmp(argv[1], "stack") == 0)
		pairs_at(atoi(argv[2]));
	else if (strcmp(argv[1], "threads") == 0)
		time_threads(atoi(argv[2]));
	else if (strcmp(argv[1], "steps") == 0)
		steps(strcmp(argv[2], "launch") == 0 ? launch : pair);
	else
		return 2;
	return 0;
}
