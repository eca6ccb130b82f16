/*
 * ways.c - find the driver in one way, ask it for 64 MiB, print `answer CODE`. ways WAY [PATH]:
 *
 *	so1 so absolute deepbind dlmopen   dlopen and dlsym
 *	global next                        RTLD_GLOBAL, then RTLD_DEFAULT or RTLD_NEXT
 *	lookup                             cuGetProcAddress found by cuGetProcAddress
 *	dlvsym                             dlsym itself found by dlvsym in libc
 *	absent                             RTLD_DEFAULT without a driver: prints `absent`
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The version of what libc had from its beginning. */
#if defined(__aarch64__)
#define LIBC_FIRST "GLIBC_2.17"
#else
#define LIBC_FIRST "GLIBC_2.2.5"
#endif

typedef int (*call)();
typedef void *(*finder)(void *, const char *);

static finder find = dlsym;
static int (*look_up)(const char *, void **, int, uint64_t, int *);

static call function(void *handle, const char *name)
{
	void *found = NULL;
	int status;

	if (!look_up)
		return (call)find(handle, name);
	look_up(name, &found, 12000, 0, &status);
	return (call)found;
}

static void *open_driver(const char *way, const char *path)
{
	if (strcmp(way, "so") == 0)
		return dlopen("libcuda.so", RTLD_LAZY);
	if (strcmp(way, "absolute") == 0)
		return dlopen(path, RTLD_NOW);
	if (strcmp(way, "deepbind") == 0)
		return dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
	if (strcmp(way, "dlmopen") == 0)
		return dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	if (strcmp(way, "absent") == 0)
		return RTLD_DEFAULT;
	if (strcmp(way, "global") == 0 || strcmp(way, "next") == 0) {
		dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
		return strcmp(way, "next") == 0 ? RTLD_NEXT : RTLD_DEFAULT;
	}
	return dlopen("libcuda.so.1", RTLD_NOW);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	void *driver = open_driver(way, argc > 2 ? argv[2] : "");
	void *context, *again = NULL;
	uint64_t pointer;
	int status;

	if (strcmp(way, "dlvsym") == 0)
		find = (finder)dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", LIBC_FIRST);
	if (strcmp(way, "lookup") == 0) {
		*(void **)&look_up = dlsym(driver, "cuGetProcAddress_v2");
		look_up("cuGetProcAddress", &again, 12000, 0, &status);
		*(void **)&look_up = again;
	}
	if (!function(driver, "cuInit")) {
		puts("absent");
		return 0;
	}
	if (function(driver, "cuInit")(0) ||
		function(driver, "cuDevicePrimaryCtxRetain")(&context, 0) ||
		function(driver, "cuCtxSetCurrent")(context))
		return 1;
	printf("answer %d\n", function(driver, look_up ? "cuMemAlloc" : "cuMemAlloc_v2")(&pointer,
		(size_t)64 << 20));
	return 0;
}
