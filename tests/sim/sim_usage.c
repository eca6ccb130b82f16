/*
 * sim_usage.c - how much of each device is used, by this process and by all that share the truth
 * file.
 *
 * Own figures have one writer at a time (the device's lock is held), so they need no locked
 * instruction. The shared ones do, and only with a truth file. See truth.h.
 */
#include "sim_device.h"
#include "sim_knobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sim_truth_process private_row;
static struct sim_truth_process *own = &private_row;
static struct sim_truth *truth; /* NULL: private */
static pid_t owner;

struct sim_truth_process *usage_process(void)
{
	return own;
}

static void add(sim_count *count, int64_t change)
{
	uint64_t value = atomic_load_explicit(count, memory_order_relaxed) + (uint64_t)change;

	atomic_store_explicit(count, value, memory_order_relaxed);
}

static void add_high(sim_count *count, sim_count *high, int64_t change)
{
	add(count, change);
	if (*count > *high)
		atomic_store_explicit(high, *count, memory_order_relaxed);
}

static void raise_high(sim_count *high, uint64_t value)
{
	uint64_t seen = atomic_load(high);

	while (value > seen && !atomic_compare_exchange_weak(high, &seen, value))
		;
}

/* ---- rows ---- */

static struct flock row_lock(int row)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	lock.l_start = (off_t)offsetof(struct sim_truth, process) +
		       (off_t)row * (off_t)sizeof(struct sim_truth_process);
	lock.l_len = sizeof(struct sim_truth_process);
	return lock;
}

