/*
 * wrapper.c - a library with a wrapper of its own around one function of the driver.
 */
#include <cuda.h>
#include <dlfcn.h>

int wrapper_calls;

#undef cuMemAlloc_v2
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
	static CUresult (*next)(CUdeviceptr *, size_t);

	if (!next)
		next = (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	if (!next) /* opened as a plug-in: nobody is next */
		next = (CUresult(*)(CUdeviceptr *, size_t))dlsym(dlopen("libcuda.so.1", RTLD_NOW),
			"cuMemAlloc_v2");
	wrapper_calls++;
	return next(pointer, bytes);
}

CUresult wrapper_version(int *version);

CUresult wrapper_version(int *version)
{
	return cuDriverGetVersion(version);
}
