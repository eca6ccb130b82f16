/*
 * nvml.c - a simulated NVML for the simulated driver: the devices and processes of the truth file.
 *
 * One library a layout, since callers choose by the symbols they find (NVML_LAYOUT):
 *
 *	1	nvmlDeviceGetComputeRunningProcesses alone: pid and bytes
 *	2	also _v2: with the ids of MIG instances
 *	3	also _v3, the same layout
 *	4	as 3, but _v3 has a fifth field, as drivers 535.43 to 535.86 had it
 *
 * What it says beside the truth file is in the environment, read at each call:
 *
 *	CUWARD_NVML_PROCESSES	GPU:PID:BYTES:KIND,... more processes; KIND compute, graphics or mps
 *	CUWARD_NVML_RESERVED	bytes of each GPU that are nobody's
 *	CUWARD_NVML_UNKNOWN=1	bytes of processes are not available, as on WSL
 *	CUWARD_NVML_FAIL	FUNCTION=CODE,...
 *	CUWARD_NVML_HANG	FUNCTION that never returns
 *	CUWARD_NVML_MIG=N	the first GPU is divided into N slices
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "truth.h"

#define EXPORT __attribute__((visibility("default")))
#define NOT_AVAILABLE (~0ull)

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7 };
enum kind { COMPUTE, GRAPHICS, MPS };

struct device {
	int number; /* of the GPU, or 100 + of the slice */
};
static struct device devices[SIM_TRUTH_DEVICES], slices[8];
static bool ready;

/* For who must tell them apart. */
EXPORT const int cuward_simulated_nvml = NVML_LAYOUT;

struct v1 {
	unsigned pid;
	unsigned long long bytes;
};
struct v2 {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};
struct wide {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
	unsigned long long protected_bytes;
};

/* ---- what it is told to do ---- */

static unsigned long long number(const char *name, unsigned long long standard)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : standard;
}

static int answer(const char *function)
{
	const char *fail = getenv("CUWARD_NVML_FAIL"), *hang = getenv("CUWARD_NVML_HANG");
	size_t length = strlen(function);

	while (hang && strcmp(hang, function) == 0)
		sleep(1);
	for (; fail && *fail; fail = strchr(fail, ',') ? strchr(fail, ',') + 1 : NULL)
		if (strncmp(fail, function, length) == 0 && fail[length] == '=')
			return atoi(fail + length + 1);
	return !ready && strcmp(function, "nvmlInit_v2") != 0 ? UNINITIALIZED : SUCCESS;
}

#define ANSWER() \
	do { \
		int code = answer(__func__); \
\
		if (code) \
			return code; \
	} while (0)

/* ---- the truth ---- */

struct found {
	unsigned pid;
	unsigned long long bytes;
	enum kind kind;
};

/* The processes of a GPU; the sum of their bytes in *used. */
static unsigned find_true(unsigned gpu, struct found *found, unsigned long long *used)
{
	const char *path = getenv("CUWARD_SIM_TRUTH");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat info;
	struct sim_truth *truth;
	unsigned count = 0;

	if (fd < 0)
		return 0;
	truth = fstat(fd, &info) == 0 && (size_t)info.st_size >= sizeof(*truth) ?
		mmap(NULL, sizeof(*truth), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	for (int i = 0; truth != MAP_FAILED && i < SIM_TRUTH_PROCESSES; i++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
			.l_start = (off_t)((const char *)&truth->process[i] - (const char *)truth),
			.l_len = sizeof(truth->process[i]) };

		if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK ||
			!truth->process[i].device[gpu].physical)
			continue;
		found[count++] = (struct found){ (unsigned)truth->process[i].pid,
			truth->process[i].device[gpu].physical, COMPUTE };
		*used += truth->process[i].device[gpu].physical;
	}
	if (truth != MAP_FAILED)
		munmap(truth, sizeof(*truth));
	close(fd);
	return count;
}

static unsigned find_told(unsigned gpu, struct found *found, unsigned long long *used)
{
	const char *text = getenv("CUWARD_NVML_PROCESSES");
	unsigned count = 0;

	for (; text && *text && count < 64; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
		unsigned on, pid;
		unsigned long long bytes;
		char kind[16] = "";

		if (sscanf(text, "%u:%u:%llu:%15[a-z]", &on, &pid, &bytes, kind) != 4 || on != gpu)
			continue;
		found[count++] = (struct found){ pid, bytes,
			kind[0] == 'g' ? GRAPHICS : kind[0] == 'm' ? MPS : COMPUTE };
		*used += bytes;
	}
	return count;
}

static unsigned find_all(unsigned gpu, struct found *found, unsigned long long *used)
{
	unsigned count;

	*used = number("CUWARD_NVML_RESERVED", 0);
	count = find_true(gpu, found, used);
	return count + find_told(gpu, found + count, used);
}

