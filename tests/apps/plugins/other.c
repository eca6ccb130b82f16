/*
 * other.c - a small driver of another hand, to be built in many ways: what it exports may be bound to
 * whoever stands before it, or to itself; be versioned, be chosen when it is bound (-DIFUNC), or be
 * another function than what cuGetProcAddress gives (-DINNER); which may also look up by dlsym, as
 * $OTHER_LOOKS says (default, handle, real). At the end it appends to the file $OTHER_CALLS how often
 * each function was called.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VISIBLE
#define VISIBLE
#endif
#define ROOM (1ull << 34)

typedef uint64_t pointer;

static int initialised, device_count = 1;
static uint64_t used, next = 1ull << 40;
static void *current;

static struct {
	const char *name;
	int count;
} calls[64];

static void count(const char *name)
{
	int i = 0;

	while (calls[i].name && strcmp(calls[i].name, name) != 0)
		i++;
	calls[i].name = name;
	calls[i].count++;
}

static __attribute__((destructor)) void tell(void)
{
	const char *path = getenv("OTHER_CALLS");
	FILE *file = path ? fopen(path, "a") : NULL;

	for (int i = 0; file && calls[i].name; i++)
		fprintf(file, "%s %d\n", calls[i].name, calls[i].count);
	if (file)
		fclose(file);
}

/* The result of a call that needs cuInit, or a context. */
static int fine(int result) { return initialised ? result : 3; }
static int within(int result) { return current ? result : 201; }

static pointer take(uint64_t bytes)
{
	if (used + bytes > ROOM)
		return 0;
	used += bytes;
	return next += 1 << 20;
}

static int allocate(pointer *to, uint64_t bytes)
{
	pointer got = within(0) ? 0 : take(bytes);

	if (got)
		*to = got;
	return within(got ? 0 : 2);
}

static int allocate_old(uint32_t *to, uint64_t bytes)
{
	pointer got = 0;
	int result = allocate(&got, bytes);

	if (!result)
		*to = got >> 20;
	return result;
}

#define LAUNCH (void *f, int a, int b, int c, int d, int e, int g, int h, void *s, void **k, void **x)
#define LAUNCH_EX (const void *c, void *f, void **k, void **x)

/* name, name and first version and flag for cuGetProcAddress, parameters, what it does */
#define CALLS(X) \
	X(cuInit, cuInit, 2000, 0, (int flags), initialised = 1, flags ? 1 : 0) \
	X(cuDriverGetVersion, cuDriverGetVersion, 2020, 0, (int *to), *to = 12040, 0) \
	X(cuDeviceGetCount, cuDeviceGetCount, 2000, 0, (int *to), *to = device_count, fine(0)) \
	X(cuDeviceGet, cuDeviceGet, 2000, 0, (int *to, int i), *to = i, fine(i ? 101 : 0)) \
	X(cuDeviceGetName, cuDeviceGetName, 2000, 0, (char *to, int bytes, int d), \
		snprintf(to, bytes, "Other"), fine(d)) \
	X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0, (uint64_t *to, int d), *to = ROOM, fine(d)) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 0, (void **to, int d), \
		*to = &initialised, fine(d)) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, 0, (void *context), current = context, fine(0)) \
	X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, 0, (void **to), *to = current, fine(0)) \
	X(cuCtxGetDevice, cuCtxGetDevice, 2000, 0, (int *to), *to = 0, within(0)) \
	X(cuModuleLoadData, cuModuleLoadData, 2000, 0, (void **to, const void *image), \
		*to = (void *)image, within(0)) \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, 0, (void **to, void *module, const char *name), \
		*to = module, name ? 0 : 1) \
	X(cuMemAlloc, cuMemAlloc, 2000, 0, (uint32_t *to, uint32_t bytes), (void)0, allocate_old(to, bytes)) \
	X(cuMemAlloc_v2, cuMemAlloc, 3020, 0, (pointer *to, uint64_t bytes), (void)0, allocate(to, bytes)) \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, 0, (pointer *to, uint64_t bytes, void *s), (void)s, \
		allocate(to, bytes)) \
	X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, 2, (pointer *to, uint64_t bytes, void *s), (void)s, \
		allocate(to, bytes)) \
	X(cuLaunchKernel, cuLaunchKernel, 4000, 0, LAUNCH, (void)f, within(a + b + c + d + e + g != 6)) \
	X(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, 2, LAUNCH, (void)f, within(a + b + c + d + e + g != 6)) \
	X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, 0, LAUNCH_EX, (void)f, within(!c)) \
	X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060, 2, LAUNCH_EX, (void)f, within(!c))

#define X(symbol, name, version, flags, params, does, result) \
	static int inner_##symbol params \
	{ \
		count(#symbol); \
		does; \
		return result; \
	}
CALLS(X)
#undef X

#ifdef IFUNC
#define X(symbol, name, version, flags, params, does, result) \
	static int (*choose_##symbol(void)) params { return inner_##symbol; } \
	int symbol params __attribute__((ifunc("choose_" #symbol)));
#else
/* Another function than the inner one, which does the same. */
#define X(symbol, name, version, flags, params, does, result) \
	VISIBLE int symbol params; \
	VISIBLE int symbol params \
	{ \
		count(#symbol); \
		does; \
		return result; \
	}
#endif
CALLS(X)
#undef X

int cuGetProcAddress(const char *, void **, int, uint64_t);
int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);

#ifdef INNER
#define WHERE(symbol) (void *)inner_##symbol
#else
#define WHERE(symbol) (void *)symbol
#endif
#define X(symbol, name, version, flags, ...) { #name, version, flags, #symbol, WHERE(symbol) },
static const struct {
	const char *name;
	int version;
	uint64_t flags;
	const char *symbol;
	void *address;
} table[] = {
	CALLS(X)
	{ "cuGetProcAddress", 11030, 0, "cuGetProcAddress", (void *)cuGetProcAddress },
	{ "cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", (void *)cuGetProcAddress_v2 },
};
#undef X

static void *look_up(const char *symbol, void *address)
{
	const char *how = getenv("OTHER_LOOKS") ? getenv("OTHER_LOOKS") : "";
	void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *(*real)(void *, const char *);

	if (!strcmp(how, "default"))
		return dlsym(RTLD_DEFAULT, symbol);
	if (!strcmp(how, "handle"))
		return dlsym(self, symbol);
	*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", GLIBC_DLSYM);
	return strcmp(how, "real") ? address : real(self, symbol);
}

/* The newest that is old enough; a twin before what it is one of. */
static void *choose(const char *name, int version, uint64_t flags)
{
	int best = -1;

	for (int i = 0; i < (int)(sizeof(table) / sizeof(table[0])); i++) {
		if (!strcmp(table[i].name, name) && table[i].version <= version &&
			(table[i].flags & flags) == table[i].flags &&
			(best < 0 || table[i].flags > table[best].flags ||
			(table[i].flags == table[best].flags && table[i].version > table[best].version)))
			best = i;
	}
	return best < 0 ? NULL : look_up(table[best].symbol, table[best].address);
}

int cuGetProcAddress(const char *name, void **to, int version, uint64_t flags)
{
	void *found = choose(name, version, flags);

	if (found)
		*to = found;
	return found ? 0 : 500;
}

int cuGetProcAddress_v2(const char *name, void **to, int version, uint64_t flags, int *status)
{
	*to = choose(name, version, flags);
	if (status)
		*status = *to ? 0 : 1;
	return 0;
}
