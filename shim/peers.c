/*
 * peers.c - the slots of others of this user: who of them lives, and what they hold.
 */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "neighbours.h"
#include "share.h"
#include "uncancelled.h"

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#endif

#define DEATHS_EVERY_NS 1000000ull

int peers_open(void)
{
	char why[256];
	char name[32];
	bool common;
	int folder = share_slots_folder(&common, why, sizeof(why));
	int fd;

	if (folder < 0)
		return -1;
	snprintf(name, sizeof(name), "slots.%u", getuid());
	fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	close(folder);
	if (fd < 0 || share_is_mapped(fd))
		return fd;
	close(fd);
	return -1;
}

static uint64_t slot_offset(uint32_t number)
{
	return sizeof(struct slots_header) + (uint64_t)number * sizeof(struct slot);
}

static bool lock_slot(int fd, uint32_t number, short type)
{
	struct flock range = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = slot_offset(number),
		.l_len = sizeof(struct slot),
	};

	return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

static bool drop_if_dead(int fd, uint32_t number)
{
	struct slot *slot = (struct slot *)(share_slots() + 1) + number;
	uint64_t held = __atomic_load_n(&slot->waiting_since_ns, __ATOMIC_RELAXED);

	for (unsigned d = 0; d < share_slots()->device_count && d < SLOT_DEVICES; d++)
		held |= __atomic_load_n(&slot->words[d], __ATOMIC_RELAXED) << (64 - 56);
	if (slot->state == SLOT_FREE || !held || !lock_slot(fd, number, F_WRLCK))
		return false;
	memset(slot->words, 0, sizeof(slot->words));
	memset(slot->overhead, 0, sizeof(slot->overhead));
	slot->waiting_since_ns = 0;
	if (slot->state == SLOT_ENDED)
		slot->state = SLOT_FREE;
	lock_slot(fd, number, F_UNLCK);
	return true;
}

bool peers_drop_dead(uint32_t self)
{
	static uint64_t looked_ns;
	struct timespec clock;
	uint64_t now;
	bool dropped = false;
	int saved = errno; /* the guest's: we are in the middle of a call of its */
	int fd;
	UNCANCELLED_HERE;

	clock_gettime(CLOCK_MONOTONIC, &clock);
	now = clock.tv_sec * 1000000000ull + clock.tv_nsec;
	/* Programs probe thousands of times a second; nobody dies that often. */
	if (now - __atomic_load_n(&looked_ns, __ATOMIC_RELAXED) < DEATHS_EVERY_NS)
		return false;
	__atomic_store_n(&looked_ns, now, __ATOMIC_RELAXED);
	fd = share_slots() ? peers_open() : -1;
	for (uint32_t i = 0; fd >= 0 && i < share_slots()->slots_used && i < SLOT_COUNT; i++)
		dropped |= i != self && drop_if_dead(fd, i);
	if (fd >= 0)
		close(fd);
	errno = saved;
	return dropped;
}

/* The file may have been cut off: to touch what is behind its end would kill us. */
static uint32_t slots_there(int fd)
{
	struct stat status;
	uint64_t bytes = fd >= 0 && fstat(fd, &status) == 0 ? status.st_size : 0;

	if (bytes < sizeof(struct slots_header))
		return 0;
	bytes -= sizeof(struct slots_header);
	return bytes / sizeof(struct slot) < SLOT_COUNT ? bytes / sizeof(struct slot) : SLOT_COUNT;
}

static uint64_t bytes_of(const struct slot *slot, uint32_t device)
{
	uint64_t word = __atomic_load_n(&slot->words[device], __ATOMIC_RELAXED);
	uint64_t overhead = __atomic_load_n(&slot->overhead[device], __ATOMIC_RELAXED);

	return (word & WORD_BYTES_MASK) + (overhead & WORD_BYTES_MASK);
}

/* Whether somebody lives is a system call: only of those who hold something. */
static uint64_t own_user_holds(uint32_t device, uint32_t self)
{
	const struct slots_header *header = share_slots();
	const struct slot *slots = (const struct slot *)(header + 1);
	int fd = header ? peers_open() : -1;
	uint32_t there = slots_there(fd);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < there && i < header->slots_used; i++) {
		uint64_t held = i == self ? 0 : bytes_of(&slots[i], device);

		sum += held && share_is_alive(fd, i) ? held : 0;
	}
	if (fd >= 0)
		close(fd);
	return sum;
}

uint64_t peers_hold(uint32_t slot_device, uint32_t self)
{
	int saved = errno; /* the guest's: we are in the middle of a call of its */
	UNCANCELLED_HERE;
	uint64_t sum = own_user_holds(slot_device, self);

	if (share_is_common()) {
		const struct neighbours_how how = { .carefully = true };
		struct neighbours_sum others = { 0 };

		neighbours_add(slot_device, NEIGHBOURS_ALL, how, &others);
		sum += others.bytes + others.overhead;
	}
	errno = saved;
	return sum;
}
