/*
 * faults.c - every driver call, answered with each of five codes: it comes through unchanged, what the
 * program passed is as it was, and nothing was charged, counted or recorded. `faults HOOKED`, a file
 * with the names of the calls that have a policy: each of them must have been tried.
 *
 * Traced by told.c in place of the provider: each of these failures is told once, and nothing else is said
 * to have happened. Calls that are too usual to be told are listed.
 *
 * Arguments follow from the types and names of the parameters, see fault_calls.awk: a new call is
 * tried as soon as the header has it. It is linked to the driver of the future, which has them all. By an
 * older one those that it lacks are answered CUDA_ERROR_NOT_SUPPORTED, with as little left behind.
 */
#include <cuda.h>
#include <cudaProfiler.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"
#include "told.h"

#define MOST 24
#define BUFFER 4096
#define PATTERN 0xa5

struct argument {
	char value[64] __attribute__((aligned(16)));
};

struct row {
	const char *name;
	CUresult (*call)(struct argument *argument);
	const char *params[MOST];
};

#include "fault_calls.h"

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static char buffers[MOST][BUFFER] __attribute__((aligned(4096)));
static char expected[MOST][BUFFER];
static bool tried[ROWS];
static unsigned wrong;
static CUdeviceptr held;
static CUcontext context;
static struct told *told; /* NULL: not traced */
static bool untold[ROWS];

/* Calls that are answered without the driver, or must not be made like this. */
static const char *const apart[] = {
	"cuGetProcAddress", "cuGetProcAddress_v2", /* the look-ups of the shim, tested on their own */
	"cuGetExportTable",
};

static bool is_apart(const char *name)
{
	for (unsigned i = 0; i < sizeof(apart) / sizeof(apart[0]); i++)
		if (!strcmp(apart[i], name))
			return true;
	return false;
}

/* Structures that a call reads although it might change them. */
static bool is_read(const char *param)
{
	static const char *const types[] = { "CUctxCreateParams", "CUexecAffinityParam", "Params",
		"PARAMS", "CUdevResource ", "CUarrayMapInfo", "CUmemLocation", "CUmemcpyAttributes",
		"BATCH_OP", "Args", "CUdeviceptr *dptrs", "CUdeviceptr *dsts", "CUdeviceptr *srcs",
		"size_t *sizes", "**kernelParams", "**extra", "Values", "**data", "void *", "void*",
		"CUmemPoolPtrExportData *shareData", "CUlaunch", "CUjit_option", "CUlibraryOption",
		"CUcontext *contexts", "size_t *prefetchLocIdxs", "size_t *attrsIdxs", "CUmem_range" };

	if (strstr(param, "const "))
		return true;
	if (!strcmp(param, "void **pp"))
		return false;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strstr(param, types[i]))
			return true;
	return false;
}

static const char *name_of(const char *param)
{
	const char *end = param + strlen(param);

	while (end > param && end[-1] != ' ' && end[-1] != '*')
		end--;
	return end;
}

/* What a parameter that is no pointer gets. */
static uint64_t number_for(const char *param)
{
	const char *name = name_of(param);

	if (!strncmp(param, "CUstream ", 9) || !strncmp(param, "CUdevice ", 9))
		return 0;
	if (!strncmp(param, "CUcontext ", 10))
		return (uint64_t)context;
	if (!strncmp(param, "CUdeviceptr", 11))
		return held;
	if (!strncmp(name, "num", 3) || !strcmp(name, "count") || !strcmp(name, "n"))
		return 1;
	if (!strcasecmp(name, "flags"))
		return 0;
	if (strstr(name, "ize") || strstr(name, "Count") || strstr(name, "idth"))
		return BUFFER;
	return 1;
}

static void fill(const struct row *row, struct argument *arguments, bool patterned)
{
	memset(arguments, 0, MOST * sizeof(*arguments));
	for (int i = 0; i < MOST && row->params[i]; i++) {
		const char *param = row->params[i];
		uint64_t value = number_for(param);

		memset(buffers[i], patterned && !is_read(param) ? PATTERN : 0, BUFFER);
		if (strchr(param, '*') || strstr(param, "[]"))
			value = (uint64_t)buffers[i];
		memcpy(arguments[i].value, &value, sizeof(value));
	}
	memcpy(expected, buffers, sizeof(buffers));
}

static void complain(const struct row *row, int code, const char *what)
{
	if (wrong++ < 50)
		printf("%s, answered %d: %s\n", row->name, code, what);
}

static void check_one(const struct row *row, int code, unsigned api, int result)
{
	if (strcmp(told->calls[api], row->name) != 0)
		complain(row, code, told->calls[api]);
	if (result != code)
		complain(row, code, "an event has another code");
}

