/*
 * jump.c - a signal handler jumps out of a driver call that does not end; then the limit must still
 * hold: prints the answer to a request of 64 MiB. Wants a kernel that never ends.
 */
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static sigjmp_buf back;

static void interrupt(int signal)
{
	siglongjmp(back, signal);
}

static int ask(size_t bytes)
{
	CUdeviceptr pointer;

	return cuMemAlloc(&pointer, bytes);
}

int main(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry endless() { ret; }\n";
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUstream stream;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
		cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&kernel, module, "endless") ||
		cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
		cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL))
		return 1;
	signal(SIGALRM, interrupt);
	alarm(1);
	if (sigsetjmp(back, 1) == 0)
		cuStreamSynchronize(stream);
	printf("answer %d\n", ask((size_t)64 << 20));
	fflush(stdout);
	_exit(0);
}
