/*
 * versions.c - which function is it that the driver handed out, where the pointer does not tell?
 *
 * Drivers hand out what they export, and the pointer identifies the function. One that hands out other
 * pointers to the same functions is asked where its answers change with the version that is asked
 * for: the newest answer is the newest of the functions of that name that it exports, the one before
 * it the one before that, and so on.
 *
 * Where it does not export them at all, the oldest answer is the oldest function of that name that the
 * header declares. That is bound then, as exports are.
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

static int driver_version(void)
{
	CUresult (*get)(int *) = real.cuDriverGetVersion;
	int version = 0;

	if (!driver_has(CALL_cuDriverGetVersion))
		get = ask("cuDriverGetVersion", 2020, 0);
	return get && get(&version) == CUDA_SUCCESS ? version : 0;
}

/* How many functions of this name are newer than this one. -1: it is not among the answers. */
static int count_newer(const char *name, uint64_t flags, const void *pointer)
{
	int version = driver_version(), newer = 0;

	while (version > 0 && ask(name, version, flags) != pointer) {
		version = version_before(name, version, flags);
		newer++;
	}
	return version > 0 ? newer : -1;
}

static void write_name(char text[100], const char *name, int version, const char *twin)
{
	if (version > 1)
		snprintf(text, 100, "%s_v%d%s", name, version, twin);
	else
		snprintf(text, 100, "%s%s", name, twin);
}

/* The function of this name before so many newer ones, as the driver exports them. */
static int exported(const char *name, const char *twin, int newer)
{
	char text[100];

	for (int version = VERSIONS_MAX; version > 0; version--) {
		write_name(text, name, version, twin);
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

static const char *const twins[] = { "_ptsz", "_ptds" };

static bool wants_twin(uint64_t flags)
{
	return flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

static bool is_twin(const char *symbol)
{
	size_t length = strlen(symbol);

	if (length <= 5)
		return false;
	symbol += length - 5;
	return strcmp(symbol, twins[0]) == 0 || strcmp(symbol, twins[1]) == 0;
}

/* The function of this name after so many older ones, as the header declares them. */
static int declared(const char *name, const char *twin, int older)
{
	char text[100];
	int call;

	for (int version = 1; version <= VERSIONS_MAX; version++) {
		write_name(text, name, version, twin);
		call = call_number(text);
		if (call >= 0 && older-- == 0)
			return call;
	}
	return -1;
}

/* With the flag: what a twin is one of, or what has none. It is bound already. */
static bool is_twinless(const void *answer)
{
	int call = driver_call_at(answer);

	return call >= 0 && !is_twin(call_name(call));
}

/* The answers of a name, the newest first. */
static int all_answers(const void *answers[VERSIONS_MAX], const char *name, uint64_t flags)
{
	int count = 0;

	for (int version = driver_version(); version > 0 && count < VERSIONS_MAX;
		version = version_before(name, version, flags)) {
		answers[count] = ask(name, version, flags);
		if (!answers[count] || (wants_twin(flags) && is_twinless(answers[count])))
			break;
		count++;
	}
	return count;
}

static void bind_answers(const char *name, uint64_t flags)
{
	const void *answers[VERSIONS_MAX];
	int count = all_answers(answers, name, flags);

	for (int i = 0; i < count; i++) {
		int older = count - 1 - i;
		int call = declared(name, wants_twin(flags) ? twins[0] : "", older);

		if (call < 0 && wants_twin(flags))
			call = declared(name, twins[1], older);
		if (driver_call_at(answers[i]) < 0)
			driver_bind(call, answers[i]);
	}
}

/* All functions of a name are told apart at once; twins when it is known what they are of. */
static void bind_name(const char *name, uint64_t flags)
{
	bind_answers(name, 0);
	if (wants_twin(flags))
		bind_answers(name, flags);
}

int versions_call(const char *name, uint64_t flags, const void *pointer)
{
	int newer = is_exported(pointer) ? -1 : count_newer(name, flags, pointer);
	int call = -1;

	if (newer < 0)
		return -1;
	/* Functions without a twin are the same with the flag. */
	for (int i = 0; i < 2 && call < 0 && wants_twin(flags); i++)
		call = exported(name, twins[i], newer);
	if (call < 0)
		call = exported(name, "", newer);
	if (call >= 0)
		return call;
	bind_name(name, flags);
	return driver_call_at(pointer);
}

/* Its name as it is looked up, and with which flags. */
static uint64_t base_of(char name[100], int call)
{
	bool twin = is_twin(call_name(call));
	size_t length = strlen(call_name(call)) - (twin ? 5 : 0);

	snprintf(name, 100, "%.*s", (int)length, call_name(call));
	if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v')
		name[length - 3] = '\0';
	return twin ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
}

void versions_bind_absent(void)
{
	char name[100];
	uint64_t flags;

	if (driver_has(CALL_cuDeviceGetCount) && driver_has(CALL_cuCtxGetCurrent) &&
	    driver_has(CALL_cuCtxGetDevice))
		return;
	for (int call = 0; call < DRIVER_CALL_COUNT; call++) {
		if (driver_has(call))
			continue;
		flags = base_of(name, call);
		bind_name(name, flags);
	}
}
