/*
 * gpus.c - asking the driver in a child with little time; and NVML, where it is.
 */
#include "gpus.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvml.h"
#include "queue.h"

static void *find(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static bool is_known(const struct gpu_fact *facts, int i)
{
	for (int other = 0; other < i; other++)
		if (memcmp(facts[other].uuid, facts[i].uuid, sizeof(facts[i].uuid)) == 0)
			return true;
	return false;
}

/* As the library has it in its processes (attach.c): else the place on the bus. */
static void identify(void *driver, struct gpu_fact *facts, int i, int device)
{
	static const uint8_t none[16];
	static const char *const names[] = { "cuDeviceGetUuid_v2", "cuDeviceGetUuid" };
	int (*place)(char *, int, int) = find(driver, "cuDeviceGetPCIBusId");
	struct gpu_fact *fact = &facts[i];
	char text[16] = "";

	for (unsigned n = 0; n < 2; n++) {
		int (*uuid)(uint8_t *, int) = find(driver, names[n]);

		if (uuid && uuid(fact->uuid, device) == 0)
			break;
	}
	fact->stands_in = memcmp(fact->uuid, none, sizeof(none)) == 0 || is_known(facts, i);
	if (!fact->stands_in)
		return;
	if (!place || place(text, sizeof(text), device) != 0)
		text[0] = '\0';
	memset(fact->uuid, 0, sizeof(fact->uuid));
	memcpy(fact->uuid, text, strnlen(text, sizeof(fact->uuid) - 1));
	if (!text[0] || is_known(facts, i))
		fact->uuid[sizeof(fact->uuid) - 1] = (uint8_t)(1 + i);
}

static void tell(int to, const char *path)
{
	void *driver = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = find(driver, "cuInit");
	int (*count_of)(int *) = find(driver, "cuDeviceGetCount");
	int (*get)(int *, int) = find(driver, "cuDeviceGet");
	int (*total)(size_t *, int) = find(driver, "cuDeviceTotalMem_v2");
	static struct gpu_fact facts[SLOT_DEVICES];
	int count = 0;

	if (!init || !count_of || !get || !total || init(0) != 0 || count_of(&count) != 0)
		return;
	for (int i = 0; i < count && i < SLOT_DEVICES; i++) {
		size_t bytes = 0;
		int device;

		if (get(&device, i) != 0 || total(&bytes, device) != 0)
			return;
		facts[i] = (struct gpu_fact){ .used_bytes = -1, .total_bytes = bytes };
		identify(driver, facts, i, device);
		if (write(to, &facts[i], sizeof(facts[i])) != sizeof(facts[i]))
			return;
	}
}

/* What is not supported, as on WSL or of a slice, is unknown. */
static int64_t used_bytes(const struct nvml_facts *nvml, const uint8_t uuid[16])
{
	for (uint32_t i = 0; nvml->state == NVML_THERE && i < nvml->gpu_count; i++)
		if (memcmp(nvml->gpus[i].uuid, uuid, 16) == 0 && nvml->gpus[i].used_bytes != NVML_UNKNOWN)
			return (int64_t)nvml->gpus[i].used_bytes;
	return -1;
}

void gpus_ask_used(struct gpu_fact facts[SLOT_DEVICES], unsigned count)
{
	const struct nvml_facts *nvml = nvml_answer();

	for (unsigned i = 0; i < count; i++)
		facts[i].used_bytes = used_bytes(nvml, facts[i].uuid);
}

unsigned gpus_ask(struct gpu_fact facts[SLOT_DEVICES])
{
	return gpus_ask_as(facts, NULL, NULL);
}

unsigned gpus_ask_as(struct gpu_fact facts[SLOT_DEVICES], const char *driver, const char *visible)
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
		/* Within a run we are preloaded ourselves; its limits are not the size of the GPU. */
		setenv("CUWARD_DISABLE", "1", 1);
		if (visible)
			setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		tell(ends[1], driver);
		_exit(0);
	}
	close(ends[1]);
	while (child > 0 && used < all && (got = read(ends[0], (char *)facts + used, all - used)) > 0)
		used += (size_t)got;
	close(ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	used /= sizeof(*facts);
	gpus_ask_used(facts, (unsigned)used);
	return (unsigned)used;
}

void gpus_name(const struct gpu_fact *facts, unsigned count, const uint8_t uuid[16], char name[48])
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	unsigned i = 0;

	queue_uuid_text(name, uuid);
	while (i < count && memcmp(facts[i].uuid, uuid, 16) != 0)
		i++;
	if (i == count || !facts[i].stands_in)
		return;
	snprintf(name, 48, "%u", i);
	for (unsigned item = 0; visible && item < i && strchr(visible, ','); item++)
		visible = strchr(visible, ',') + 1;
	if (visible && *visible)
		snprintf(name, 48, "%.*s", (int)strcspn(visible, ","), visible);
}
