/*
 * bench.c - what one call costs: prints `name value` lines, nanoseconds a call unless the name says
 * otherwise. run.sh runs it bare, under the shim and traced, and compares.
 *
 *	bench time LIVE        launches, cuMemGetInfo, pairs of allocation and free; with LIVE live ones,
 *	                       freed and made again from either end and at random
 *	bench threads N        pairs of N threads on one device, million pairs a second
 *	bench stack DEPTH      pairs of a function that is DEPTH calls deep
 *	bench steps WHAT [LIVE [COUNT]]
 *	                       between two breakpoints COUNT (100) calls of WHAT, a row of `calls`, for steps.c;
 *	                       or of lifo, fifo or random among LIVE live allocations
 *	bench hold LIVE        makes LIVE allocations and waits for the end of its input
 *	bench init             cuInit and a context, and no more
 *
 * Each figure is the least of many short rounds: what disturbs a round only ever adds to it.
 * BENCH_PART divides the number of calls, for runs in which each leaves an event.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 15

static CUcontext context;
static CUfunction kernel;
static CUstream stream;
static long part = 1;

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

static void start(void)
{
	CUdevice device;

	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "context");
	must(cuCtxSetCurrent(context), "current");
}

static void prepare(void)
{
	CUmodule module;
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";

	must(cuModuleLoadData(&module, ptx), "module");
	must(cuModuleGetFunction(&kernel, module, "nothing"), "kernel");
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
}

/* ---- the calls ---- */

static void launch(void)
{
	cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void launch_ex(void)
{
	CUlaunchConfig config = { .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
		.blockDimY = 1, .blockDimZ = 1 };

	cuLaunchKernelEx(&config, kernel, NULL, NULL);
}

static void launch_cooperative(void)
{
	cuLaunchCooperativeKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL);
}

static void mem_get_info(void)
{
	size_t free_bytes, total_bytes;

	cuMemGetInfo(&free_bytes, &total_bytes);
}

static void pair(void)
{
	CUdeviceptr pointer;

	if (cuMemAlloc(&pointer, 1024) == CUDA_SUCCESS)
		cuMemFree(pointer);
}

static void pair_async(void)
{
	CUdeviceptr pointer;

	if (cuMemAllocAsync(&pointer, 1024, stream) == CUDA_SUCCESS)
		cuMemFreeAsync(pointer, stream);
}

/* More than there is: programs probe for that. */
static void refused(void)
{
	CUdeviceptr pointer;

	if (cuMemAlloc(&pointer, (size_t)1 << 44) != CUDA_ERROR_OUT_OF_MEMORY)
		exit(1);
}

static const struct {
	const char *name;
	void (*call)(void);
	long count;
} calls[] = {
	{ "launch", launch, 50000 },
	{ "launch_ex", launch_ex, 50000 },
	{ "launch_cooperative", launch_cooperative, 50000 },
	{ "mem_get_info", mem_get_info, 20000 },
	{ "pair_0", pair, 20000 },
	{ "pair_async", pair_async, 20000 },
	{ "refused", refused, 20000 },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* ---- among many that are live ---- */

static struct {
	CUdeviceptr *all;
	long count;
	long oldest;
	unsigned long random;
} live;

static void again(long i)
{
	cuMemFree(live.all[i]);
	cuMemAlloc(&live.all[i], 512);
}

static void lifo(void)
{
	again(live.count - 1);
}

static void fifo(void)
{
	again(live.oldest);
	live.oldest = live.oldest + 1 == live.count ? 0 : live.oldest + 1;
}

static void at_random(void)
{
	live.random = live.random * 6364136223846793005ul + 1442695040888963407ul;
	again((live.random >> 33) % live.count);
}

static double least(void (*call)(void), long count)
{
	double best = 1e18;

	count /= part;
	for (int round = 0; round < ROUNDS; round++) {
		double began = now_ns(), ns;

		for (long i = 0; i < count; i++)
			call();
		ns = (now_ns() - began) / count;
		best = ns < best ? ns : best;
	}
	return best;
}

static const struct {
	const char *name;
	void (*call)(void);
} orders[] = { { "lifo", lifo }, { "fifo", fifo }, { "random", at_random } };
#define ORDERS (sizeof(orders) / sizeof(orders[0]))

static void make_live(long count)
{
	live.all = malloc(count * sizeof(*live.all));
	live.count = count;
	for (long i = 0; i < count; i++)
		must(cuMemAlloc(&live.all[i], 512), "live allocations");
}

static void time_live(long count)
{
	make_live(count);
	for (unsigned i = 0; i < ORDERS; i++)
		printf("pair_%s_%ld %.2f\n", orders[i].name, count, least(orders[i].call, 20000));
	for (long i = 0; i < count; i++)
		cuMemFree(live.all[i]);
}

static void time_calls(long count)
{
	if (count > 0) {
		time_live(count);
		return;
	}
	for (unsigned i = 0; i < CALLS; i++)
		printf("%s %.2f\n", calls[i].name, least(calls[i].call, calls[i].count));
}

/* ---- threads, steps, records ---- */

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
	long count = 200000 / part;
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
	printf("threads_%d %.2f\n", threads, best);
}

static __attribute__((noinline)) void pairs_at(long depth)
{
	if (depth > 1) {
		pairs_at(depth - 1);
		__asm__ volatile(""); /* no jump in place of the call */
		return;
	}
	printf("pair_deep %.2f\n", least(pair, 20000));
}

static int steps(const char *name, long count, long times)
{
	void (*call)(void) = NULL;

	for (unsigned i = 0; i < CALLS; i++)
		if (strcmp(calls[i].name, name) == 0)
			call = calls[i].call;
	for (unsigned i = 0; i < ORDERS && count > 0; i++)
		if (strcmp(orders[i].name, name) == 0)
			call = orders[i].call;
	if (!call)
		return 2;
	if (count > 0)
		make_live(count);
#if defined(__x86_64__)
	for (int n = 0; n < 200; n++)
		call();
	__asm__ volatile("int3");
	for (long n = 0; n < times; n++)
		call();
	__asm__ volatile("int3");
	return 0;
#else
	(void)times;
	return 2;
#endif
}

static void hold(long count)
{
	CUdeviceptr pointer;
	char byte;

	for (long i = 0; i < count; i++)
		must(cuMemAlloc(&pointer, 512), "live allocations");
	puts("held");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long number = argc > 2 ? atol(argv[2]) : 0;

	if (getenv("BENCH_PART"))
		part = atol(getenv("BENCH_PART"));
	if (argc < 2 || part < 1)
		return 2;
	start();
	if (strcmp(what, "init") == 0)
		return 0;
	prepare();
	if (strcmp(what, "time") == 0)
		time_calls(number);
	else if (strcmp(what, "threads") == 0)
		time_threads(number);
	else if (strcmp(what, "stack") == 0)
		pairs_at(number);
	else if (strcmp(what, "steps") == 0 && argc > 2)
		return steps(argv[2], argc > 3 ? atol(argv[3]) : 0, argc > 4 ? atol(argv[4]) : 100);
	else if (strcmp(what, "hold") == 0)
		hold(number);
	else
		return 2;
	return 0;
}
