/*
 * versions.c - which function is it that the driver handed out, where the pointer does not tell?
 *
 * Drivers hand out what they export, and the pointer identifies the function. One that hands out other
 * pointers to the same functions is asked where its answers change with the version that is asked
 * for: the newest answer is the newest of the functions of that name that it exports, the one before
 * it the one before that, and so on.
 */
#include "versions.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

#define VERSIONS_MAX 9

static void *ask(const char *name, int version, uint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *pointer = NULL;
	CUresult result = driver_has(CALL_cuGetProcAddress_v2) ?
		real.cuGetProcAddress_v2(name, &pointer, version, flags, &status) :
		real.cuGetProcAddress(name, &pointer, version, flags);

	return result == CUDA_SUCCESS ? pointer : NULL;
}

/* The last version before `version` for which there is another answer than for it; 0 for none. */
static int version_before(const char *name, int version, uint64_t flags)
{
	const void *answer = ask(name, version, flags);
	int low = 0; /* another answer, or none */

	while (version - low > 1) {
		int middle = low + (version - low) / 2;

		if (ask(name, middle, flags) == answer)
			version = middle;
		else
			low = middle;
	}
	return low;
}

/* How many functions of this name are newer than this one. -1: it is not among the answers. */
static int count_newer(const char *name, uint64_t flags, const void *pointer)
{
	int version = 0, newer = 0;

	real.cuDriverGetVersion(&version);
	while (version > 0 && ask(name, version, flags) != pointer) {
		version = version_before(name, version, flags);
		newer++;
	}
	return version > 0 ? newer : -1;
}

/* The function of this name before so many newer ones, as the driver exports them. */
static int exported(const char *name, const char *twin, int newer)
{
	char text[100];

	for (int version = VERSIONS_MAX; version > 0; version--) {
		if (version > 1)
			snprintf(text, sizeof(text), "%s_v%d%s", name, version, twin);
		else
			snprintf(text, sizeof(text), "%s%s", name, twin);
		if (driver_exports(text) && newer-- == 0)
			return call_number(text);
	}
	return -1;
}

/* It exports it under a name of its own, which no header of ours knows. */
static bool is_exported(const void *pointer)
{
	Dl_info info;

	return dladdr(pointer, &info) && info.dli_saddr == pointer && info.dli_sname &&
		call_like(info.dli_sname);
}

int versions_call(const char *name, uint64_t flags, const void *pointer)
{
	static const char *const twins[] = { "_ptsz", "_ptds" };
	int newer = is_exported(pointer) ? -1 : count_newer(name, flags, pointer);
	int call = -1;

	if (newer < 0)
		return -1;
	/* Functions without a twin are the same with the flag. */
	for (int i = 0; i < 2 && call < 0 && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM); i++)
		call = exported(name, twins[i], newer);
	return call < 0 ? exported(name, "", newer) : call;
}
