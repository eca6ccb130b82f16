/*
 * hoard.c - a preload that wraps malloc and free, finds the real ones when they are first called, which is
 * before everything else in a process, and counts. A look-up that allocates would never end.
 */
#include <dlfcn.h>
#include <stdlib.h>

long hoard_count;

void *malloc(size_t bytes)
{
	static void *(*next)(size_t);

	if (!next)
		next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	hoard_count++;
	return next(bytes);
}

void free(void *pointer)
{
	static void (*next)(void *);

	if (!next)
		next = (void (*)(void *))dlvsym(RTLD_NEXT, "free", GLIBC);
	hoard_count += pointer != NULL;
	next(pointer);
}

/* The first call of all is that of many programs: nothing to free. */
static __attribute__((constructor)) void begin(void)
{
	free(NULL);
	free(malloc(100));
	if (hoard_count < 2)
		abort();
}
