/*
 * classes.c - launches of every class: `classes [lookup]` does 10 cuLaunchKernel, 10 cuLaunchKernelEx, 3
 * cooperative ones, and launches a graph of 4 kernels 5 times; and 3 allocations, 2 frees. Linked with
 * the driver, or with `lookup` by a lazy dlopen and dlsym of each; -DUNLINKED: it has no other way.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *driver;

#ifdef UNLINKED
#define CALL(name) ((__typeof__(name) *)dlsym(driver, NAME(name)))
#else
#define CALL(name) (driver ? (__typeof__(name) *)dlsym(driver, NAME(name)) : name)
#endif
#define NAME(name) NAME_(name)
#define NAME_(name) #name
#define NEED(name, ...) \
	do { \
		CUresult result = CALL(name)(__VA_ARGS__); \
		if (result) { \
			printf("%s: %d\n", NAME(name), result); \
			return 1; \
		} \
	} while (0)

static int launch_graph(CUfunction kernel)
{
	CUDA_KERNEL_NODE_PARAMS parameters = { .func = kernel, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = 1, .blockDimY = 1, .blockDimZ = 1 };
	CUgraph graph;
	CUgraphExec ready;
	CUgraphNode node;

	NEED(cuGraphCreate, &graph, 0);
	for (int i = 0; i < 4; i++)
		NEED(cuGraphAddKernelNode, &node, graph, NULL, 0, &parameters);
	NEED(cuGraphInstantiateWithFlags, &ready, graph, 0);
	for (int i = 0; i < 5; i++)
		NEED(cuGraphLaunch, ready, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry kernel() { ret; }\n";
	CUlaunchConfig config = { .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
		.blockDimY = 1, .blockDimZ = 1 };
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr pointers[3];

	if (argc > 1 && !strcmp(argv[1], "lookup"))
		driver = dlopen("libcuda.so.1", RTLD_LAZY);
	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &context, 0);
	NEED(cuCtxSetCurrent, context);
	NEED(cuModuleLoadData, &module, ptx);
	NEED(cuModuleGetFunction, &kernel, module, "kernel");
	for (int i = 0; i < 3; i++)
		NEED(cuMemAlloc, &pointers[i], 4096);
	for (int i = 0; i < 10; i++)
		NEED(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	for (int i = 0; i < 10; i++)
		NEED(cuLaunchKernelEx, &config, kernel, NULL, NULL);
	for (int i = 0; i < 3; i++)
		NEED(cuLaunchCooperativeKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
	if (launch_graph(kernel))
		return 1;
	for (int i = 0; i < 2; i++)
		NEED(cuMemFree, pointers[i]);
	return 0;
}
