/*
 * seen.c - see seen.h.
 */
#include "seen.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const struct sim_control *sim;
const struct ledger_header *seen_header;
const struct ledger_record *seen_records;
static const struct ledger_thread *threads;
static const struct slot *slot;
bool seen_spoil;
int64_t seen_spoilt;

const char *const seen_kinds[KIND_COUNT] = {
#define X(id, word) word,
	CUWARD_KINDS(X)
#undef X
};

const struct seen_object seen_objects[] = {
#define X(ours, its) { #its, OBJECT_##ours, GIVEN_##its },
	X(STREAM, stream) X(EVENT, event) X(MODULE, module) X(LIBRARY, library) X(KERNEL, kernel)
	X(GRAPH, graph) X(GRAPH_EXEC, graph_exec) X(MEM_POOL, mem_pool) X(TEXTURE, texture)
	X(SURFACE, surface) X(TEXTURE_REFERENCE, texture_reference) X(LINK, link)
	X(EXTERNAL_SEMAPHORE, external_semaphore) X(GREEN_CONTEXT, green_context)
#undef X
};
const unsigned seen_object_count = sizeof(seen_objects) / sizeof(seen_objects[0]);
_Static_assert(sizeof(seen_objects) / sizeof(seen_objects[0]) == SIM_TRUTH_OBJECTS - 1,
	"what the driver counts is compared");

static void give_up(const char *what)
{
	fprintf(stderr, "cannot see %s\n", what);
	exit(3);
}

static void *map(const char *path, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *place = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (place == MAP_FAILED)
		give_up(path);
	close(fd);
	return place;
}

/* The youngest ledger of this process: a number may have been another's before. */
static void find_ledger(char path[512], const char *folder)
{
	char prefix[32], one[512];
	struct stat status;
	struct timespec best = { 0 };
	struct dirent *entry;
	DIR *dir;

	snprintf(prefix, sizeof(prefix), "%d-", (int)getpid());
	snprintf(one, sizeof(one), "%s/jobs/-", folder);
	dir = opendir(one);
	if (!dir)
		give_up(one);
	*path = 0;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(one, sizeof(one), "%s/jobs/-/%.200s", folder, entry->d_name);
		if (stat(one, &status) || status.st_mtim.tv_sec < best.tv_sec)
			continue;
		best = status.st_mtim;
		memcpy(path, one, sizeof(one));
	}
	closedir(dir);
	if (!*path)
		give_up("a ledger of this process");
}

void seen_open(void)
{
	const char *folder = getenv("CUWARD_DIR");
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const char *ledger;
	char path[512];

	seen_spoil = getenv("CUWARD_MODEL_SPOIL") != NULL;
	sim = driver ? dlsym(driver, "cuward_simulated_driver_control") : NULL;
	if (!sim)
		give_up("the simulated driver");
	if (!folder)
		give_up("CUWARD_DIR");
	find_ledger(path, folder);
	ledger = map(path, LEDGER_RECORDS_OFFSET + (1ull << 20) * sizeof(struct ledger_record));
	seen_header = (const struct ledger_header *)ledger;
	threads = (const struct ledger_thread *)(ledger + LEDGER_THREADS_OFFSET);
	seen_records = (const struct ledger_record *)(ledger + LEDGER_RECORDS_OFFSET);
	if (seen_header->magic != LEDGER_MAGIC || seen_header->version != CUWARD_LAYOUT_VERSION)
		give_up("a ledger of this version");
	if (seen_header->device_count != SEEN_DEVICES || seen_header->slot >= SLOT_COUNT)
		give_up("two devices and a slot");
	snprintf(path, sizeof(path), "%s/slots.%u", folder, (unsigned)getuid());
	slot = map(path, sizeof(struct slots_header) + SLOT_COUNT * sizeof(struct slot));
	slot = (const struct slot *)((const char *)slot + sizeof(struct slots_header)) +
		seen_header->slot;
}

void seen_read(struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	for (uint32_t t = 0; t < seen_header->thread_count; t++) {
		const struct ledger_thread *one = &threads[t];

		for (int kind = 0; kind < KIND_COUNT; kind++) {
			seen->bytes[kind] += __atomic_load_n(&one->bytes[kind], __ATOMIC_RELAXED);
			seen->live[kind] += (int64_t)(one->allocs[kind] - one->frees[kind]);
		}
		for (int kind = 0; kind < OBJECT_COUNT; kind++)
			seen->objects[kind] += (int64_t)(one->created[kind] - one->destroyed[kind]);
	}
	seen->bytes[KIND_PINNED] += seen_spoilt;
	for (int i = 0; i < SEEN_DEVICES; i++) {
		const struct ledger_device *device = &seen_header->devices[i];

		seen->used[i] = __atomic_load_n(&slot->words[device->slot_device], __ATOMIC_RELAXED) &
			WORD_BYTES_MASK;
		seen->denied += device->denied;
	}
}

void seen_truth(struct seen *truth)
{
	static const struct {
		enum sim_family family;
		enum cuward_kind kind;
	} pairs[] = {
		{ FAMILY_device, KIND_DEVICE }, { FAMILY_pool, KIND_POOL }, { FAMILY_vmm, KIND_VMM },
		{ FAMILY_array, KIND_ARRAY }, { FAMILY_managed, KIND_MANAGED },
		{ FAMILY_host, KIND_PINNED }, { FAMILY_imported, KIND_IMPORTED },
	};
	const struct sim_truth_process *process = sim->truth();

	memset(truth, 0, sizeof(*truth));
	for (unsigned i = 0; i < seen_object_count; i++)
		truth->objects[seen_objects[i].ours] = (int64_t)process->objects[seen_objects[i].its].live;
	for (int i = 0; i < SEEN_DEVICES; i++) {
		const struct sim_truth_usage *usage = &process->device[i];

		for (unsigned p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
			truth->bytes[pairs[p].kind] += (int64_t)usage->family[pairs[p].family].bytes;
			truth->live[pairs[p].kind] += (int64_t)usage->family[pairs[p].family].live;
		}
		truth->bytes[KIND_GRAPH] += (int64_t)usage->graph_reserved;
		truth->used[i] = usage->requested;
	}
}
