/*
 * nvml_call.c - NVML's calls, by name.
 *
 * The processes of a GPU are told in structures that grew: v1 has 16 bytes, v2 24, and _v3 those
 * of v2 but in drivers 535.43 to 535.86, where it has 32. So the newest call that is there is
 * asked, and how far it wrote shows how large an entry is.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

enum { SUCCESS = 0, INSUFFICIENT_SIZE = 7 };

#define ENTRY_LARGEST 32u /* bytes */
#define UNTOUCHED 0xa5

static void *library;

static void *find(const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

/* ---- processes ---- */

typedef int list_processes(void *device, unsigned *count, void *entries);

static list_processes *find_processes(enum nvml_kind kind, unsigned *entry_bytes)
{
	static const char *const names[] = { [NVML_COMPUTE] = "Compute", [NVML_GRAPHICS] = "Graphics",
		[NVML_MPS] = "MPSCompute" };
	static const struct {
		const char *suffix;
		unsigned bytes;
	} versions[] = { { "_v3", 24 }, { "_v2", 24 }, { "", 16 } };

	for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		char name[80];
		list_processes *found;

		snprintf(name, sizeof(name), "nvmlDeviceGet%sRunningProcesses%s", names[kind],
			versions[i].suffix);
		found = find(name);
		*entry_bytes = versions[i].bytes;
		if (found)
			return found;
	}
	return NULL;
}

/* Entries end in a field, so the last byte written ends one. */
static unsigned measure(const unsigned char *entries, size_t bytes, unsigned count, unsigned usual)
{
	while (bytes && entries[bytes - 1] == UNTOUCHED)
		bytes--;
	if (!count || bytes % count != 0)
		return usual;
	bytes /= count;
	return bytes == 16 || bytes == 24 || bytes == 32 ? (unsigned)bytes : usual;
}

static void take(struct nvml_facts *facts, uint32_t gpu, enum nvml_kind kind, const unsigned char *entry)
{
	struct nvml_process *process = &facts->processes[facts->process_count];
	unsigned long long bytes;

	if (facts->process_count == NVML_PROCESSES)
		return;
	*process = (struct nvml_process){ .gpu = gpu, .kind = kind };
	memcpy(&process->pid, entry, sizeof(process->pid));
	memcpy(&bytes, entry + 8, sizeof(bytes));
	/* "Not available", or nonsense. */
	process->used_bytes = bytes > facts->gpus[gpu].total_bytes ? NVML_UNKNOWN : bytes;
	facts->process_count++;
}

static bool ask_processes(struct nvml_facts *facts, uint32_t gpu, void *device, enum nvml_kind kind)
{
	static unsigned char entries[NVML_PROCESSES * ENTRY_LARGEST];
	unsigned usual, bytes, count = NVML_PROCESSES;
	list_processes *ask = find_processes(kind, &usual);

	memset(entries, UNTOUCHED, sizeof(entries));
	if (!ask || ask(device, &count, entries) != SUCCESS || count > NVML_PROCESSES)
		return false;
	bytes = measure(entries, sizeof(entries), count, usual);
	for (unsigned i = 0; i < count; i++)
		take(facts, gpu, kind, entries + i * bytes);
	return true;
}

/* ---- GPUs ---- */

static bool parse_uuid(uint8_t uuid[16], const char *text)
{
	unsigned at = 0, byte;

	if (strncmp(text, "GPU-", 4) != 0)
		return false;
	for (text += 4; at < 16 && *text; text += 2) {
		text += *text == '-';
		if (sscanf(text, "%2x", &byte) != 1 || !text[1])
			return false;
		uuid[at++] = (uint8_t)byte;
	}
	return at == 16;
}

static void ask_memory(void *device, uint64_t *total, uint64_t *used)
{
	int (*ask)(void *, unsigned long long *) = find("nvmlDeviceGetMemoryInfo");
	unsigned long long memory[3] = { 0 }; /* total, free, used */
	bool fine = ask && ask(device, memory) == SUCCESS && memory[0] && memory[2] <= memory[0];

	*total = fine ? memory[0] : NVML_UNKNOWN;
	*used = fine ? memory[2] : NVML_UNKNOWN;
}

static void ask_slices(struct nvml_gpu *gpu, void *device)
{
	int (*mode)(void *, unsigned *, unsigned *) = find("nvmlDeviceGetMigMode");
	int (*most)(void *, unsigned *) = find("nvmlDeviceGetMaxMigDeviceCount");
	int (*get)(void *, unsigned, void **) = find("nvmlDeviceGetMigDeviceHandleByIndex");
	unsigned current = 0, pending = 0, count = 0;
	uint64_t used;

	gpu->mig = mode && mode(device, &current, &pending) == SUCCESS && current == 1;
	if (!gpu->mig || !most || !get || most(device, &count) != SUCCESS)
		return;
	for (unsigned i = 0; i < count && gpu->slice_count < NVML_SLICES; i++) {
		void *slice = NULL;

		if (get(device, i, &slice) == SUCCESS)
			ask_memory(slice, &gpu->slice_bytes[gpu->slice_count++], &used);
	}
}

static void ask_gpu(struct nvml_facts *facts, unsigned index)
{
	int (*by_index)(unsigned, void **) = find("nvmlDeviceGetHandleByIndex_v2");
	int (*uuid)(void *, char *, unsigned) = find("nvmlDeviceGetUUID");
	int (*name)(void *, char *, unsigned) = find("nvmlDeviceGetName");
	struct nvml_gpu *gpu = &facts->gpus[facts->gpu_count];
	char text[96] = "";
	void *device = NULL;

	*gpu = (struct nvml_gpu){ .mig = false };
	if (!by_index || !uuid || by_index(index, &device) != SUCCESS ||
		uuid(device, text, (unsigned)sizeof(text)) != SUCCESS || !parse_uuid(gpu->uuid, text))
		return;
	if (!name || name(device, gpu->name, (unsigned)sizeof(gpu->name)) != SUCCESS)
		gpu->name[0] = '\0';
	gpu->name[sizeof(gpu->name) - 1] = '\0';
	ask_memory(device, &gpu->total_bytes, &gpu->used_bytes);
	ask_slices(gpu, device);
	gpu->processes_known = ask_processes(facts, facts->gpu_count, device, NVML_COMPUTE);
	ask_processes(facts, facts->gpu_count, device, NVML_GRAPHICS);
	ask_processes(facts, facts->gpu_count, device, NVML_MPS);
	facts->gpu_count++;
}

void nvml_call(struct nvml_facts *facts)
{
	static bool started;
	int (*init)(void), (*count_of)(unsigned *);
	unsigned count = 0;

	facts->state = NVML_ABSENT;
	if (!library)
		library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	init = find("nvmlInit_v2");
	count_of = find("nvmlDeviceGetCount_v2");
	if (!init || !count_of)
		return;
	facts->state = NVML_FAILED;
	facts->error = started ? SUCCESS : init();
	if (facts->error != SUCCESS)
		return;
	started = true;
	facts->error = count_of(&count);
	if (facts->error != SUCCESS)
		return;
	facts->state = NVML_THERE;
	facts->simulated = dlsym(library, "cuward_simulated_nvml") != NULL;
	for (unsigned i = 0; i < count && facts->gpu_count < NVML_GPUS; i++)
		ask_gpu(facts, i);
}
