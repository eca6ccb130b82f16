/*
 * share.c - the folder of shared state, its slots file, and the mappings both need.
 *
 * A slot belongs to a process as long as it holds an OFD write lock on the slot's range. The lock
 * lives in the open file behind the mapping, so the descriptor is closed at once: the guest cannot
 * close it, exec and death drop it with the mapping, whatever the kind of death.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "identity.h"
#include "job.h"
#include "kernel.h"
#include "log.h"
#include "lock.h"
#include "settings.h"

#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define SLOTS_BYTES (sizeof(struct slots_header) + SLOT_COUNT * sizeof(struct slot))
#define PAGE 4096ull
#define OWNERS_ASKED 16u

static struct {
	struct slots_header *header;
	struct slot *slots;
	uint32_t number;
	bool common; /* in the administrator's folder */
	dev_t device;
	ino_t inode;
} WHOLE_PAGES share;

/* ---- memory ---- */

/*
 * Windows are large and hold little. A program that keeps all its future memory in core (mlockall) would
 * have every page of them there at once, unless they can only be touched once that is off.
 */
static void *map(size_t bytes, int flags, int fd, uint64_t offset)
{
	void *memory = mmap(NULL, bytes, PROT_NONE, flags | MAP_NORESERVE, fd, offset);

	if (memory == MAP_FAILED)
		return NULL;
	munlock(memory, bytes);
	if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0)
		return memory;
	munmap(memory, bytes);
	return NULL;
}

void *share_map(int fd, uint64_t offset, size_t bytes)
{
	void *memory = map(bytes, MAP_SHARED, fd, offset);

	if (!memory)
		return NULL;
	madvise(memory, bytes, MADV_DONTFORK);
	madvise(memory, bytes, MADV_DONTDUMP);
	return memory;
}

const void *share_map_slots(int fd)
{
	void *memory = mmap(NULL, SLOTS_BYTES, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, SLOTS_BYTES, MADV_DONTFORK);
	madvise(memory, SLOTS_BYTES, MADV_DONTDUMP);
	return memory;
}

void share_unmap_slots(const void *slots)
{
	munmap((void *)slots, SLOTS_BYTES);
}

