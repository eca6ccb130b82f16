/*
 * self.c - what a CUDA program sees of itself: descriptors, threads, signals, umask, environment.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not by the shell: until that runs, its parent has all signals blocked. */
static int signals(void)
{
	static const char *const fields[] = { "SigBlk:", "SigIgn:", "SigCgt:", "NoNewPrivs:", "Seccomp:" };
	FILE *status = fopen("/proc/self/status", "r");
	char line[512];

	while (status && fgets(line, sizeof(line), status))
		for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			if (strncmp(line, fields[i], strlen(fields[i])) == 0)
				fputs(line, stdout);
	fflush(stdout);
	return !status || fclose(status);
}

int main(void)
{
	CUcontext context;
	CUdeviceptr pointer;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
		cuMemAlloc(&pointer, 4096))
		return 1;
	if (signals() || system("ls /proc/$PPID/fd | xargs; ls /proc/$PPID/task | wc -l; umask; pwd;"
		"cat /proc/$PPID/limits; env | grep -vE '^(CUWARD_MEMORY|LD_PRELOAD|_)=' | sort"))
		return 2;
	return cuMemFree(pointer);
}
