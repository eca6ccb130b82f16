/*
 * two_drivers.c - a program that meets two drivers: `two_drivers FIRST SECOND` prints what cuInit of
 * each says, and two allocations by way of the second, of 1 MiB and of one byte more.
 */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*call)();

int main(int argc, char **argv)
{
	unsigned long long pointer;
	void *context, *first, *second;
	int device;
	call look_up;

	if (argc < 3)
		return 2;
	first = dlopen(argv[1], RTLD_NOW);
	printf("%d ", ((call)dlsym(first, "cuInit"))(0));
	second = dlopen(argv[2], RTLD_NOW);
	printf("%d ", ((call)dlsym(second, "cuInit"))(0));
	look_up = (call)dlsym(second, "cuDeviceGet");
	if (!look_up)
		return 0;
	look_up(&device, 0);
	((call)dlsym(second, "cuDevicePrimaryCtxRetain"))(&context, device);
	((call)dlsym(second, "cuCtxSetCurrent"))(context);
	printf("%d ", ((call)dlsym(second, "cuMemAlloc_v2"))(&pointer, 1ul << 20));
	printf("%d\n", ((call)dlsym(second, "cuMemAlloc_v2"))(&pointer, 1ul));
	return 0;
}
