/*
 * use_kernel.cu - what cudart.bats has nvcc build: a program with a kernel, a variable of the device's and
 * a managed one. Each call is made whatever the one before it said, as many programs do.
 */
#include <cstdio>

__device__ int table[64];
__managed__ int shared_by_both = 3;

__global__ void twice(int *numbers, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		numbers[i] = numbers[i] * 2 + table[i % 64] + shared_by_both;
}

static void show(const char *what, cudaError_t error)
{
	printf("%s: %d %s\n", what, error, cudaGetErrorName(error));
}

struct at_exit {
	~at_exit() { show("cudaDeviceReset", cudaDeviceReset()); }
} last;

int main()
{
	int count = -1, *numbers = nullptr, zeros[64] = {};
	cudaFuncAttributes attributes;

	show("cudaGetDeviceCount", cudaGetDeviceCount(&count));
	show("cudaMalloc", cudaMalloc(&numbers, 1 << 20));
	show("cudaMemcpyToSymbol", cudaMemcpyToSymbol(table, zeros, sizeof(zeros)));
	show("cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, twice));
	twice<<<16, 64>>>(numbers, 1024);
	show("launch", cudaGetLastError());
	show("cudaDeviceSynchronize", cudaDeviceSynchronize());
	return 0;
}