static void check_told(const struct row *row, int code)
{
	unsigned failures = 0;

	if (told->count > TOLD_MAX)
		complain(row, code, "too many events");
	for (unsigned i = 0; i < told->count && i < TOLD_MAX; i++) {
		const struct told_entry *entry = &told->entries[i];

		failures++;
		switch (entry->event) {
		case TOLD_api:
		case TOLD_site:
		case TOLD_thread:
		case TOLD_function:
		case TOLD_stream_number:
			failures--;
			break;
		case TOLD_launch:
			check_one(row, code, entry->launch.api, entry->launch.result);
			break;
		case TOLD_copy:
			check_one(row, code, entry->copy.api, entry->copy.result);
			break;
		case TOLD_sync:
			check_one(row, code, entry->sync.api, entry->sync.result);
			break;
		case TOLD_call:
			check_one(row, code, entry->call.api, entry->call.result);
			break;
		default:
			complain(row, code, "an event tells of more than a failure");
		}
	}
	if (failures > 1)
		complain(row, code, "told more than once");
	if (failures == 0)
		untold[row - rows] = true;
}

static unsigned live_records(void)
{
	unsigned live = 0;

	for (uint32_t i = 0; i < seen_header->record_count; i++)
		live += seen_records[i].state != RECORD_FREE;
	return live;
}

static void try(const struct row *row, int number, int code, bool patterned, bool there)
{
	struct argument arguments[MOST];
	struct seen before, after, truth_before, truth;
	uint64_t reached = sim->thread_count(number);
	unsigned records = live_records();
	CUresult result;

	fill(row, arguments, patterned);
	seen_read(&before);
	seen_truth(&truth_before);
	if (there)
		sim->fault(number, code);
	if (told)
		told->count = 0;
	result = row->call(arguments);
	sim->fault(-1, 0);
	if (told)
		check_told(row, code);
	seen_read(&after);
	seen_truth(&truth);
	if (sim->thread_count(number) != reached + there)
		complain(row, code, there ? "the driver was not asked just once" : "the driver was asked");
	if ((int)result != code)
		complain(row, code, "another code came through");
	for (int i = 0; i < MOST && row->params[i]; i++)
		if (memcmp(buffers[i], expected[i], BUFFER) != 0)
			complain(row, code, row->params[i]);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		complain(row, code, "the ledger's sums changed");
	if (memcmp(&truth_before, &truth, sizeof(truth)) != 0)
		complain(row, code, "the driver did something");
	if (live_records() != records)
		complain(row, code, "a record more or less");
}

/* A context fit for use, and memory in it that must be there afterwards. */
static void start_again(void)
{
	cuDevicePrimaryCtxReset_v2(0);
	if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
		cuMemAlloc_v2(&held, 12345))
		exit(3);
}

static unsigned check_hooked(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned count = 0;
	char name[128];

	if (!file)
		return 0;
	while (fscanf(file, "%127s", name) == 1) {
		unsigned i;

		for (i = 0; i < ROWS && strcmp(rows[i].name, name) != 0; i++)
			;
		if (i == ROWS || (!tried[i] && !is_apart(name))) {
			printf("%s has a policy and was not tried\n", name);
			wrong++;
		}
		count++;
	}
	fclose(file);
	return count;
}

static unsigned try_all_codes(const struct row *row, int number, bool there)
{
	static const int codes[] = { 1, 2, 201, 999, 700 }, absent[] = { CUDA_ERROR_NOT_SUPPORTED };
	unsigned count = there ? sizeof(codes) / sizeof(codes[0]) : 1;
	const int *code = there ? codes : absent;

	for (unsigned c = 0; c < count; c++)
		for (int patterned = 0; patterned < 2; patterned++) {
			try(row, number, code[c], patterned, there);
			if (code[c] == 700)
				start_again();
		}
	return 2 * count;
}

int main(int argc, char **argv)
{
	unsigned calls = 0, absent = 0, hooked;
	void *provider, *driver;

	if (argc != 2 || cuInit(0))
		return 2;
	provider = dlopen("libcuward-lttng.so", RTLD_LAZY | RTLD_NOLOAD);
	told = provider ? dlsym(provider, "told") : NULL;
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	start_again();
	seen_open();
	for (unsigned i = 0; i < ROWS; i++) {
		int number = sim->call(rows[i].name);

		if (number < 0 || is_apart(rows[i].name))
			continue;
		if (!dlsym(driver, rows[i].name))
			absent++;
		calls += try_all_codes(&rows[i], number, dlsym(driver, rows[i].name));
		tried[i] = true;
	}
	hooked = check_hooked(argv[1]);
	printf("%u calls, %u with a policy, %u that the driver lacks, %u wrong\n", calls, hooked, absent,
		wrong);
	for (unsigned i = 0; told && i < ROWS; i++)
		if (untold[i])
			printf("not told: %s\n", rows[i].name);
	return wrong != 0;
}
