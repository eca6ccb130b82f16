/*
 * use_cudart.c - what cudart.bats plays: a program of the CUDA runtime, shared or static. Each call is made
 * whatever the one before it said, as many programs do.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

static void show(const char *what, cudaError_t error)
{
	printf("%s: %d %s\n", what, error, cudaGetErrorName(error));
}

int main(void)
{
	int number = -1;
	size_t free_bytes, total_bytes;
	cudaStream_t stream;
	void *memory = NULL;

	show("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&number));
	printf("runtime %d\n", number);
	show("cudaDriverGetVersion", cudaDriverGetVersion(&number));
	printf("driver %d\n", number);
	show("cudaGetDeviceCount", cudaGetDeviceCount(&number));
	show("cudaMalloc", cudaMalloc(&memory, 1 << 20));
	show("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes));
	show("cudaMallocAsync", cudaMallocAsync(&memory, 1 << 20, NULL));
	show("cudaStreamCreate", cudaStreamCreate(&stream));
	show("cudaDeviceSynchronize", cudaDeviceSynchronize());
	show("cudaGetLastError", cudaGetLastError());
	show("cudaGetLastError", cudaGetLastError());
	return 0;
}
