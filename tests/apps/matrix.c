/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * matrix.c - call the driver in every version and twin that matters, each of them another number of
 * times, by the functions that the route in $ROUTE gives:
 *
 *	linked      the loader binds the calls        taken     addresses taken in data
 *	default     dlsym(RTLD_DEFAULT)               next      dlsym(RTLD_NEXT)
 *	open LIB    dlsym of a handle ($LIBRARY)      deep      the handle of RTLD_DEEPBIND
 *	space       the handle of dlmopen             global    RTLD_GLOBAL, then RTLD_DEFAULT
 *	dlvsym      dlsym itself found by dlvsym      versioned dlvsym without a version to find
 *	gpa1 gpa2   cuGetProcAddress, _v2, by dlsym   linkedgpa cuGetProcAddress_v2 as the loader binds it
 *	deepgpa     cuGetProcAddress_v2 fetched through itself five times, before anything else
 *	entry       cudaGetDriverEntryPoint's way: RTLD_NOLOAD handle, cuGetProcAddress_v2
 *
 * A program, and with -DPLUGIN a plug-in whose plugin_run() does the same.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* symbol, its name and flags for cuGetProcAddress, a version that gives this very symbol */
#define CALLS(X) \
	X(cuInit, cuInit, 0, 2000) \
	X(cuDeviceGet, cuDeviceGet, 0, 2000) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 0, 7000) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 0, 4000) \
	X(cuModuleLoadData, cuModuleLoadData, 0, 2000) \
	X(cuModuleGetFunction, cuModuleGetFunction, 0, 2000) \
	X(cuMemAlloc, cuMemAlloc, 0, 2000) \
	X(cuMemAlloc_v2, cuMemAlloc, 0, 3020) \
	X(cuMemAllocAsync, cuMemAllocAsync, 0, 11020) \
	X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 2, 11020) \
	X(cuLaunchKernel, cuLaunchKernel, 0, 4000) \
	X(cuLaunchKernel_ptsz, cuLaunchKernel, 2, 7000) \
	X(cuLaunchKernelEx, cuLaunchKernelEx, 0, 11060) \
	X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 2, 11060)

#define X(symbol, name, flags, version) __typeof__(symbol) *symbol;
static struct {
	CALLS(X)
} cu;
#undef X

#define X(symbol, name, flags, version) symbol,
static __typeof__(cu) taken = {CALLS(X)};
#undef X

typedef void *(*finder)(void *, const char *);

static const char *route;
static void *handle;
static finder find = dlsym;
static __typeof__(cuGetProcAddress) *look_up_v1;
static __typeof__(cuGetProcAddress_v2) *look_up;

static int is(const char *what)
{
	return !strcmp(route, what);
}

static void need(int fine, const char *what)
{
	if (fine)
		return;
	fprintf(stderr, "%s: %s failed\n", route, what);
	exit(3);
}

static void open_driver(void)
{
	const char *library = getenv("LIBRARY") ? getenv("LIBRARY") : "libcuda.so.1";
	int mode = is("deep") ? RTLD_DEEPBIND : is("global") || is("next") ? RTLD_GLOBAL : RTLD_LOCAL;

	if (is("linked") || is("taken") || is("linkedgpa") || is("default"))
		return;
	handle = is("space") ? dlmopen(LM_ID_NEWLM, library, RTLD_NOW) : dlopen(library, RTLD_LAZY | mode);
	if (is("entry"))
		handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	need(handle != NULL, "open");
	if (is("global"))
		handle = RTLD_DEFAULT;
	if (is("next"))
		handle = RTLD_NEXT;
}

static void prepare(void)
{
	open_driver();
#ifdef GLIBC_DLSYM
	if (is("dlvsym"))
		find = (finder)dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", GLIBC_DLSYM);
	need(find != NULL, "dlvsym");
#endif
	if (is("linkedgpa"))
		look_up = cuGetProcAddress_v2;
	if (is("gpa2") || is("deepgpa") || is("entry"))
		look_up = (__typeof__(look_up))dlsym(handle, "cuGetProcAddress_v2");
	if (is("gpa1"))
		look_up_v1 = (__typeof__(look_up_v1))dlsym(handle, "cuGetProcAddress");
	for (int depth = 0; depth < 5 && is("deepgpa"); depth++) {
		CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;

		need(!look_up("cuGetProcAddress", (void **)&look_up, 12000, 0, &status) &&
			status == CU_GET_PROC_ADDRESS_SUCCESS, "look-up of the look-up");
	}
}

static void *function(const char *symbol, const char *name, int flags, int version)
{
	void *found = NULL;

	if (look_up)
		need(!look_up(name, &found, version, flags, NULL), symbol);
	else if (look_up_v1)
		need(!look_up_v1(name, &found, version, flags), symbol);
	else if (is("versioned"))
		found = dlvsym(handle, symbol, "CUDA_1.0");
	else
		found = find(handle, symbol);
	need(found != NULL, symbol);
	return found;
}

static void find_functions(void)
{
	if (is("linked"))
		return;
	if (is("taken")) {
		cu = taken;
		return;
	}
#define X(symbol, name, flags, version) \
	cu.symbol = (__typeof__(symbol) *)function(#symbol, #name, flags, version);
	CALLS(X)
#undef X
}

/* Calls that the loader binds must stand in the text as such. */
#define CALL(name, ...) (is("linked") ? name(__VA_ARGS__) : cu.name(__VA_ARGS__))
#define TIMES(n, name, ...) \
	for (int i = 0; i < (n); i++) \
		need(!CALL(name, __VA_ARGS__), #name)

static CUfunction load_kernel(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry kernel() { ret; }\n";
	CUmodule module;
	CUfunction kernel;

	TIMES(1, cuModuleLoadData, &module, ptx);
	TIMES(1, cuModuleGetFunction, &kernel, module, "kernel");
	return kernel;
}

static int run(void)
{
	struct {
		CUdeviceptr_v1 address;
		uint32_t beside; /* the first version writes 32 bits */
	} old = { 0, 0x5a5a5a5a };
	CUlaunchConfig config = { .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1,
		.blockDimY = 1, .blockDimZ = 1 };
	CUcontext context;
	CUdeviceptr pointer;
	CUdevice device;
	CUfunction kernel;

	route = getenv("ROUTE") ? getenv("ROUTE") : "linked";
	prepare();
	find_functions();
	TIMES(1, cuInit, 0);
	TIMES(1, cuDeviceGet, &device, 0);
	TIMES(1, cuDevicePrimaryCtxRetain, &context, device);
	TIMES(1, cuCtxSetCurrent, context);
	kernel = load_kernel();
	TIMES(1, cuMemAlloc, &old.address, 1 << 20);
	need(old.address && old.beside == 0x5a5a5a5a, "32 bits");
	TIMES(1, cuMemAlloc_v2, &pointer, (5ull << 30) + 1);
	need(pointer >> 32, "64 bits");
	TIMES(1, cuMemAlloc_v2, &pointer, 4096);
	TIMES(3, cuMemAllocAsync, &pointer, 1024, NULL);
	TIMES(4, cuMemAllocAsync_ptsz, &pointer, 1024, NULL);
	TIMES(5, cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	TIMES(6, cuLaunchKernel_ptsz, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	TIMES(7, cuLaunchKernelEx, &config, kernel, NULL, NULL);
	TIMES(8, cuLaunchKernelEx_ptsz, &config, kernel, NULL, NULL);
	return 0;
}

#ifdef PLUGIN
int plugin_run(void);

int plugin_run(void)
{
	return run();
}
#else
int main(void)
{
	return run();
}
#endif
