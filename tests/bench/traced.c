/*
 * traced.c - what a traced launch costs beside a bare tracepoint: `traced ROUNDS`.
 *
 * Prints `launch NS` and `tracepoint NS`, in turns round by round in one process: cuLaunchKernel as it is (bare,
 * or traced by the library that is preloaded), and two looks at the clock with a tracepoint of the provider `bare`
 * that has the same fields as cuward:launched. Least of all rounds.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CUWARD_PROVIDER bare
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider/events_tp.h"

#define CALLS 2000

static CUfunction kernel;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "traced: %s: error %d\n", what, result);
	exit(1);
}

static void prepare(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";
	CUcontext context;
	CUmodule module;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "context");
	must(cuCtxSetCurrent(context), "current");
	must(cuModuleLoadData(&module, ptx), "module");
	must(cuModuleGetFunction(&kernel, module, "nothing"), "kernel");
}

static double launches(void)
{
	uint64_t began = now_ns();

	for (int i = 0; i < CALLS; i++)
		cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	return (double)(now_ns() - began) / CALLS;
}

static double tracepoints(void)
{
	struct event_launched event = { .thread = 1, .function = 1, .grid_x = 1, .grid_y = 1, .grid_z = 1,
		.block_x = 32, .block_y = 1, .block_z = 1, .number = 4 };
	uint64_t began = now_ns();

	for (int i = 0; i < CALLS; i++) {
		uint64_t call_ns = now_ns();

		event.duration_ns = now_ns() - call_ns;
		event.correlation++;
		lttng_ust_tracepoint(bare, launched, &event);
	}
	return (double)(now_ns() - began) / CALLS;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0;
	double launch = 1e18, tracepoint = 1e18;

	prepare();
	for (int i = 0; i < rounds; i++) {
		double one = launches(), other = tracepoints();

		launch = one < launch ? one : launch;
		tracepoint = other < tracepoint ? other : tracepoint;
	}
	printf("launch %.1f\ntracepoint %.1f\n", launch, tracepoint);
	return !rounds;
}
