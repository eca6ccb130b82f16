/*
 * use_nvrtc.c - what nvrtc.bats plays: compile a kernel, load it, launch it. `use_nvrtc [broken]`.
 *
 * It is linked with the compiler and with the driver, as NVIDIA's samples are.
 */
#include <cuda.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fine[] = "extern \"C\" __global__ void axpy(float a, float *x, float *y, int n)\n"
			   "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }\n";
static const char broken[] = "__global__ void axpy(float a) { return b; }\n";

#define MUST(call) must(#call, call)

static void must(const char *what, int result)
{
	if (result == 0)
		return;
	printf("%s: %d\n", what, result);
	exit(1);
}

static char *compile(const char *source)
{
	const char *options[] = { "--gpu-architecture=compute_80" };
	nvrtcProgram program;
	size_t bytes;
	char *text;

	MUST(nvrtcCreateProgram(&program, source, "axpy.cu", 0, NULL, NULL));
	if (nvrtcCompileProgram(program, 1, options) != NVRTC_SUCCESS) {
		MUST(nvrtcGetProgramLogSize(program, &bytes));
		text = malloc(bytes);
		MUST(nvrtcGetProgramLog(program, text));
		printf("%s", text);
		exit(3);
	}
	MUST(nvrtcGetPTXSize(program, &bytes));
	text = malloc(bytes);
	MUST(nvrtcGetPTX(program, text));
	MUST(nvrtcDestroyProgram(&program));
	printf("compiled, %d\n", strstr(text, ".entry axpy(") != NULL);
	return text;
}

int main(int argc, char **argv)
{
	char *ptx = compile(argc > 1 && !strcmp(argv[1], "broken") ? broken : fine);
	int n = 1 << 16;
	size_t bytes = n * sizeof(float);
	float *numbers = calloc(n, sizeof(float)), a = 2;
	CUdeviceptr x, y;
	CUcontext context;
	CUfunction axpy;
	CUmodule module;
	CUdevice device;
	void *arguments[] = { &a, &x, &y, &n };

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&axpy, module, "axpy"));
	MUST(cuMemAlloc(&x, bytes));
	MUST(cuMemAlloc(&y, bytes));
	MUST(cuMemcpyHtoD(x, numbers, bytes));
	MUST(cuMemsetD32(y, 0, n));
	for (int i = 0; i < 5; i++)
		MUST(cuLaunchKernel(axpy, n / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemcpyDtoH(numbers, y, bytes));
	MUST(cuMemFree(x));
	MUST(cuMemFree(y));
	MUST(cuModuleUnload(module));
	MUST(cuDevicePrimaryCtxRelease(device));
	printf("done\n");
	return 0;
}
