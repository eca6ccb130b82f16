/*
 * route.h - the driver's functions as a program gets them, by the route that $ROUTE names:
 *
 *	linked   the loader binds them (default)
 *	dlsym    dlopen("libcuda.so.1"), dlsym of each
 *	default  dlsym(RTLD_DEFAULT)
 *	gpa      cuGetProcAddress of the first ABI, found by dlsym
 *	gpa2     cuGetProcAddress_v2, as the CUDA runtime does
 *	deep     cuGetProcAddress_v2 fetched through itself, five times
 *
 * PTSZ=1 takes the per-thread twins where there are some. Call route_open() first.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* symbol, name for cuGetProcAddress, a version that gives this very symbol */
#define ROUTE_CALLS(X, T) \
	X(cuInit, cuInit, 2000) \
	X(cuDeviceGet, cuDeviceGet, 2000) \
	X(cuDeviceTotalMem, cuDeviceTotalMem, 2000) \
	X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020) \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000) \
	X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000) \
	X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000) \
	X(cuCtxCreate_v2, cuCtxCreate, 3020) \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000) \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000) \
	X(cuMemAlloc, cuMemAlloc, 2000) \
	X(cuMemAlloc_v2, cuMemAlloc, 3020) \
	X(cuMemAllocPitch, cuMemAllocPitch, 2000) \
	X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020) \
	X(cuMemAllocManaged, cuMemAllocManaged, 6000) \
	X(cuMemAllocHost, cuMemAllocHost, 2000) \
	X(cuMemAllocHost_v2, cuMemAllocHost, 3020) \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020) \
	X(cuMemHostRegister, cuMemHostRegister, 4000) \
	X(cuMemHostRegister_v2, cuMemHostRegister, 6050) \
	X(cuMemHostUnregister, cuMemHostUnregister, 4000) \
	X(cuMemFree, cuMemFree, 2000) \
	X(cuMemFree_v2, cuMemFree, 3020) \
	X(cuMemFreeHost, cuMemFreeHost, 2000) \
	X(cuMemGetInfo, cuMemGetInfo, 2000) \
	X(cuMemGetInfo_v2, cuMemGetInfo, 3020) \
	X(cuMemCreate, cuMemCreate, 10020) \
	X(cuMemRelease, cuMemRelease, 10020) \
	X(cuStreamCreate, cuStreamCreate, 2000) \
	X(cuStreamDestroy_v2, cuStreamDestroy, 4000) \
	T(cuStreamSynchronize, cuStreamSynchronize, 7000) \
	X(cuEventCreate, cuEventCreate, 2000) \
	X(cuEventDestroy_v2, cuEventDestroy, 4000) \
	X(cuModuleLoadData, cuModuleLoadData, 2000) \
	X(cuMemPoolCreate, cuMemPoolCreate, 11020) \
	X(cuMemPoolDestroy, cuMemPoolDestroy, 11020) \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020) \
	X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020) \
	X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020) \
	T(cuMemAllocAsync, cuMemAllocAsync, 11020) \
	T(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020) \
	T(cuMemFreeAsync, cuMemFreeAsync, 11020)

#define X(symbol, name, version) __typeof__(symbol) *symbol;
static struct {
	ROUTE_CALLS(X, X)
} cu;
#undef X

static struct {
	const char *name;
	void *handle;
	CUresult (*look_up)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*look_up_v1)(const char *, void **, int, cuuint64_t);
	int per_thread;
} route;

static inline void *route_find(const char *symbol, const char *name, int version, int twin,
	void *linked, void *linked_twin)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	char text[80];
	void *found = NULL;
	int flags = twin && route.per_thread ? 2 : 0;

	if (!strcmp(route.name, "linked"))
		return flags ? linked_twin : linked;
	if (route.look_up && (route.look_up(name, &found, version, flags, &status) || status))
		found = NULL;
	if (route.look_up_v1 && route.look_up_v1(name, &found, version, flags))
		found = NULL;
	snprintf(text, sizeof(text), "%s%s", symbol, flags ? "_ptsz" : "");
	if (!route.look_up && !route.look_up_v1)
		found = dlsym(route.handle, text);
	if (!found) {
		fprintf(stderr, "%s: no %s\n", route.name, text);
		exit(98);
	}
	return found;
}

static inline void route_open(void)
{
	route.name = getenv("ROUTE") ? getenv("ROUTE") : "linked";
	route.per_thread = getenv("PTSZ") != NULL;
	if (strcmp(route.name, "default") != 0)
		route.handle = dlopen("libcuda.so.1", RTLD_NOW);
	if (!strcmp(route.name, "gpa"))
		route.look_up_v1 = (__typeof__(route.look_up_v1))dlsym(route.handle, "cuGetProcAddress");
	if (!strcmp(route.name, "gpa2") || !strcmp(route.name, "deep"))
		route.look_up = (__typeof__(route.look_up))dlsym(route.handle, "cuGetProcAddress_v2");
	for (int depth = 0; depth < 5 && !strcmp(route.name, "deep"); depth++)
		route.look_up("cuGetProcAddress", (void **)&route.look_up, 12000, 0, NULL);
#define X(symbol, name, version) \
	cu.symbol = (__typeof__(symbol) *)route_find(#symbol, #name, version, 0, (void *)symbol, NULL);
#define T(symbol, name, version) \
	cu.symbol = (__typeof__(symbol) *)route_find(#symbol, #name, version, 1, (void *)symbol, \
		(void *)symbol##_ptsz);
	ROUTE_CALLS(X, T)
#undef X
#undef T
}