/* ---- devices ---- */

static unsigned device_count(void)
{
	unsigned long long count = number("CUWARD_SIM_DEVICES", 1);

	return count < SIM_TRUTH_DEVICES ? (unsigned)count : SIM_TRUTH_DEVICES;
}

EXPORT int nvmlInit_v2(void)
{
	ANSWER();
	for (int i = 0; i < SIM_TRUTH_DEVICES; i++)
		devices[i].number = i;
	for (int i = 0; i < 8; i++)
		slices[i].number = 100 + i;
	ready = true;
	return SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
	ready = false;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	ANSWER();
	*count = device_count();
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
	ANSWER();
	if (index >= device_count())
		return INVALID_ARGUMENT;
	*device = &devices[index];
	return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(struct device *device, char *text, unsigned length)
{
	ANSWER();
	if (length < 80)
		return INSUFFICIENT_SIZE;
	snprintf(text, length, "%s-51000000-0000-4000-8000-%012d", device->number < 100 ? "GPU" : "MIG",
		device->number);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
	char text[96];

	ANSWER();
	for (unsigned i = 0; i < device_count(); i++)
		if (nvmlDeviceGetUUID(&devices[i], text, sizeof(text)) == SUCCESS && strcmp(text, uuid) == 0) {
			*device = &devices[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(struct device *device, char *text, unsigned length)
{
	(void)device;
	ANSWER();
	snprintf(text, length, "Simulated GPU");
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct device *device, unsigned long long memory[3])
{
	struct found found[SIM_TRUTH_PROCESSES + 64];
	unsigned long long parts = number("CUWARD_NVML_MIG", 1);

	ANSWER();
	memory[0] = number("CUWARD_NVML_TOTAL", 16ull << 30);
	if (device->number >= 100) {
		memory[0] /= parts ? parts : 1;
		memory[2] = 0;
	} else {
		find_all((unsigned)device->number, found, &memory[2]);
	}
	memory[1] = memory[2] < memory[0] ? memory[0] - memory[2] : 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeMode(struct device *device, int *mode)
{
	(void)device;
	ANSWER();
	*mode = 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending)
{
	ANSWER();
	if (!getenv("CUWARD_NVML_MIG"))
		return NOT_SUPPORTED;
	*current = *pending = device->number == 0;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count)
{
	(void)device;
	ANSWER();
	*count = 7;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index,
	struct device **slice)
{
	ANSWER();
	if (device->number != 0 || index >= number("CUWARD_NVML_MIG", 0))
		return NOT_FOUND;
	*slice = &slices[index];
	return SUCCESS;
}

/* ---- processes ---- */

static void put(void *to, unsigned at, int layout, const struct found *found)
{
	unsigned long long bytes = number("CUWARD_NVML_UNKNOWN", 0) ? NOT_AVAILABLE : found->bytes;

	if (layout == 1)
		((struct v1 *)to)[at] = (struct v1){ found->pid, bytes };
	else if (layout == 4)
		((struct wide *)to)[at] = (struct wide){ found->pid, bytes, ~0u, ~0u, 0 };
	else
		((struct v2 *)to)[at] = (struct v2){ found->pid, bytes, ~0u, ~0u };
}

static int processes(const struct device *device, unsigned *count, void *to, int layout, enum kind kind)
{
	struct found found[SIM_TRUTH_PROCESSES + 64];
	unsigned long long used;
	unsigned all, fitting = 0, room = *count;

	all = device->number < 100 ? find_all((unsigned)device->number, found, &used) : 0;
	for (unsigned i = 0; i < all; i++) {
		if (found[i].kind != kind)
			continue;
		if (fitting < room && to)
			put(to, fitting, layout, &found[i]);
		fitting++;
	}
	*count = fitting;
	return fitting > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, layout, kind) \
	EXPORT int function(struct device *device, unsigned *count, void *to) \
	{ \
		ANSWER(); \
		return processes(device, count, to, layout, kind); \
	}
#define FAMILY(name, suffix, layout) \
	PROCESSES(nvmlDeviceGetCompute##name##suffix, layout, COMPUTE) \
	PROCESSES(nvmlDeviceGetGraphics##name##suffix, layout, GRAPHICS) \
	PROCESSES(nvmlDeviceGetMPSCompute##name##suffix, layout, MPS)

FAMILY(RunningProcesses, , 1)
#if NVML_LAYOUT >= 2
FAMILY(RunningProcesses, _v2, 2)
#endif
#if NVML_LAYOUT >= 3
FAMILY(RunningProcesses, _v3, NVML_LAYOUT)
#endif
