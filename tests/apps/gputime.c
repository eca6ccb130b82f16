/*
 * gputime.c - kernels whose schedule is known: `gputime STREAMS ROUNDS NS`, with CUWARD_SIM_KERNEL_NS=NS.
 *
 * Prints a line a launch, in order: the earliest and the latest moment (CLOCK_MONOTONIC, ns) at which it
 * can have begun. On an idle stream that is while the call ran; else when the kernel before it ended.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MUST(call) \
	do { \
		CUresult must_result = call; \
		if (must_result) { \
			fprintf(stderr, "%s: %d\n", #call, must_result); \
			exit(1); \
		} \
	} while (0)

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry work() { ret; }\n";
	int streams = argc > 3 ? atoi(argv[1]) : 0;
	uint64_t length = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t ready[64][2] = { { 0 } };
	CUstream stream[64];
	CUfunction function;
	CUcontext context;
	CUmodule module;

	if (!streams)
		return 2;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&function, module, "work"));
	for (int i = 0; i < streams; i++)
		MUST(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < streams * atoi(argv[2]); i++) {
		uint64_t *free_at = ready[i % streams];
		uint64_t earliest = now(), latest;

		MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream[i % streams], NULL, NULL));
		latest = now();
		earliest = earliest > free_at[0] ? earliest : free_at[0];
		latest = latest > free_at[1] ? latest : free_at[1];
		printf("%llu %llu\n", (unsigned long long)earliest, (unsigned long long)latest);
		free_at[0] = earliest + length;
		free_at[1] = latest + length;
		usleep(random() % (length / 1000 / streams + 1));
	}
	MUST(cuCtxSynchronize());
	/* The trace has what is read by a later call. */
	MUST(cuCtxSynchronize());
	return 0;
}
