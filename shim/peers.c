/*
 * peers.c - reading the slots of others. Never through the mapping: a file cut short would kill us.
 */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "neighbours.h"
#include "share.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define DEATHS_EVERY_NS 1000000ull
#define BATCH 32u

static int open_named(void)
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
	return fd;
}

int peers_open(void)
{
	int fd = open_named();

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

/* Its owner holds the lock on its range while it lives. */
bool peers_is_alive(int fd, uint32_t number)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot_offset(number),
		.l_len = sizeof(struct slot),
	};

	return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
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

static uint64_t bytes_of(const struct slot *slot, uint32_t device)
{
	return (slot->words[device] & WORD_BYTES_MASK) + (slot->overhead[device] & WORD_BYTES_MASK);
}

/* Slots are read many at once; whether their owners live, only of those who hold something. */
static uint64_t sum_slots(int fd, uint32_t used, uint32_t device, uint32_t self)
{
	struct slot *some = share_private(BATCH * sizeof(*some)); /* not every stack has room for it */
	uint64_t sum = 0;
	uint32_t got = 1;

	for (uint32_t first = 0; some && first < used && got; first += got) {
		uint32_t wanted = used - first < BATCH ? used - first : BATCH;
		ssize_t bytes = pread(fd, some, wanted * sizeof(*some), slot_offset(first));

		got = bytes < 0 ? 0 : bytes / sizeof(*some);
		for (uint32_t i = 0; i < got; i++) {
			uint64_t held = first + i == self ? 0 : bytes_of(&some[i], device);

			sum += held && peers_is_alive(fd, first + i) ? held : 0;
		}
	}
	if (some)
		share_private_done(some, BATCH * sizeof(*some));
	return sum;
}

static uint64_t own_user_holds(uint32_t device, uint32_t self)
{
	struct slots_header header;
	uint64_t sum = 0;
	int fd = open_named();

	if (fd >= 0 && !share_is_mapped(fd))
		self = SLOT_COUNT; /* whoever is in that place is somebody else */
	if (fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	    header.magic == SLOTS_MAGIC && header.version == CUWARD_LAYOUT_VERSION &&
	    header.slots_used <= SLOT_COUNT && (header.slots_used > 1 || self != 0))
		sum = sum_slots(fd, header.slots_used, device, self);
	if (fd >= 0)
		close(fd);
	return sum;
}

uint64_t peers_hold(uint32_t slot_device, uint32_t self)
{
	int saved = errno; /* the guest's: we are in the middle of a call of its */
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
