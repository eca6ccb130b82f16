/*
 * train.c - a small training-like program: streams, copies, kernels, a pool, one refused
 * allocation it recovers from, and one planted leak. Used by `make demo`.
 *
 * It asks the driver only, so it runs on any driver of CUDA 11.2 or newer, simulated or real; the
 * kernels are PTX with an empty body.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEPS 30
#define BATCH (8u << 20)

static const char ptx[] =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry forward() { ret; }\n"
	".visible .entry backward() { ret; }\n"
	".visible .entry optimizer() { ret; }\n";

static void must(CUresult result, const char *what)
{
	const char *text = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &text);
	fprintf(stderr, "train: %s: %s\n", what, text);
	exit(1);
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, name), name);
	return function;
}

static void launch(CUfunction function, CUstream stream)
{
	must(cuLaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, stream, NULL, NULL), "launch");
}

/* Too large for the limit: halve until it fits, as frameworks do. */
static CUdeviceptr workspace(size_t bytes)
{
	CUdeviceptr pointer = 0;

	while (cuMemAlloc(&pointer, bytes) == CUDA_ERROR_OUT_OF_MEMORY) {
		printf("train: %zu MiB of workspace refused, trying half\n", bytes >> 20);
		bytes /= 2;
	}
	return pointer;
}

/* One buffer a log line, never freed: the planted leak. */
static void log_loss(int step)
{
	CUdeviceptr scratch;

	must(cuMemAlloc(&scratch, 1u << 20), "scratch");
	printf("train: step %d of %d\n", step, STEPS);
}

static void step(int number, CUdeviceptr weights, void *host, CUfunction *kernels, CUstream copy,
	CUstream compute)
{
	const struct timespec thinking = { .tv_nsec = 2000000 };
	CUdeviceptr activations;

	must(cuMemcpyHtoDAsync(weights, host, BATCH, copy), "copy in");
	must(cuStreamSynchronize(copy), "wait for the copy");
	must(cuMemAllocAsync(&activations, 16u << 20, compute), "activations");
	launch(kernels[0], compute);
	launch(kernels[1], compute);
	launch(kernels[2], compute);
	must(cuMemFreeAsync(activations, compute), "free activations");
	must(cuStreamSynchronize(compute), "wait for the step");
	if (number % 10 == 0) {
		must(cuMemcpyDtoH(host, weights, 4096), "copy out");
		log_loss(number);
	}
	nanosleep(&thinking, NULL);
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUstream copy, compute;
	CUdeviceptr weights, work;
	CUfunction kernels[3];
	void *host;

	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "device");
	must(cuDevicePrimaryCtxRetain(&context, device), "context");
	must(cuCtxSetCurrent(context), "current context");
	must(cuModuleLoadData(&module, ptx), "module");
	kernels[0] = kernel(module, "forward");
	kernels[1] = kernel(module, "backward");
	kernels[2] = kernel(module, "optimizer");
	must(cuStreamCreate(&copy, CU_STREAM_NON_BLOCKING), "stream");
	must(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING), "stream");
	must(cuMemHostAlloc(&host, BATCH, 0), "pinned memory");
	must(cuMemAlloc(&weights, 64u << 20), "weights");
	work = workspace(512u << 20);
	for (int i = 1; i <= STEPS; i++)
		step(i, weights, host, kernels, copy, compute);
	must(cuMemFree(work), "free workspace");
	must(cuMemFree(weights), "free weights");
	must(cuMemFreeHost(host), "free pinned memory");
	must(cuStreamDestroy(copy), "destroy stream");
	must(cuStreamDestroy(compute), "destroy stream");
	must(cuModuleUnload(module), "unload module");
	printf("train: done\n");
	return 0;
}
