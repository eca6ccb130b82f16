/*
 * truth.c - print a truth file as key=value lines: `truth FILE [KEY]`.
 *
 * device.N.KEY is what the device holds for all live processes; process.P.KEY and
 * process.P.device.N.KEY are of one process (P counts from 0 in order of first use), dead or alive.
 * With a KEY only its value is printed, and the exit status is 1 if there is no such key.
 */
#include "truth.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *wanted;
static bool found;

static void print(const char *prefix, const char *key, uint64_t value)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", prefix, key);
	if (!wanted)
		printf("%s=%" PRIu64 "\n", name, value);
	else if (!strcmp(wanted, name))
		printf("%" PRIu64 "\n", value);
	found = found || (wanted && !strcmp(wanted, name));
}

static void print_usage(const char *prefix, struct sim_truth_usage *usage)
{
	static const char *const families[] = {
#define FAMILY_NAME(name, charged) #name,
		SIM_FAMILIES(FAMILY_NAME)
	};
	char name[128];
	int i;

	print(prefix, "physical", usage->physical);
	print(prefix, "physical_high", usage->physical_high);
	print(prefix, "requested", usage->requested);
	print(prefix, "requested_high", usage->requested_high);
	print(prefix, "pool_reserved", usage->pool_reserved);
	print(prefix, "pool_reserved_high", usage->pool_reserved_high);
	print(prefix, "graph_reserved", usage->graph_reserved);
	print(prefix, "graph_reserved_high", usage->graph_reserved_high);
	print(prefix, "taken_high", usage->taken_high);
	print(prefix, "contexts", usage->contexts);
	for (i = 0; i < SIM_TRUTH_FAMILIES; i++) {
		snprintf(name, sizeof(name), "%s%s.", prefix, families[i]);
		print(name, "bytes", usage->family[i].bytes);
		print(name, "high", usage->family[i].high);
		print(name, "live", usage->family[i].live);
		print(name, "allocs", usage->family[i].allocs);
		print(name, "frees", usage->family[i].frees);
	}
}

static void print_objects(int number, struct sim_truth_process *process)
{
	static const char *const names[] = { "",
#define NAME(name) #name,
		SIM_OBJECTS(NAME)
	};
	char prefix[64];
	int i;

	for (i = 1; i < SIM_TRUTH_OBJECTS; i++) {
		snprintf(prefix, sizeof(prefix), "process.%d.object.%s.", number, names[i]);
		print(prefix, "created", process->objects[i].created);
		print(prefix, "live", process->objects[i].live);
	}
}

/* A row whose lock is gone is a dead process's. */
static bool is_alive(int fd, const struct sim_truth *truth, int row)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	lock.l_start = (off_t)((const char *)&truth->process[row] - (const char *)truth);
	lock.l_len = sizeof(truth->process[row]);
	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

static void print_process(
	int number, struct sim_truth_process *process, bool alive, unsigned devices)
{
	char prefix[64];
	unsigned i;

	snprintf(prefix, sizeof(prefix), "process.%d.", number);
	print(prefix, "pid", (uint64_t)process->pid);
	print(prefix, "alive", alive);
	print(prefix, "start_time", process->start_time);
	print(prefix, "inits", process->inits);
	print(prefix, "launches", process->launches);
	print(prefix, "graph_launches", process->graph_launches);
	print(prefix, "copies", process->copies);
	print(prefix, "synchronised", process->synchronised);
	print(prefix, "bad_frees", process->bad_frees);
	print_objects(number, process);
	for (i = 0; i < devices; i++) {
		snprintf(prefix, sizeof(prefix), "process.%d.device.%u.", number, i);
		print_usage(prefix, &process->device[i]);
	}
}

static void print_devices(int fd, struct sim_truth *truth)
{
	uint64_t physical, requested;
	char prefix[64];
	unsigned i;
	int row;

	for (i = 0; i < truth->devices; i++) {
		physical = requested = 0;
		for (row = 0; row < SIM_TRUTH_PROCESSES; row++)
			if (truth->process[row].state == ROW_LIVE && is_alive(fd, truth, row)) {
				physical += truth->process[row].device[i].physical;
				requested += truth->process[row].device[i].requested;
			}
		snprintf(prefix, sizeof(prefix), "device.%u.", i);
		print(prefix, "memory", truth->device[i].memory);
		print(prefix, "physical", physical);
		print(prefix, "physical_high", truth->device[i].physical_high);
		print(prefix, "requested", requested);
		print(prefix, "requested_high", truth->device[i].requested_high);
	}
}

int main(int argc, char **argv)
{
	struct sim_truth *truth;
	struct stat status;
	int fd, row, number = 0;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: truth FILE [KEY]\n");
		return 2;
	}
	wanted = argv[2];
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) || status.st_size < (off_t)sizeof(*truth)) {
		fprintf(stderr, "truth: %s: no truth in it\n", argv[1]);
		return 2;
	}
	truth = mmap(NULL, sizeof(*truth), PROT_READ, MAP_SHARED, fd, 0);
	if (truth == MAP_FAILED || truth->magic != SIM_TRUTH_MAGIC ||
		truth->version != SIM_TRUTH_VERSION) {
		fprintf(stderr, "truth: %s: not a truth file of this version\n", argv[1]);
		return 2;
	}
	print_devices(fd, truth);
	for (row = 0; row < SIM_TRUTH_PROCESSES; row++)
		if (truth->process[row].state != ROW_FREE)
			print_process(number++, &truth->process[row], is_alive(fd, truth, row),
				truth->devices);
	return wanted && !found;
}
