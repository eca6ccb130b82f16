/*
 * self.c - what a CUDA program sees of itself: descriptors, threads, signals, umask, environment.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	CUcontext context;
	CUdeviceptr pointer;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
		cuMemAlloc(&pointer, 4096))
		return 1;
	if (system("ls /proc/$PPID/fd | xargs; ls /proc/$PPID/task | wc -l; umask; pwd;"
		"grep -E '^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp):' /proc/$PPID/status;"
		"cat /proc/$PPID/limits; env | grep -vE '^(CUWARD_MEMORY|LD_PRELOAD|_)=' | sort"))
		return 2;
	return cuMemFree(pointer);
}
