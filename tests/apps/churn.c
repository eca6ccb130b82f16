/*
 * churn.c - threads that come, allocate once, free, and go: churn COUNT.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>

static CUcontext context;

static void *once(void *unused)
{
	CUdeviceptr pointer;

	(void)unused;
	if (cuCtxSetCurrent(context) || cuMemAlloc(&pointer, 1024) || cuMemFree(pointer))
		exit(1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
		return 2;
	for (int i = atoi(argv[1]); i > 0; i--) {
		if (pthread_create(&thread, NULL, once, NULL) || pthread_join(thread, NULL))
			return 3;
	}
	return 0;
}
