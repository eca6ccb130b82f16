/*
 * plugin.c - a plug-in that uses the driver: linked with it, and by look-ups in its own scope.
 */
#include <cuda.h>
#include <dlfcn.h>

CUresult plugin_alloc(CUdeviceptr *pointer, size_t bytes);
void *plugin_find(const char *name);

CUresult plugin_alloc(CUdeviceptr *pointer, size_t bytes)
{
	return cuMemAlloc_v2(pointer, bytes);
}

void *plugin_find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}
