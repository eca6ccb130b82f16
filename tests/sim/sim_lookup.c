/*
 * sim_lookup.c - cuGetProcAddress and what else works before cuInit.
 *
 * The rules were measured on a real 12.2 driver: names are base names, the newest ABI not newer
 * than the version asked for wins, and the per-thread twin is a row of its own.
 */
#include "sim.h"
#include "sim_knobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum variant { legacy, ptsz, ptds };

struct entry {
	const char *symbol, *name;
	void *function;
	enum variant variant;
	int version;
	int profiles;
};

static const struct entry entries[] = {
#define ENTRY(symbol, name, variant, version, profiles, before_init) \
	{ #symbol, #name, (void *)symbol, variant, version, profiles },
	SIM_FACTS(ENTRY)
};

int sim_driver_version(void)
{
	return knobs.driver_version ? (int)knobs.driver_version : sim_profile_version;
}

/* Is it exported by this library, and known to a driver of this version? */
static bool is_there(const struct entry *entry)
{
	int profile = sim_profile_version > 13000 ? 8 : sim_profile_version == 12020 ? 2 :
		sim_profile_version == 11000 ? 4 : 1;

	return entry->profiles & profile && entry->version <= sim_driver_version();
}

/* The first row of a name; rows are sorted by name. */
static const struct entry *first_entry(const char *name)
{
	size_t low = 0, high = ARRAY_SIZE(entries), middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (strcmp(entries[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ARRAY_SIZE(entries) && !strcmp(entries[low].name, name) ? &entries[low] : NULL;
}

/* What is found of a name: is it known, has it a twin, and the newest ABI of the variant wanted. */
struct lookup {
	bool known, has_twin;
	const struct entry *newest[2]; /* legacy, twin */
};

static struct lookup look_up(const char *name, int version)
{
	const struct entry *entry = first_entry(name), *end = entries + ARRAY_SIZE(entries),
			   **newest;
	struct lookup found = { 0 };

	for (; entry && entry < end && !strcmp(entry->name, name); entry++) {
		if (!is_there(entry))
			continue;
		found.known = true;
		found.has_twin = found.has_twin || entry->variant != legacy;
		newest = &found.newest[entry->variant != legacy];
		/* The version is compared unsigned: -1 is newer than everything. */
		if ((unsigned)entry->version <= (unsigned)version &&
			(!*newest || entry->version > (*newest)->version))
			*newest = entry;
	}
	return found;
}

/* A line a look-up for tests, as the call log has a line a call. */
static void tell(const char *name, int version, cuuint64_t flags, const struct entry *entry)
{
	char line[256];
	ssize_t written;
	int fd, length;

	if (!*knobs.look_ups)
		return;
	length = snprintf(line, sizeof(line), "%d %s %d %d %s\n", (int)getpid(), name, version, (int)flags,
		entry ? entry->symbol : "-");
	fd = open(knobs.look_ups, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	written = write(fd, line, (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1);
	(void)written;
	close(fd);
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
	CUdriverProcAddressQueryResult *symbolStatus)
{
	const struct entry *entry;
	struct lookup found;
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;

	if (flags & ~(cuuint64_t)3)
		return CUDA_ERROR_INVALID_VALUE;
	found = look_up(symbol, cudaVersion);
	entry = found.newest[flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
			     found.has_twin];
	if (!found.known)
		status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	else if (!entry)
		status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	tell(symbol, cudaVersion, flags, entry);
	*pfn = entry ? entry->function : NULL;
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	void *function;
	CUresult result = sim_cuGetProcAddress_v2(symbol, &function, cudaVersion, flags, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = function;
	return CUDA_SUCCESS;
}

CUresult sim_cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = sim_driver_version();
	return CUDA_SUCCESS;
}

CUresult sim_cuProfilerStart(void)
{
	return CUDA_SUCCESS;
}

CUresult sim_cuProfilerStop(void)
{
	return CUDA_SUCCESS;
}
