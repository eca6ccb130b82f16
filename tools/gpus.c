/*
 * gpus.c - asking the driver, and NVML where it is there, in a child with little time.
 */
#include "gpus.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *find(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static void uuid_text(char text[48], const uint8_t uuid[16])
{
	int at = sprintf(text, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* What is not supported, as on WSL or of a slice, is unknown. */
static int64_t nvml_used(void *nvml, const uint8_t uuid[16])
{
	int (*by_uuid)(const char *, void **) = find(nvml, "nvmlDeviceGetHandleByUUID");
	int (*info)(void *, unsigned long long *) = find(nvml, "nvmlDeviceGetMemoryInfo");
	unsigned long long memory[3] = { 0 }; /* total, free, used */
	void *device = NULL;
	char text[48];

	uuid_text(text, uuid);
	if (!by_uuid || !info || by_uuid(text, &device) != 0 || info(device, memory) != 0 ||
		memory[2] > memory[0])
		return -1;
	return (int64_t)memory[2];
}

static void *open_nvml(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = find(nvml, "nvmlInit_v2");

	return init && init() == 0 ? nvml : NULL;
}

static void tell(int to)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = find(driver, "cuInit");
	int (*count_of)(int *) = find(driver, "cuDeviceGetCount");
	int (*get)(int *, int) = find(driver, "cuDeviceGet");
	int (*total)(size_t *, int) = find(driver, "cuDeviceTotalMem_v2");
	int (*uuid)(uint8_t *, int) = find(driver, "cuDeviceGetUuid_v2");
	void *nvml;
	int count = 0;

	if (!uuid)
		uuid = find(driver, "cuDeviceGetUuid");
	if (!init || !count_of || !get || !total || !uuid || init(0) != 0 || count_of(&count) != 0)
		return;
	nvml = open_nvml();
	for (int i = 0; i < count && i < SLOT_DEVICES; i++) {
		struct gpu_fact fact = { .used_bytes = -1 };
		size_t bytes = 0;
		int device;

		if (get(&device, i) != 0 || uuid(fact.uuid, device) != 0 || total(&bytes, device) != 0)
			return;
		fact.total_bytes = bytes;
		fact.used_bytes = nvml_used(nvml, fact.uuid);
		if (write(to, &fact, sizeof(fact)) != sizeof(fact))
			return;
	}
}

unsigned gpus_ask(struct gpu_fact facts[SLOT_DEVICES])
{
	size_t used = 0, all = SLOT_DEVICES * sizeof(*facts);
	ssize_t got;
	int ends[2];
	pid_t child;

	fflush(NULL);
	if (pipe(ends) != 0)
		return 0;
	child = fork();
	if (child == 0) {
		alarm(20);
		close(ends[0]);
		tell(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	while (child > 0 && used < all && (got = read(ends[0], (char *)facts + used, all - used)) > 0)
		used += (size_t)got;
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	return (unsigned)(used / sizeof(*facts));
}
