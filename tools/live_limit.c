/*
 * live_limit.c - limits into the slots of running processes, which look there at their next allocation.
 */
#include "live_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* GPUs that a limit is said of, and which word of a slot each of them is. */
struct words {
	struct limit_device devices[SLOT_DEVICES];
	uint32_t word[SLOT_DEVICES];
	uint32_t count;
};

static void add_word(struct words *words, const uint8_t uuid[16], uint64_t total_bytes, uint32_t word)
{
	if (word >= SLOT_DEVICES || words->count == SLOT_DEVICES)
		return;
	memcpy(words->devices[words->count].uuid, uuid, sizeof(words->devices[0].uuid));
	words->devices[words->count].total_bytes = total_bytes;
	words->word[words->count++] = word;
}

static bool names_by_index(const struct limit *limit)
{
	for (unsigned i = 0; i < limit->count; i++)
		if (limit->items[i].by == LIMIT_INDEX)
			return true;
	return false;
}

/* As the process counts its GPUs, or, where only its slot is to be seen, all that its user has used. */
static bool find_words(struct words *words, const struct box_process *process, const struct limit *limit,
	char *why, size_t why_bytes)
{
	const struct slots_header *header = &process->file->header;
	const struct ledger_peek *peek = &process->peek;

	words->count = 0;
	for (uint32_t i = 0; i < peek->device_count; i++)
		add_word(words, peek->devices[i].uuid, peek->devices[i].total_bytes,
			peek->devices[i].slot_device);
	if (peek->device_count)
		return true;
	if (names_by_index(limit)) {
		snprintf(why, why_bytes, "the ledger of process %u, which counts its GPUs, cannot be read: name "
			"them by UUID", process->who->pid);
		return false;
	}
	for (uint32_t i = 0; i < header->device_count; i++)
		if (header->devices[i].present)
			add_word(words, header->devices[i].uuid, header->devices[i].total_bytes, i);
	return true;
}

bool live_resolve(struct live_change *change, const struct box_process *process,
	const struct limit *limit, char *why, size_t why_bytes)
{
	uint64_t bytes[SLOT_DEVICES];
	bool named = limit->count > 0;
	struct words words;

	*change = (struct live_change){ 0 };
	if (!find_words(&words, process, limit, why, why_bytes) ||
		!limit_resolve(limit, words.devices, words.count, bytes, why, why_bytes))
		return false;
	/* A list says nothing of the GPUs it does not name. */
	for (uint32_t i = 0; i < words.count; i++)
		change->bytes[words.word[i]] = named && bytes[i] == BYTES_NONE ? 0 : bytes[i];
	return true;
}

/* The lock of those who take slots: until it is given back the slot stays with its owner. */
static bool lock_header(int fd)
{
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	for (int tries = 0; tries < 5000; tries++) {
		if (fcntl(fd, F_OFD_SETLK, &range) == 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	return false;
}

static bool is_still_its(int fd, uint64_t offset, const struct box_process *process)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = sizeof(struct slot) };
	struct slot now;

	return pread(fd, &now, sizeof(now), (off_t)offset) == (ssize_t)sizeof(now) &&
		now.state == SLOT_TAKEN && now.generation == process->entry->slot.generation &&
		now.who.pid == process->who->pid && now.who.start_ticks == process->who->start_ticks &&
		fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool write_at(int fd, const void *from, size_t bytes, uint64_t offset)
{
	return pwrite(fd, from, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool write_words(int fd, uint64_t offset, const struct live_change *change)
{
	for (unsigned i = 0; i < SLOT_DEVICES; i++) {
		uint64_t bytes = change->clear ? 0 : change->bytes[i];

		if ((change->clear || bytes) &&
			!write_at(fd, &bytes, sizeof(bytes), offset + i * sizeof(bytes)))
			return false;
	}
	return true;
}

static int write_locked(int fd, const struct box_process *process, enum live_scope scope,
	const struct live_change *change)
{
	uint64_t offset = sizeof(struct slots_header) +
		(uint64_t)process->entry->number * sizeof(struct slot);
	static const size_t words[] = { offsetof(struct slot, limit_override),
		offsetof(struct slot, job_limit_override), offsetof(struct slot, user_limit_override) };
	uint64_t changed = offset + offsetof(struct slot, limits_changed);
	uint32_t generation;

	if (!is_still_its(fd, offset, process))
		return -ESRCH;
	if (pread(fd, &generation, sizeof(generation), (off_t)changed) != (ssize_t)sizeof(generation))
		return -EIO;
	generation++;
	if (!write_words(fd, offset + words[scope], change) ||
		!write_at(fd, &generation, sizeof(generation), changed))
		return errno ? -errno : -EIO;
	return 0;
}

int live_write(const struct box_process *process, enum live_scope scope,
	const struct live_change *change)
{
	int fd = open(process->file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int error;

	if (fd < 0)
		return -errno;
	error = lock_header(fd) ? write_locked(fd, process, scope, change) : -EBUSY;
	close(fd);
	return error;
}
