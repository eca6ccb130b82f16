/*
 * threads.c - threads that allocate and free at random on one device: threads THREADS CALLS BYTES.
 *
 * Each thread holds at most BYTES at any time, so with a limit of at least THREADS x BYTES nothing may
 * be refused. Prints `refused N`.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 64

static CUcontext context;
static long calls;
static size_t bytes_each;
static long refused;

struct held {
	CUdeviceptr pointer;
	size_t bytes;
	int async;
};

static void give_back(struct held *held, size_t *sum, CUstream stream)
{
	if (held->async)
		cuMemFreeAsync(held->pointer, stream);
	else
		cuMemFree(held->pointer);
	*sum -= held->bytes;
	held->bytes = 0;
}

static void *work(void *seed)
{
	unsigned long random = (unsigned long)seed * 2 + 1;
	struct held held[SLOTS] = { { 0 } };
	size_t sum = 0;
	CUstream stream;

	cuCtxSetCurrent(context);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	for (long i = 0; i < calls; i++) {
		struct held *one;
		size_t bytes;

		random = random * 6364136223846793005ul + 1442695040888963407ul;
		one = &held[(random >> 33) % SLOTS];
		if (one->bytes) {
			give_back(one, &sum, stream);
			continue;
		}
		bytes = (random >> 40) % (bytes_each / 8) + 1;
		if (sum + bytes > bytes_each)
			continue;
		one->async = (random >> 60) & 1;
		if ((one->async ? cuMemAllocAsync(&one->pointer, bytes, stream) :
				  cuMemAlloc(&one->pointer, bytes)) == CUDA_SUCCESS) {
			one->bytes = bytes;
			sum += bytes;
		} else {
			__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		if (held[i].bytes)
			give_back(&held[i], &sum, stream);
	}
	cuStreamSynchronize(stream);
	cuStreamDestroy(stream);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[64];
	int threads = argc > 3 ? atoi(argv[1]) : 0;
	CUdevice device;

	if (threads < 1 || threads > 64)
		return 2;
	calls = atol(argv[2]);
	bytes_each = strtoull(argv[3], NULL, 10);
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))
		return 3;
	for (long i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, (void *)i))
			return 4;
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	cuDevicePrimaryCtxRelease(device);
	printf("refused %ld\n", refused);
	return 0;
}
