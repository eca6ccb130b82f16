/*
 * box_others.c - the rest of the machine, as NVML tells it: the driver's number of each GPU, and
 * processes that are not seen under cuward.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "need.h"
#include "nvml.h"
#include "proc_state.h"
#include "user_name.h"

/* The pid namespace that a machine starts with, in which NVML counts. */
#define FIRST_PID_NS 0xeffffffcu

static bool is_on(const struct box *box, const struct box_process *process, const struct nvml_gpu *gpu)
{
	for (size_t i = 0; i < process->hold_count; i++)
		if (memcmp(box->gpus[process->holds[i].gpu].uuid, gpu->uuid, 16) == 0)
			return true;
	return false;
}

static bool is_tracked(const struct box *box, const struct nvml_facts *facts,
	const struct nvml_process *process)
{
	for (size_t i = 0; i < box->count; i++)
		if (box->processes[i].owner != OWNER_DEAD && box->processes[i].pid == (pid_t)process->pid &&
			is_on(box, &box->processes[i], &facts->gpus[process->gpu]))
			return true;
	return false;
}

static bool is_told_of(const struct box *box, const struct nvml_facts *facts,
	const struct box_process *process)
{
	for (uint32_t i = 0; i < facts->process_count; i++)
		if (process->pid == (pid_t)facts->processes[i].pid &&
			is_on(box, process, &facts->gpus[facts->processes[i].gpu]))
			return true;
	return false;
}

/* In a container NVML's pids are the machine's, and equal numbers here mean somebody else. */
static bool pids_are_ours(const struct box *box, const struct nvml_facts *facts)
{
	bool any = false;

	if (facts->simulated || ledger_own_pid_ns() == FIRST_PID_NS)
		return true;
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];

		if (process->owner == OWNER_DEAD || !process->used_bytes || !process->pid)
			continue;
		if (!is_told_of(box, facts, process))
			return false;
		any = true;
	}
	return any;
}

/* ---- one of them ---- */

static uint64_t start_ns(uint64_t ticks)
{
	struct timespec boot, now;
	uint64_t ran, ago;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &now);
	ran = (uint64_t)boot.tv_sec * 1000000000 + (uint64_t)boot.tv_nsec;
	ago = ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - (ran > ago ? ran - ago : 0);
}

static void read_command(struct box_other *other)
{
	char path[64];
	int fd;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/comm", other->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, other->command, sizeof(other->command) - 1);
	other->command[got > 0 ? got : 0] = '\0';
	other->command[strcspn(other->command, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

/* What /proc says of it, if we see it. */
static void describe(struct box_other *other)
{
	struct proc_state proc;
	struct stat info;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", other->pid);
	other->known = stat(path, &info) == 0 && proc_state(other->pid, &proc);
	if (!other->known)
		return;
	other->uid = info.st_uid;
	other->user = user_name(other->uid);
	other->start_ns = start_ns(proc.start_ticks);
	read_command(other);
}

/* One that computes and draws is told twice, with the same bytes. */
static struct box_other *find_other(const struct box *box, size_t gpu, pid_t pid)
{
	for (size_t i = 0; i < box->other_count; i++)
		if (box->others[i].gpu == gpu && box->others[i].pid == pid)
			return &box->others[i];
	return NULL;
}

static void add_other(struct box *box, const struct nvml_process *process, size_t gpu)
{
	static const char *const kinds[NVML_KINDS] = { [NVML_COMPUTE] = "compute",
		[NVML_GRAPHICS] = "graphics", [NVML_MPS] = "mps" };

	if (find_other(box, gpu, (pid_t)process->pid))
		return;
	box->others = need(reallocarray(box->others, box->other_count + 1, sizeof(*box->others)));
	box->others[box->other_count] = (struct box_other){ .gpu = gpu, .pid = (pid_t)process->pid,
		.used_bytes = process->used_bytes, .kind = kinds[process->kind] };
	describe(&box->others[box->other_count++]);
}

/* ---- all ---- */

static void set_driver_bytes(struct box_gpu *gpu, const struct nvml_gpu *told)
{
	uint64_t tracked = slots_add(gpu->used_bytes, gpu->overhead_bytes);

	if (!gpu->name[0])
		snprintf(gpu->name, sizeof(gpu->name), "%s", told->name);
	gpu->driver_bytes = told->used_bytes;
	/* What is charged and not given out yet, only we know of. */
	gpu->untracked_bytes = told->used_bytes == NVML_UNKNOWN ? BYTES_UNKNOWN :
		told->used_bytes > tracked ? told->used_bytes - tracked : 0;
}

static uint64_t known(uint64_t bytes)
{
	return bytes == BYTES_UNKNOWN ? 0 : bytes;
}

static int by_memory(const void *left, const void *right)
{
	const struct box_other *a = left, *b = right;

	if (known(a->used_bytes) != known(b->used_bytes))
		return known(a->used_bytes) > known(b->used_bytes) ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

void box_add_others(struct box *box)
{
	const struct nvml_facts *facts = nvml_answer();
	size_t at[NVML_GPUS];

	box->nvml = facts->state == NVML_THERE;
	if (!box->nvml)
		return;
	for (uint32_t i = 0; i < facts->gpu_count; i++) {
		at[i] = box_find_gpu(box, facts->gpus[i].uuid, facts->gpus[i].total_bytes);
		set_driver_bytes(&box->gpus[at[i]], &facts->gpus[i]);
	}
	box->others_known = pids_are_ours(box, facts);
	for (uint32_t i = 0; i < facts->process_count && box->others_known; i++)
		if (!is_tracked(box, facts, &facts->processes[i]))
			add_other(box, &facts->processes[i], at[facts->processes[i].gpu]);
	if (box->other_count)
		qsort(box->others, box->other_count, sizeof(*box->others), by_memory);
}

const struct box_other *box_find_other(const struct box *box, pid_t pid)
{
	for (size_t i = 0; i < box->other_count; i++)
		if (box->others[i].pid == pid)
			return &box->others[i];
	return NULL;
}
