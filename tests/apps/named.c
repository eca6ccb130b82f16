/* flags: -Wno-deprecated-declarations */
/*
 * named.c - launches of kernels whose handles come from every kind of look-up: named [TIMES].
 *
 * What a driver does not have is left out, so it runs on any from 11.0 on. It says which kernels it
 * launched, in order; none is launched twice in a row.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD ".version 7.0\n.target sm_52\n.address_size 64\n"
#define ENTRY(name) ".visible .entry " name "() { ret; }\n"

static void *driver;

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "named: %s: error %d\n", what, result);
	exit(1);
}

#define CALL(name) ((__typeof__(&name))dlsym(driver, #name))
#define OK(name, ...) must(CALL(name)(__VA_ARGS__), #name)

static void launch(void *function, const char *name)
{
	OK(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	puts(name);
}

/* A kernel of another module takes the handle of one that is gone; asked for by name, and found in a list. */
static void modules(void)
{
	static const char *const images[] = { HEAD ENTRY("first"), HEAD ENTRY("second"), HEAD ENTRY("third") };
	static const char *const names[] = { "first", "second", "third" };

	for (int i = 0; i < 3; i++) {
		CUmodule module;
		CUfunction function;

		OK(cuModuleLoadData, &module, images[i]);
		if (i == 1 && CALL(cuModuleEnumerateFunctions))
			OK(cuModuleEnumerateFunctions, &function, 1, module);
		else
			OK(cuModuleGetFunction, &function, module, names[i]);
		launch(function, names[i]);
		OK(cuModuleUnload, module);
	}
}

/* Modules go with their context, too. */
static void contexts(CUcontext primary)
{
	static const char *const images[] = { HEAD ENTRY("fourth"), HEAD ENTRY("fifth"), HEAD ENTRY("sixth") };
	static const char *const names[] = { "fourth", "fifth", "sixth" };

	CUresult (*create)(CUcontext *, unsigned, CUdevice) = dlsym(driver, "cuCtxCreate_v2");

	for (int i = 0; i < 3; i++) {
		CUcontext context;
		CUmodule module;
		CUfunction function;

		must(create(&context, 0, 0), "cuCtxCreate_v2");
		OK(cuModuleLoadData, &module, images[i]);
		if (i == 1 && CALL(cuModuleEnumerateFunctions))
			OK(cuModuleEnumerateFunctions, &function, 1, module);
		else
			OK(cuModuleGetFunction, &function, module, names[i]);
		launch(function, names[i]);
		OK(cuCtxDestroy_v2, context);
	}
	OK(cuCtxSetCurrent, primary);
}

/* Looked up before each launch, as some do. */
static void again_and_again(int times)
{
	CUmodule module;
	CUfunction function;

	OK(cuModuleLoadData, &module, HEAD ENTRY("again") ENTRY("between"));
	for (int i = 0; i < times; i++)
		OK(cuModuleGetFunction, &function, module, "again");
	launch(function, "again");
	OK(cuModuleGetFunction, &function, module, "between");
	launch(function, "between");
	OK(cuModuleGetFunction, &function, module, "again");
	launch(function, "again");
}

/* Kernels themselves, and their functions. */
static void libraries(void)
{
	CUlibrary library;
	CUkernel kernels[3];
	CUfunction function;

	if (!CALL(cuLibraryLoadData))
		return;
	OK(cuLibraryLoadData, &library, HEAD ENTRY("alpha") ENTRY("beta") ENTRY("gamma"), NULL, NULL, 0, NULL, NULL, 0);
	OK(cuLibraryGetKernel, &kernels[0], library, "alpha");
	launch(kernels[0], "alpha");
	OK(cuLibraryGetKernel, &kernels[1], library, "beta");
	OK(cuKernelGetFunction, &function, kernels[1]);
	launch(function, "beta");
	if (CALL(cuLibraryEnumerateKernels)) {
		OK(cuLibraryEnumerateKernels, kernels, 3, library);
		launch(kernels[2], "gamma");
		OK(cuKernelGetFunction, &function, kernels[0]);
		launch(function, "alpha");
	}
	OK(cuLibraryUnload, library);
}

static void cooperative(void)
{
	CUmodule module;
	CUDA_LAUNCH_PARAMS one = { .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
		.blockDimZ = 1 };

	OK(cuModuleLoadData, &module, HEAD ENTRY("together"));
	OK(cuModuleGetFunction, &one.function, module, "together");
	OK(cuStreamCreate, &one.hStream, 0);
	OK(cuLaunchCooperativeKernelMultiDevice, &one, 1, 0);
	puts("together");
}

static void graph(void)
{
	CUgraph graph;
	CUgraphExec exec;

	if (!CALL(cuGraphInstantiateWithFlags))
		return;
	OK(cuGraphCreate, &graph, 0);
	OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
	OK(cuGraphLaunch, exec, NULL);
	puts("(graph)");
}

int main(int argc, char **argv)
{
	CUcontext context;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	OK(cuInit, 0);
	OK(cuDevicePrimaryCtxRetain, &context, 0);
	OK(cuCtxSetCurrent, context);
	modules();
	contexts(context);
	again_and_again(argc > 1 ? atoi(argv[1]) : 3);
	libraries();
	cooperative();
	graph();
	return 0;
}
