/*
 * routes.c - one way to the driver: `routes HOW [LIBRARY]` allocates 1 MiB on it, and then one byte
 * more, and prints both results.
 *
 *	open LIB    dlsym of a handle           global LIB  dlsym(RTLD_DEFAULT)
 *	next LIB    dlsym(RTLD_NEXT)            main LIB    a handle of the program
 *	deep LIB    RTLD_DEEPBIND, a handle     space LIB   dlmopen, a handle
 *	plugin LIB  a plug-in's own calls       within LIB  a plug-in's look-ups
 *	bound LIB   a plug-in under DEEPBIND    wrapper LIB a library with its own cuMemAlloc_v2
 *	early LIB   cuGetProcAddress is the first call, of itself, at depth 5
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*call)();

static const char *how;
static void *handle;
static int (*look_up)(const char *, void **, int, unsigned long long, int *);

static int is(const char *what)
{
	return !strcmp(how, what);
}

static void open_library(const char *library)
{
	int mode = is("global") || is("next") || is("main") ? RTLD_GLOBAL :
		is("deep") || is("bound") ? RTLD_DEEPBIND : RTLD_LOCAL;

	handle = is("space") ? dlmopen(LM_ID_NEWLM, library, RTLD_NOW) :
		dlopen(library, RTLD_NOW | mode);
	if (!handle) {
		printf("%s\n", dlerror());
		exit(1);
	}
	if (is("main"))
		handle = dlopen(NULL, RTLD_NOW);
	if (is("early")) {
		look_up = (__typeof__(look_up))dlsym(handle, "cuGetProcAddress_v2");
		for (int depth = 0; depth < 5; depth++) {
			int status = 99;

			if (look_up("cuGetProcAddress", (void **)&look_up, 12000, 0, &status) || status)
				exit(3);
		}
	}
}

static call find(const char *name)
{
	void *found = NULL;

	if (is("global"))
		return (call)dlsym(RTLD_DEFAULT, name);
	if (is("next"))
		return (call)dlsym(RTLD_NEXT, name);
	if (is("within"))
		return (call)((void *(*)(const char *))dlsym(handle, "plugin_find"))(name);
	if (is("early")) {
		char base[64];

		snprintf(base, sizeof(base), "%s", name);
		if (strstr(base, "_v2"))
			*strstr(base, "_v2") = '\0';
		look_up(base, &found, 12000, 0, NULL);
		return (call)found;
	}
	return (call)dlsym(handle, name);
}

static int allocate(unsigned long bytes)
{
	unsigned long long pointer = 0;
	call function = is("plugin") || is("bound") ? (call)dlsym(handle, "plugin_alloc") :
		find("cuMemAlloc_v2");

	return function ? function(&pointer, bytes) : -1;
}

int main(int argc, char **argv)
{
	void *context;
	int device, first;
	call init;

	if (argc < 3)
		return 2;
	how = argv[1];
	open_library(argv[2]);
	init = find("cuInit");
	if (!init || init(0)) {
		printf("no cuInit\n");
		return 1;
	}
	if (find("cuDeviceGet")(&device, 0) || find("cuDevicePrimaryCtxRetain")(&context, device) ||
	    find("cuCtxSetCurrent")(context))
		return 1;
	first = allocate(1 << 20);
	printf("%d %d\n", first, allocate(1));
	return 0;
}