void *share_private(size_t bytes)
{
	return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void share_private_done(void *memory, size_t bytes)
{
	munmap(memory, bytes);
}

#define HUGE_PAGE (2ull << 20)

void *share_private_large(size_t bytes)
{
	char *memory;
	char *aligned;

	if (bytes < HUGE_PAGE)
		return share_private(bytes);
	memory = share_private(bytes + HUGE_PAGE);
	if (!memory)
		return NULL;
	aligned = (char *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	if (aligned > memory)
		munmap(memory, aligned - memory);
	munmap(aligned + bytes, memory + HUGE_PAGE - aligned);
	madvise(aligned, bytes, MADV_HUGEPAGE);
	return aligned;
}

void share_wipe_on_fork(void *memory, size_t bytes)
{
	kernel_wipe_on_fork(memory, bytes);
}

static int allocate(int fd, uint64_t offset, uint64_t bytes)
{
	static const char zeros[PAGE];

	if (fallocate(fd, 0, offset, bytes) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	for (uint64_t at = offset & ~(PAGE - 1); at < offset + bytes; at += PAGE) {
		struct stat status;

		/* Blocks that exist hold data of others. */
		if (fstat(fd, &status) == 0 && (uint64_t)status.st_size > at)
			continue;
		if (pwrite(fd, zeros, PAGE, at) != (ssize_t)PAGE)
			return errno ? -errno : -ENOSPC;
	}
	return 0;
}

/* Beyond a limit of file sizes (ulimit -f) there is a signal too. */
int share_allocate(int fd, uint64_t offset, uint64_t bytes)
{
	struct held_signals held;
	int error;

	log_hold_signals(&held);
	error = allocate(fd, offset, bytes);
	log_release_signals(&held);
	return error;
}

/* ---- the folder ---- */

/* Found once: the guest may change its environment and where it is. Anybody may write to /dev/shm. */
static struct {
	char path[PATH_MAX];
	int flags;
	bool made;
} place;

static void find_folder(void)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	const char *wanted = settings_get(SETTING_dir);
	int length = 0;

	/* In its place at once: not every stack has room for a path. */
	if (settings_is_set(SETTING_dir) && wanted[0] != '/' && getcwd(place.path, PATH_MAX - 1))
		length = strlen(strcat(place.path, "/"));
	if (settings_is_set(SETTING_dir))
		length += snprintf(place.path + length, PATH_MAX - length, "%s", wanted);
	else if (runtime && runtime[0] == '/')
		length = snprintf(place.path, PATH_MAX, "%s/cuward", runtime);
	else
		length = snprintf(place.path, PATH_MAX, "/dev/shm/cuward-%u", getuid());
	if (length >= PATH_MAX) /* open() will say so */
		memset(place.path, 'x', PATH_MAX - 1);
	place.flags = strncmp(place.path, "/dev/shm/", 9) == 0 ? O_NOFOLLOW : 0;
}

int share_folder(char *why, size_t why_bytes)
{
	const char *path = place.path;
	struct stat status;
	int fd;

	if (getuid() != geteuid()) {
		snprintf(why, why_bytes, "a program of two users has no shared folder");
		return -EPERM;
	}
	if (!path[0])
		find_folder();
	/* Only once: whoever removes it later wants it gone. */
	if (!place.made) {
		if (mkdir(path, 0700) == 0)
			chmod(path, 0700); /* whatever the umask */
		place.made = true;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | place.flags);
	if (fd < 0) {
		snprintf(why, why_bytes, "cannot use the shared folder %s: %s", path, strerror(errno));
		return -errno;
	}
	if (fstat(fd, &status) != 0 || status.st_uid != getuid() || (status.st_mode & 022)) {
		snprintf(why, why_bytes, "the shared folder %s must belong to uid %u and be writable by "
			"nobody else", path, getuid());
		close(fd);
		return -EPERM;
	}
	return fd;
}

int share_slots_folder(bool *common, char *why, size_t why_bytes)
{
	int fd = getuid() == geteuid() ? admin_dir_open("slots") : -1;

	*common = fd >= 0;
	return fd >= 0 ? fd : share_folder(why, why_bytes);
}

bool share_is_common(void)
{
	return share.common;
}

/* ---- slots ---- */

static bool lock_range(int fd, uint64_t start, uint64_t bytes, bool lock)
{
	struct flock range = {
		.l_type = lock ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = bytes,
	};

	return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

/* Whoever holds it works for microseconds; a stopped one must not stop us for ever. */
static bool lock_header(int fd)
{
	const struct timespec nap = { .tv_nsec = 200000 };

	for (int tries = 0; tries < 5000; tries++) {
		if (lock_range(fd, 0, 1, true))
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

static bool header_is_ours(const struct slots_header *header, uint64_t boot)
{
	return header->magic == SLOTS_MAGIC && header->version == CUWARD_LAYOUT_VERSION &&
		header->slot_bytes == sizeof(struct slot) && header->slot_count == SLOT_COUNT &&
		header->slots_used <= SLOT_COUNT && header->device_count <= SLOT_DEVICES &&
		header->boot == boot;
}

/* Whoever lives locks his slot, beyond the first byte. Of another version of us: not ours to touch. */
static bool is_of_another_version(const struct slots_header *header, int fd)
{
	struct flock slots = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 };

	return header->magic == SLOTS_MAGIC && header->version != CUWARD_LAYOUT_VERSION &&
		header->boot == identity_boot() &&
		(fcntl(fd, F_OFD_GETLK, &slots) != 0 || slots.l_type != F_UNLCK);
}

/*
 * Called with the header locked. A file of an earlier boot or filled by somebody else is left as it is,
 * false: somebody may have it mapped.
 */
static bool prepare_header(struct slots_header *header)
{
	uint64_t boot = identity_boot();

	if (header_is_ours(header, boot))
		return true;
	if (header->magic)
		return false;
	memset(header, 0, sizeof(*header));
	header->version = CUWARD_LAYOUT_VERSION;
	header->slot_bytes = sizeof(struct slot);
	header->slot_count = SLOT_COUNT;
	header->uid = getuid();
	header->boot = boot;
	__atomic_store_n(&header->magic, SLOTS_MAGIC, __ATOMIC_RELEASE);
	return true;
}

static uint64_t slot_offset(uint32_t number)
{
	return sizeof(struct slots_header) + (uint64_t)number * sizeof(struct slot);
}

static void remove_ledger_of(const struct process_identity *who)
{
	char why[256];
	int folder = share_folder(why, sizeof(why));

	if (folder < 0)
		return;
	job_remove_ledger(folder, who);
	close(folder);
}

static bool lock_slot(int fd, uint32_t number)
{
	return lock_range(fd, slot_offset(number), sizeof(struct slot), true);
}

bool share_is_alive(int fd, uint32_t number)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_offset(number),
		.l_len = sizeof(struct slot),
	};

	return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

static void unlock_slot(int fd, uint32_t number)
{
	lock_range(fd, slot_offset(number), sizeof(struct slot), false);
}

static int find_free(int fd, uint32_t used)
{
	for (uint32_t i = 0; i < used; i++)
		if (share.slots[i].state == SLOT_FREE && lock_slot(fd, i))
			return i;
	return -1;
}

/* Nothing of it counts in any sum that is made from now on. */
static void free_slot(struct slot *slot)
{
	memset(slot->words, 0, sizeof(slot->words));
	memset(slot->overhead, 0, sizeof(slot->overhead));
	slot->waiting_since_ns = 0;
	__atomic_store_n(&slot->state, SLOT_FREE, __ATOMIC_RELEASE);
}

/* So many slots, from where the last one stopped: those whose owners died are free. */
static void free_dead(int fd, uint32_t used, uint32_t count)
{
	for (; count > 0; count--) {
		uint32_t number = share.header->next_asked % used;

		share.header->next_asked = number + 1;
		/* To ask is a quarter of the work of a lock that cannot be had. */
		if (share.slots[number].state == SLOT_FREE || share_is_alive(fd, number) ||
			!lock_slot(fd, number))
			continue;
		remove_ledger_of(&share.slots[number].who);
		free_slot(&share.slots[number]);
		unlock_slot(fd, number);
	}
}

/* Beyond the last one there may be owners too, where somebody emptied the file. */
static int find_fresh(int fd, uint32_t used)
{
	uint64_t end = slot_offset(used);

	while (used < SLOT_COUNT && !lock_slot(fd, used))
		used++;
	if (used == SLOT_COUNT || share_allocate(fd, end, slot_offset(used + 1) - end) != 0) {
		unlock_slot(fd, used);
		return -1;
	}
	share.header->slots_used = used + 1;
	return used;
}

/*
 * With the header locked. Whether an owner lives is a system call, which takes the longer the more of
 * them there are: each start asks after a few, in turn, so that few slots of the dead are left over.
 */
static int find_slot(int fd)
{
	uint32_t used = share.header->slots_used;
	int slot;

	free_dead(fd, used, used < OWNERS_ASKED ? used : OWNERS_ASKED);
	if ((slot = find_free(fd, used)) >= 0 || (slot = find_fresh(fd, used)) >= 0)
		return slot;
	free_dead(fd, used, used);
	return find_free(fd, used);
}

void share_slot_changed(void)
{
	__atomic_add_fetch(&share.header->taken, 1, __ATOMIC_SEQ_CST);
}

static struct slot *fill_slot(uint32_t number, const struct process_identity *who)
{
	struct slot *slot = &share.slots[number];
	uint32_t generation = slot->generation + 1;

	share.number = number;
	memset(slot, 0, sizeof(*slot));
	slot->generation = generation;
	slot->who = *who;
	for (int i = 0; i < SLOT_DEVICES; i++)
		slot->process_limit[i] = BYTES_NONE;
	__atomic_store_n(&slot->state, SLOT_TAKEN, __ATOMIC_RELEASE);
	share_slot_changed();
	return slot;
}

/* With the header locked: the word of each device, the same one in every slot. */
static bool find_devices(struct ledger_device *devices, unsigned count)
{
	struct slots_header *header = share.header;

	for (unsigned d = 0; d < count; d++) {
		unsigned i = 0;

		while (i < header->device_count && memcmp(header->devices[i].uuid, devices[d].uuid, 16) != 0)
			i++;
		if (i == SLOT_DEVICES)
			return false;
		if (i == header->device_count) {
			memcpy(header->devices[i].uuid, devices[d].uuid, 16);
			header->devices[i].total_bytes = devices[d].total_bytes;
			header->devices[i].present = 1;
			__atomic_store_n(&header->device_count, i + 1, __ATOMIC_RELEASE);
		}
		devices[d].slot_device = i;
	}
	return true;
}

static bool map_slots(int fd)
{
	share_wipe_on_fork(&share, sizeof(share));
	share.header = share_map(fd, 0, SLOTS_BYTES);
	share.slots = (struct slot *)(share.header + 1);
	return share.header != NULL;
}

static void unmap_slots(void)
{
	if (share.header)
		munmap(share.header, SLOTS_BYTES);
	share.header = NULL;
	share.slots = NULL;
}

/* Somebody may have cut the file off: the slots that are in use have their room again. */
static bool make_whole(int fd)
{
	uint64_t bytes = slot_offset(share.header->slots_used);

	/* To look for a hole takes much less time than to fill those that are not there. */
	return lseek(fd, 0, SEEK_HOLE) >= (off_t)bytes || share_allocate(fd, 0, bytes) == 0;
}

/* With the header locked. The number of our slot, or -1 and why. */
static int take_locked(int fd, struct ledger_header *ledger, char *why, size_t why_bytes)
{
	int slot = -1;

	if (!make_whole(fd))
		snprintf(why, why_bytes, "no room for the slots file");
	else if (!find_devices(ledger->devices, ledger->device_count))
		snprintf(why, why_bytes, "more than %d different GPUs in one slots file", SLOT_DEVICES);
	else if ((slot = find_slot(fd)) < 0)
		snprintf(why, why_bytes, "no slot is free in the slots file");
	else
		fill_slot(slot, &ledger->who);
	return slot;
}

/* A file of ours, not a link, a pipe or a device that somebody put in its place. */
static int open_slots(int folder, const char *name, char *why, size_t why_bytes)
{
	int fd = openat(folder, name,
		O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == getuid() &&
	    share_allocate(fd, 0, sizeof(struct slots_header)) == 0 && map_slots(fd)) {
		share.device = status.st_dev;
		share.inode = status.st_ino;
		/* Whatever the umask: the next one of ours must be able to open it. */
		fchmod(fd, share.common ? 0644 : 0600);
		return fd;
	}
	snprintf(why, why_bytes, "cannot use %s in the shared folder: %s", name,
		fd < 0 ? strerror(errno) : "it is no file of ours, or there is no room");
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_still_there(int folder, const char *name)
{
	struct stat named;

	return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == share.device &&
		named.st_ino == share.inode;
}

bool share_is_mapped(int fd)
{
	struct stat opened;

	return fstat(fd, &opened) == 0 && opened.st_dev == share.device && opened.st_ino == share.inode;
}

/*
 * The slots file, mapped, its header locked and good. One that is not gives way to a new file; the lock
 * says that nobody else is at it, unless somebody was before us and this is not the file any more.
 */
static int lock_slots(int folder, const char *name, char *why, size_t why_bytes)
{
	for (int tries = 0; tries < 8; tries++) {
		int fd = open_slots(folder, name, why, why_bytes);
		bool hopeless = false;

		if (fd < 0)
			return -1;
		if (!lock_header(fd)) {
			snprintf(why, why_bytes, "%s stayed locked for a second", name);
			hopeless = true;
		} else if (is_still_there(folder, name)) {
			if (prepare_header(share.header))
				return fd;
			snprintf(why, why_bytes, "the slots file is in use by another version of cuward");
			hopeless = is_of_another_version(share.header, fd) || unlinkat(folder, name, 0) != 0;
		}
		unmap_slots();
		close(fd);
		if (hopeless)
			return -1;
	}
	return -1;
}

struct slot *share_take_slot(struct ledger_header *ledger, char *why, size_t why_bytes)
{
	char name[32];
	bool common;
	int folder = share_slots_folder(&common, why, why_bytes);
	int fd = -1;
	int slot = -1;

	share.common = common;
	if (folder >= 0) {
		snprintf(name, sizeof(name), "slots.%u", getuid());
		fd = lock_slots(folder, name, why, why_bytes);
	}
	if (fd >= 0) {
		slot = take_locked(fd, ledger, why, why_bytes);
		lock_range(fd, 0, 1, false);
		close(fd);
	}
	if (fd >= 0 && slot < 0)
		unmap_slots();
	if (folder >= 0)
		close(folder);
	ledger->slot = slot < 0 ? SLOT_COUNT : slot;
	return slot < 0 ? NULL : &share.slots[slot];
}

struct slots_header *share_slots(void)
{
	return share.header;
}

void share_give_back_slot(void)
{
	struct slot *slot = share.slots ? &share.slots[share.number] : NULL;
	uint64_t holds = 0;

	if (!slot)
		return;
	/* What was not freed is the driver's to free, once this process is no more: it counts so long. */
	for (int i = 0; i < SLOT_DEVICES; i++)
		holds |= __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED) & WORD_BYTES_MASK;
	__atomic_store_n(&slot->state, holds ? SLOT_ENDED : SLOT_FREE, __ATOMIC_RELEASE);
	share.slots = NULL;
}

void share_forget(void)
{
	kernel_unmap_in_child(share.header, SLOTS_BYTES);
	memset(&share, 0, sizeof(share));
}
