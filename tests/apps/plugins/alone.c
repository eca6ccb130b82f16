/*
 * alone.c - a plug-in that does all its work with the driver itself and prints what two allocations
 * said: linked with the driver; -DLOOK_UP: by dlopen and dlsym of its own; -DAT_LOAD: in a constructor.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int plugin_run(void);

#ifdef LOOK_UP
typedef int (*call)();
#define DRIVER(name) ((call)dlsym(dlopen("libcuda.so.1", RTLD_NOW), #name))
#else
#define DRIVER(name) name
#endif

int plugin_run(void)
{
	CUcontext context;
	CUdeviceptr pointer;
	char text[40];
	int first, second, length;

	if (DRIVER(cuInit)(0) || DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) ||
		DRIVER(cuCtxSetCurrent)(context))
		return 1;
	first = DRIVER(cuMemAlloc_v2)(&pointer, (size_t)1 << 20);
	second = DRIVER(cuMemAlloc_v2)(&pointer, (size_t)1);
	length = snprintf(text, sizeof(text), "%d %d\n", first, second);
	return write(1, text, length) != length;
}

#ifdef AT_LOAD
static __attribute__((constructor)) void run(void)
{
	plugin_run();
}
#endif
