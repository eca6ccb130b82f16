/*
 * overrider.c - another preload that overrides dlsym, as screen recorders and debuggers do, and says
 * at the end how often it was asked for names of the driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int asked;

void *dlsym(void *handle, const char *name)
{
	static void *(*next)(void *, const char *);

	if (!next)
		next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", GLIBC);
	asked += strncmp(name, "cu", 2) == 0;
	return next(handle, name);
}

static __attribute__((destructor)) void tell(void)
{
	if (asked)
		fprintf(stderr, "asked %d\n", asked);
}