static bool row_is_dead(int fd, int row)
{
	struct flock lock = row_lock(row);

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

static void give_back_row(struct sim_truth_process *row)
{
	int i;

	for (i = 0; i < SIM_DEVICES; i++) {
		atomic_fetch_sub(&truth->device[i].physical, row->device[i].physical);
		atomic_fetch_sub(&truth->device[i].requested, row->device[i].requested);
	}
}

/* A dead process's memory goes back to the device; its row stays for whoever wants to read it. */
static void reap_row(struct sim_truth_process *row)
{
	uint32_t live = ROW_LIVE;

	atomic_fetch_add(&truth->reaps, 0x10001);
	if (row->begun != row->done)
		truth->torn = 1;
	if (atomic_compare_exchange_strong(&row->state, &live, ROW_REAPED))
		give_back_row(row);
	atomic_fetch_sub(&truth->reaps, 1);
}

/* What all live rows say together, and how many changes they saw. False: one is under way. */
static bool sum_rows(int device, uint64_t *physical, uint64_t *requested, uint64_t *changes)
{
	int i;

	*physical = *requested = *changes = 0;
	for (i = 0; i < SIM_TRUTH_PROCESSES; i++) {
		struct sim_truth_process *row = &truth->process[i];

		if (row->state != ROW_LIVE)
			continue;
		if (row->begun != row->done)
			return false;
		*physical += row->device[device].physical;
		*requested += row->device[device].requested;
		*changes += row->done;
	}
	return true;
}

static bool mend_device(int number)
{
	struct sim_truth_device *device = &truth->device[number];
	uint64_t rows[3], again[3], physical, requested;

	physical = device->physical;
	requested = device->requested;
	if (!sum_rows(number, &rows[0], &rows[1], &rows[2]) || (truth->reaps & 0xffff) ||
		!sum_rows(number, &again[0], &again[1], &again[2]) || memcmp(rows, again, sizeof(rows)))
		return false;
	return atomic_compare_exchange_strong(&device->physical, &physical, rows[0]) &&
	       atomic_compare_exchange_strong(&device->requested, &requested, rows[1]);
}

/*
 * Who is killed between two figures leaves the device's wrong by that much: it is made the sum of the rows
 * once they stand still for a moment. Whoever is stopped in the middle of a change puts that off.
 */
static void mend(void)
{
	int device = 0, tries;

	if (!truth->torn)
		return;
	for (tries = 0; tries < 200 && device < SIM_DEVICES; tries++) {
		if (mend_device(device))
			device++;
		else
			usleep(20);
	}
	if (device == SIM_DEVICES)
		truth->torn = 0;
}

static void reap(void)
{
	int fd, i;

	if (!truth)
		return;
	fd = open(knobs.truth, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	for (i = 0; i < SIM_TRUTH_PROCESSES; i++)
		if (truth->process[i].state == ROW_LIVE && &truth->process[i] != own &&
			row_is_dead(fd, i))
			reap_row(&truth->process[i]);
	close(fd);
	mend();
}

/* The rest of the line behind the command, which may hold anything; false: there is no such process. */
static bool read_stat(const char *pid, char *text, size_t bytes, char **field)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	text[fread(text, 1, bytes - 1, file)] = 0;
	fclose(file);
	*field = strrchr(text, ')');
	return *field;
}

#define EXITING 4u /* PF_EXITING of the kernel */

static bool row_is_dying(const struct sim_truth_process *row)
{
	char pid[16], text[1024], *field;
	unsigned flags = 0;

	snprintf(pid, sizeof(pid), "%d", (int)row->pid);
	return !read_stat(pid, text, sizeof(text), &field) ||
		(sscanf(field + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & EXITING);
}

static bool somebody_dies(void)
{
	int i;

	for (i = 0; i < SIM_TRUTH_PROCESSES; i++)
		if (truth->process[i].state == ROW_LIVE && &truth->process[i] != own &&
			row_is_dying(&truth->process[i]))
			return true;
	return false;
}

/*
 * A process that is killed lets go of one file after the other: who has seen its end by another one may
 * already use its memory, which the device still counts as taken. What all live ones use is meant.
 */
static void note_high(struct sim_truth_device *shared, uint64_t total, uint32_t reaps)
{
	int tries;

	reap();
	if (truth->torn)
		return; /* nobody can say now */
	if (!somebody_dies() && !(reaps & 0xffff) && atomic_load(&truth->reaps) == reaps) {
		raise_high(&shared->requested_high, total);
		return;
	}
	for (tries = 0; tries < 1000 && somebody_dies(); tries++) {
		usleep(1000);
		reap();
	}
	if (!truth->torn)
		raise_high(&shared->requested_high, atomic_load(&shared->requested));
}

static uint64_t start_time(void)
{
	char text[1024], *field;
	unsigned long long ticks = 0;

	if (read_stat("self", text, sizeof(text), &field))
		sscanf(field + 1,
			" %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
			"%*d %llu",
			&ticks);
	return ticks;
}

/* A free row, or the first dead one where all were used. The lock decides between two that want it.
 */
static struct sim_truth_process *take_row(int fd)
{
	struct flock lock;
	int want, i;

	for (want = ROW_FREE; want <= ROW_REAPED; want += ROW_REAPED - ROW_FREE)
		for (i = 0; i < SIM_TRUTH_PROCESSES; i++) {
			lock = row_lock(i);
			if (truth->process[i].state != (uint32_t)want ||
				fcntl(fd, F_OFD_SETLK, &lock))
				continue;
			if (truth->process[i].state == (uint32_t)want)
				return &truth->process[i];
			lock.l_type = F_UNLCK;
			fcntl(fd, F_OFD_SETLK, &lock);
		}
	return NULL;
}

/* Two processes may both find the file new. The header is written under a lock of its own. */
static void fill_header(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int i;

	lock.l_len = (off_t)offsetof(struct sim_truth, process);
	while (fcntl(fd, F_OFD_SETLKW, &lock) && errno == EINTR)
		;
	if (truth->magic != SIM_TRUTH_MAGIC) {
		truth->version = SIM_TRUTH_VERSION;
		truth->devices = (uint32_t)device_count;
		for (i = 0; i < device_count; i++)
			truth->device[i].memory = devices[i].memory;
		truth->magic = SIM_TRUTH_MAGIC;
	}
	lock.l_type = F_UNLCK;
	fcntl(fd, F_OFD_SETLK, &lock);
}

static bool attach(int fd)
{
	struct sim_truth_process *row;
	void *map;

	if (ftruncate(fd, sizeof(struct sim_truth)))
		return false;
	map = mmap(NULL, sizeof(struct sim_truth), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return false;
	/* A child keeps neither the mapping nor, by it, the lock. */
	madvise(map, sizeof(struct sim_truth), MADV_DONTFORK);
	truth = map;
	fill_header(fd);
	row = take_row(fd);
	if (!row)
		return false;
	memset(row, 0, sizeof(*row));
	row->pid = (int32_t)getpid();
	row->start_time = start_time();
	row->state = ROW_LIVE;
	own = row;
	reap();
	return true;
}

bool usage_open(void)
{
	int fd, i;

	if (*knobs.truth && owner != getpid()) {
		fd = open(knobs.truth, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0 || !attach(fd)) {
			fprintf(stderr, "simulated driver: CUWARD_SIM_TRUTH: cannot use '%s'\n",
				knobs.truth);
			abort();
		}
		close(fd); /* the mapping keeps the open file, and so the lock */
		owner = getpid();
	}
	for (i = 0; i < device_count; i++) {
		devices[i].truth = &own->device[i];
		devices[i].shared = truth ? &truth->device[i] : NULL;
	}
	return true;
}

/* A child that may go on needs its parent's figures, which it does not inherit. */
void usage_before_fork(void)
{
	if (truth)
		memcpy(&private_row, own, sizeof(private_row));
}

/* The mapping did not come along into this child, which goes on all the same: count in private. */
void usage_forked(void)
{
	int i;

	if (!truth)
		return;
	truth = NULL;
	own = &private_row;
	for (i = 0; i < device_count; i++) {
		devices[i].truth = &own->device[i];
		devices[i].shared = NULL;
	}
}

/* ---- figures ---- */

static void change_begin(struct device *device)
{
	if (device->shared)
		atomic_fetch_add(&own->begun, 1);
}

static void change_end(struct device *device)
{
	if (device->shared)
		atomic_fetch_add(&own->done, 1);
}

static bool shared_take(struct device *device, uint64_t bytes)
{
	struct sim_truth_device *shared = device->shared;
	uint64_t now = atomic_load(&shared->physical);

	do {
		if (now + bytes > device->memory)
			return false;
	} while (!atomic_compare_exchange_weak(&shared->physical, &now, now + bytes));
	raise_high(&shared->physical_high, now + bytes);
	return true;
}

static bool take(struct device *device, uint64_t bytes)
{
	struct sim_truth_usage *usage = device->truth;
	bool taken;

	change_begin(device);
	taken = device->shared ? shared_take(device, bytes) : usage->physical + bytes <= device->memory;
	if (taken)
		add_high(&usage->physical, &usage->physical_high, (int64_t)bytes);
	change_end(device);
	return taken;
}

bool device_take(struct device *device, uint64_t bytes)
{
	if (take(device, bytes))
		return true;
	reap();
	return device->shared && take(device, bytes);
}

void device_give(struct device *device, uint64_t bytes)
{
	change_begin(device);
	add(&device->truth->physical, -(int64_t)bytes);
	if (device->shared)
		atomic_fetch_sub(&device->shared->physical, bytes);
	change_end(device);
}

uint64_t device_physical(struct device *device)
{
	reap();
	return device->shared ? device->shared->physical : device->truth->physical;
}

/* The device's lock is held. */
static void note_taken(struct sim_truth_usage *usage)
{
	uint64_t taken = usage->requested + usage->graph_reserved;

	if (taken > usage->taken_high)
		atomic_store_explicit(&usage->taken_high, taken, memory_order_relaxed);
}

static const bool charged[] = {
#define CHARGED(name, is_charged) is_charged,
	SIM_FAMILIES(CHARGED)
};

void usage_add(struct device *device, enum sim_family family, uint64_t bytes)
{
	struct sim_truth_usage *usage = device->truth;
	struct sim_usage *row = &usage->family[family];
	uint64_t total;
	uint32_t reaps;

	add_high(&row->bytes, &row->high, (int64_t)bytes);
	add(&row->live, 1);
	add(&row->allocs, 1);
	if (!charged[family])
		return;
	change_begin(device);
	add_high(&usage->requested, &usage->requested_high, (int64_t)bytes);
	note_taken(usage);
	reaps = device->shared ? atomic_load(&truth->reaps) : 0;
	total = device->shared ? atomic_fetch_add(&device->shared->requested, bytes) + bytes : 0;
	change_end(device);
	if (device->shared && total > atomic_load(&device->shared->requested_high))
		note_high(device->shared, total, reaps);
}

void usage_remove(struct device *device, enum sim_family family, uint64_t bytes)
{
	struct sim_truth_usage *usage = device->truth;
	struct sim_usage *row = &usage->family[family];

	add(&row->bytes, -(int64_t)bytes);
	add(&row->live, -1);
	add(&row->frees, 1);
	if (!charged[family])
		return;
	change_begin(device);
	add(&usage->requested, -(int64_t)bytes);
	if (device->shared)
		atomic_fetch_sub(&device->shared->requested, bytes);
	change_end(device);
}

void usage_reserved(struct device *device, int64_t change)
{
	add_high(&device->truth->pool_reserved, &device->truth->pool_reserved_high, change);
}

void usage_graph_reserved(struct device *device, int64_t change)
{
	add_high(&device->truth->graph_reserved, &device->truth->graph_reserved_high, change);
	note_taken(device->truth);
}

void usage_contexts(struct device *device, int64_t change)
{
	add(&device->truth->contexts, change);
}
