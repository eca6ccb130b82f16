/*
 * sim_spaces.c - three copies of the driver in namespaces of their own, each with an allocation.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static int use(void *driver)
{
	int (*allocate)(unsigned long long *, size_t);
	int (*create)(void **, unsigned, int);
	int (*init)(unsigned);
	unsigned long long address;
	void *context;

	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&create = dlsym(driver, "cuCtxCreate_v2");
	*(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
	return init(0) || create(&context, 0, 0) || allocate(&address, 100);
}

int main(void)
{
	void *driver;
	int i;

	for (i = 0; i < 3; i++) {
		driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
		if (!driver) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		if (use(driver))
			return 2;
	}
	return 0;
}
