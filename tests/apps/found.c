/*
 * found.c - programs in which something stands out, and such in which it nearly does: `found STORY`. What the
 * calls take, and kernels, the simulated driver is told: tests/t/found.bats.
 *
 *	refused fitting    two allocations that do not fit together, or do, under a limit of 64 MiB
 *	leak tidy          an allocation that is never freed, or is
 *	errors mishaps     150 calls that fail, of 2,000 or of 20,000
 *	launches           100 kernels
 *	waits few-waits    100 kernels and a wait for each, or 99
 *	small large        1000 allocations of 4 KiB and their frees, or of 4 MiB
 *	crumbs slices      1000 copies of 64 bytes, or of 8 KiB
 *	pause pauses       nothing for 400 ms, or for 20 ms twenty times
 *	growth waves       memory that only grows, or is all freed now and then
 *	flood              200 allocations and frees, each with 1000 kernels in between
 *	tables             some of everything, for the tables of a trace
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KiB 1024ul
#define MiB (1024 * KiB)

#define MUST(call) \
	do { \
		CUresult must_result = call; \
		if (must_result) { \
			fprintf(stderr, "%s: %d\n", #call, must_result); \
			exit(1); \
		} \
	} while (0)

static CUfunction kernels[2];
static CUdeviceptr device;
static char host[64 * KiB];

static void start(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry first() { ret; }\n.visible .entry second() { ret; }\n";
	CUcontext context;
	CUmodule module;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&kernels[0], module, "first"));
	MUST(cuModuleGetFunction(&kernels[1], module, "second"));
	MUST(cuMemAlloc(&device, sizeof(host)));
}

static void launch(int which, CUstream stream)
{
	MUST(cuLaunchKernel(kernels[which], 1 + which, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void two(size_t first, size_t second)
{
	CUdeviceptr a, b;

	MUST(cuMemAlloc(&a, first));
	if (cuMemAlloc(&b, second) == CUDA_SUCCESS)
		MUST(cuMemFree(b));
	MUST(cuMemFree(a));
}

static void mishaps(int all)
{
	for (int i = 0; i < all; i++)
		if (i < 150)
			cuMemsetD8(0, 0, 16);
		else
			MUST(cuMemsetD8(device, 0, 16));
}

static void launches(int count, bool wait)
{
	for (int i = 0; i < count; i++) {
		launch(0, NULL);
		if (wait)
			MUST(cuCtxSynchronize());
	}
	if (!wait)
		MUST(cuCtxSynchronize());
}

static void allocations(size_t bytes)
{
	CUdeviceptr pointer;

	for (int i = 0; i < 1000; i++) {
		MUST(cuMemAlloc(&pointer, bytes));
		MUST(cuMemFree(pointer));
	}
}

static void copies(size_t bytes)
{
	for (int i = 0; i < 1000; i++)
		MUST(cuMemcpyHtoD(device, host, bytes));
}

static void pauses(int count, int ms)
{
	for (int i = 0; i <= count; i++) {
		if (i)
			usleep(1000 * ms);
		for (int k = 0; k < 10; k++)
			MUST(cuMemsetD8(device, 0, 16));
	}
}

static void growth(int wave)
{
	CUdeviceptr kept[160];
	int count = 0;

	for (int i = 0; i < 160; i++) {
		if (wave && i % wave == 0)
			while (count)
				MUST(cuMemFree(kept[--count]));
		MUST(cuMemAlloc(&kept[count++], MiB / 4));
		usleep(5000);
	}
	while (count)
		MUST(cuMemFree(kept[--count]));
}

static void flood(void)
{
	CUdeviceptr pointer;

	for (int i = 0; i < 200; i++) {
		MUST(cuMemAlloc(&pointer, 4 * KiB));
		for (int k = 0; k < 1000; k++)
			launch(k % 2, NULL);
		MUST(cuMemFree(pointer));
	}
}

static void tables(void)
{
	CUdeviceptr other;
	CUstream stream;
	void *pinned;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&other, 2 * MiB));
	MUST(cuMemAllocHost(&pinned, MiB));
	for (int i = 0; i < 3; i++) {
		launch(0, NULL);
		launch(0, stream);
		launch(1, stream);
		MUST(cuMemcpyHtoD(device, host, 10 * KiB));
		MUST(cuMemcpyHtoDAsync(device, (char *)pinned + KiB, 20 * KiB, stream));
		MUST(cuMemcpyAsync(device, (CUdeviceptr)host, 5 * KiB, stream));
		MUST(cuMemcpyDtoHAsync(pinned, device, 7 * KiB, stream));
		MUST(cuMemcpy((CUdeviceptr)host, device, 3 * KiB));
		MUST(cuMemcpy((CUdeviceptr)host, (CUdeviceptr)pinned, 2 * KiB));
		MUST(cuMemcpyDtoD(other, device, 9 * KiB));
		MUST(cuMemsetD32Async(other, 0, 4 * KiB, stream));
		MUST(cuCtxSynchronize());
		usleep(30000);
	}
	/* What was pageable becomes pinned. */
	MUST(cuMemHostRegister(host, sizeof(host), 0));
	MUST(cuMemcpyHtoD(device, host + KiB, KiB));
	MUST(cuMemHostUnregister(host));
	MUST(cuMemcpyHtoD(device, host + KiB, KiB));
	cuMemcpyHtoD(0, host, KiB);
	MUST(cuMemFreeHost(pinned));
	MUST(cuMemFree(other));
	MUST(cuStreamDestroy(stream));
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "";

#define IS(name) (strcmp(story, name) == 0)
	start();
	if (IS("refused"))
		two(60 * MiB, 10 * MiB);
	else if (IS("fitting"))
		two(50 * MiB, 10 * MiB);
	else if (IS("errors"))
		mishaps(2000);
	else if (IS("mishaps"))
		mishaps(20000);
	else if (IS("launches"))
		launches(100, false);
	else if (IS("waits"))
		launches(100, true);
	else if (IS("few-waits"))
		launches(99, true);
	else if (IS("small"))
		allocations(4 * KiB);
	else if (IS("large"))
		allocations(4 * MiB);
	else if (IS("crumbs"))
		copies(64);
	else if (IS("slices"))
		copies(8 * KiB);
	else if (IS("pause"))
		pauses(1, 400);
	else if (IS("pauses"))
		pauses(20, 20);
	else if (IS("growth"))
		growth(0);
	else if (IS("waves"))
		growth(20);
	else if (IS("flood"))
		flood();
	else if (IS("tables"))
		tables();
	else if (!IS("leak") && !IS("tidy"))
		return 2;
	if (!IS("leak"))
		MUST(cuMemFree(device));
	return 0;
}
