/*
 * neighbours.c - reading the slots files of other users.
 */
#include "neighbours.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "admin_name.h"
#include "lease.h"
#include "lock.h"
#include "quota.h"
#include "share.h"

#define FOLDER CUWARD_RUNDIR "/slots"
#define NEIGHBOURS_MAX 256
#define FRESH_NS 50000000ull /* the kernel's clock of files may be so coarse */
#define BATCH 32

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#endif

struct neighbour {
	uint32_t uid;
	uint32_t reserve; /* that he is among the first to have, + 1 */
	uint32_t used;    /* slots, when they were read last */
	const char *slots;
};

/* Copied in one go: each system call and each piece costs as much as some kilobytes. */
struct copy {
	struct slots_header header;
	struct slot slots[BATCH];
};

static struct {
	PAGE_COLOUR(5);
	uint32_t lock;
	uint32_t count;
	bool too_many;
	bool opened;
	bool blind; /* somebody could not be read */
	bool by_file; /* process_vm_readv is not allowed, as in many a container */
	uint64_t waits;  /* of those seen so far; a number that tells others apart */
	uint64_t nobody; /* this one: they are all dead */
	uint64_t seen_ns;    /* change of the folder that was seen */
	uint64_t scanned_ns; /* when */
	const struct admin *admin;
	bool ours[ADMIN_RESERVES]; /* kept for us among others: nobody keeps us from it */
	struct neighbour all[NEIGHBOURS_MAX];
	struct copy copy; /* of the one that is being read */
	uint64_t leases[BATCH][SLOT_DEVICES]; /* of what is copied again */
} WHOLE_PAGES near;

bool neighbours_wait; /* no harm in a child: it looks once more */

/*
 * While it is locked the kernel is asked most of the time, which is where signals come in: a handler
 * that jumps out, or a thread that is cancelled, would leave the lock behind.
 */
struct undisturbed {
	sigset_t signals;
	int cancel;
};

static void lock_near(struct undisturbed *was)
{
	static const int own[] = { SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	sigset_t all;

	/* But for what a thread does to itself: a sandbox may answer system calls in a handler. */
	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was->cancel);
	pthread_sigmask(SIG_BLOCK, &all, &was->signals);
	lock_take(&near.lock);
}

static void unlock_near(const struct undisturbed *was)
{
	lock_give_back(&near.lock);
	pthread_sigmask(SIG_SETMASK, &was->signals, NULL);
	pthread_setcancelstate(was->cancel, NULL);
}

static ssize_t read_memory(void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

static ssize_t copy(const struct neighbour *neighbour, int fd, void *to, size_t offset, size_t bytes)
{
	return near.by_file ? pread(fd, to, bytes, offset) :
		read_memory(to, neighbour->slots + offset, bytes);
}

/*
 * The kernel copies in any order. In so much time a slot's lease may have become less after its word was
 * copied: so the words are copied once more, after the leases.
 */
static ssize_t copy_again(const struct neighbour *neighbour, int fd, void *to, size_t offset,
	size_t bytes)
{
	ssize_t got;

	for (int i = 0; i < BATCH; i++)
		memcpy(near.leases[i], near.copy.slots[i].leases, sizeof(near.leases[i]));
	got = copy(neighbour, fd, to, offset, bytes);
	for (int i = 0; i < BATCH; i++)
		memcpy(near.copy.slots[i].leases, near.leases[i], sizeof(near.leases[i]));
	return got;
}

/* Bytes read into near.copy; fewer where the rest is not there any more. */
static size_t read_slots(const struct neighbour *neighbour, int fd, void *to, size_t offset,
	size_t bytes)
{
	uint64_t began = lease_clock_ns();
	ssize_t got = copy(neighbour, fd, to, offset, bytes);

	if (unlikely(lease_clock_ns() - began > LEASE_READING_NS))
		got = copy_again(neighbour, fd, to, offset, bytes);
	if (got < 0 && (near.by_file || errno != EFAULT))
		near.blind = true;
	return got < 0 ? 0 : got;
}

static uint64_t nanoseconds(struct timespec time)
{
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* ---- who there is ---- */

static bool has_reserve(const struct admin_reserve *reserve, uint32_t uid)
{
	return reserve->of_group ? admin_is_member(uid, reserve->id) : reserve->id == uid;
}

/* What somebody holds counts for one reserve only: two would each think it theirs. */
static uint32_t find_reserve(uint32_t uid)
{
	for (unsigned i = 0; near.admin && i < near.admin->reserve_count; i++)
		if (!near.ours[i] && has_reserve(&near.admin->reserves[i], uid))
			return i + 1;
	return 0;
}

/* For want of descriptors or memory somebody is not seen, who may hold anything: we look again. */
static void note_unseen(void)
{
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
		return;
	near.blind = true;
	near.scanned_ns = 0;
}

static void add_neighbour(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	char *end;
	unsigned long uid = strtoul(name + 6, &end, 10);
	const void *slots = NULL;

	/* A file in somebody's name that is not his says nothing about him. */
	if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && !*end &&
		status.st_uid == uid && uid != getuid())
		slots = share_map_slots(fd);
	if (!slots)
		note_unseen();
	if (fd >= 0)
		close(fd);
	if (!slots)
		return;
	if (near.count == NEIGHBOURS_MAX) {
		near.too_many = true;
		share_unmap_slots(slots);
		return;
	}
	near.all[near.count++] = (struct neighbour){ uid, find_reserve(uid), 0, slots };
}

static void scan(void)
{
	struct dirent *entry;
	DIR *folder;
	int fd;

	errno = 0;
	fd = admin_dir_open("slots");
	folder = fd < 0 ? NULL : fdopendir(fd);
	if (!folder)
		note_unseen();
	while (near.count > 0)
		share_unmap_slots(near.all[--near.count].slots);
	near.too_many = false;
	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(folder)))
		if (strncmp(entry->d_name, "slots.", 6) == 0) {
			errno = 0;
			add_neighbour(dirfd(folder), entry->d_name);
		}
	closedir(folder);
}

/* Has somebody come? A change in the same tick of the clock as our look may be one we did not see. */
static void look_around(void)
{
	struct stat status;
	struct timespec now;
	uint64_t changed;

	changed = stat(FOLDER, &status) == 0 ? nanoseconds(status.st_mtim) : 0;
	if (changed == near.seen_ns && near.scanned_ns > changed + FRESH_NS)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	near.scanned_ns = nanoseconds(now);
	near.seen_ns = changed;
	scan();
}

/* ---- one file ---- */

/* Which of its words is of our device? -1: none. */
static int word_of(unsigned word_index)
{
	const struct slots_header *header = &near.copy.header;
	const uint8_t *uuid = share_slots()->devices[word_index].uuid;

	if (header->magic != SLOTS_MAGIC || header->version != CUWARD_LAYOUT_VERSION ||
		header->slot_bytes != sizeof(struct slot) || header->boot != share_slots()->boot)
		return -1;
	for (uint32_t i = 0; i < header->device_count && i < SLOT_DEVICES; i++)
		if (header->devices[i].present && memcmp(header->devices[i].uuid, uuid, 16) == 0)
			return i;
	return -1;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The header, and as many slots behind it as there were last time. How many; -1: not even the header. */
static int read_first(struct neighbour *neighbour, int fd)
{
	size_t got = read_slots(neighbour, fd, &near.copy, 0, sizeof(struct slots_header) +
		least(neighbour->used, BATCH) * sizeof(struct slot));

	if (got < sizeof(struct slots_header))
		return -1;
	neighbour->used = least(near.copy.header.slots_used, SLOT_COUNT);
	return (got - sizeof(struct slots_header)) / sizeof(struct slot);
}

/* Slots from `first` on, instead of those that were there. */
static uint32_t read_more(const struct neighbour *neighbour, int fd, uint32_t first)
{
	return read_slots(neighbour, fd, near.copy.slots, sizeof(struct slots_header) +
		(size_t)first * sizeof(struct slot), least(neighbour->used - first, BATCH) *
		sizeof(struct slot)) / sizeof(struct slot);
}

static bool is_bound(const struct slot *slot, uint32_t gid)
{
	if (gid == NEIGHBOURS_ALL)
		return true;
	for (unsigned i = 0; i < SLOT_GROUPS; i++)
		if (slot->group_gids[i] == gid + 1)
			return true;
	return false;
}

/* Its owner holds the lock for writing; for reading, anybody may have it. */
static bool is_alive(int fd, uint32_t number)
{
	struct flock range = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = sizeof(struct slot),
		.l_start = sizeof(struct slots_header) + (off_t)number * sizeof(struct slot),
	};

	return fd < 0 || fcntl(fd, F_OFD_GETLK, &range) != 0 || range.l_type == F_WRLCK;
}

static int open_file(const struct neighbour *neighbour)
{
	char path[sizeof(FOLDER) + 32];

	snprintf(path, sizeof(path), FOLDER "/slots.%u", neighbour->uid);
	return open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* The same, to be read: whose file it is may have changed. Where we have no descriptor left, he may
 * hold anything. */
static int open_to_read(const struct neighbour *neighbour)
{
	int fd = open_file(neighbour);
	struct stat status;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		near.blind = true;
	if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		status.st_uid == neighbour->uid))
		return fd;
	close(fd);
	return -1;
}

/* Somebody who counts; word is that of the device. */
typedef void each(void *to, const struct neighbour *neighbour, const struct slot *slot, int word);

/* Instead of a group: those who wait for memory, whether they hold any or not. */
#define WHO_WAITS (NEIGHBOURS_ALL - 1)

static bool counts(const struct slot *slot, int word, uint32_t gid)
{
	near.waits += slot->waiting_since_ns;
	if (gid == WHO_WAITS)
		return slot->waiting_since_ns;
	return (slot->words[word] << 8 || slot->overhead[word] || slot->leases[word]) && is_bound(slot, gid);
}

static void each_slot(struct neighbour *neighbour, unsigned word_index, uint32_t gid, bool carefully,
	each *tell, void *to)
{
	uint32_t first = 0;
	int fd = near.by_file ? open_to_read(neighbour) : -1;
	int got = near.by_file && fd < 0 ? -1 : read_first(neighbour, fd);
	int word = got < 0 ? -1 : word_of(word_index);

	if (carefully && word >= 0 && !near.by_file)
		fd = open_file(neighbour);
	for (; word >= 0 && first < neighbour->used; first += got, got = 0) {
		if (got <= 0)
			got = read_more(neighbour, fd, first);
		if (got <= 0)
			break;
		for (int i = 0; i < got; i++)
			if (counts(&near.copy.slots[i], word, gid) && (!carefully || is_alive(fd, first + i)))
				tell(to, neighbour, &near.copy.slots[i], word);
	}
	if (fd >= 0)
		close(fd);
}

/* ---- sums ---- */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

struct adding {
	struct neighbours_sum *sum;
	uint64_t total; /* of the GPU */
	uint64_t now_ns; /* before anything was read */
	uint64_t bytes; /* of this neighbour */
	uint64_t overhead;
};

/* The sum, at most so much. */
static uint64_t capped(uint64_t a, uint64_t b, uint64_t most)
{
	return b > most || a > most - b ? most : a + b;
}

static void add_slot(void *to, const struct neighbour *neighbour, const struct slot *slot, int word)
{
	struct adding *adding = to;
	uint64_t value = slot->words[word];

	(void)neighbour;
	adding->bytes = capped(adding->bytes, lease_counts(value, slot->leases[word], adding->now_ns),
		adding->total);
	adding->overhead = capped(adding->overhead, slot->overhead[word], adding->total);
	adding->sum->hash = (adding->sum->hash ^ value) * 0x9e3779b97f4a7c15ull;
	adding->sum->hash ^= adding->sum->hash >> 29;
	adding->sum->asking += quota_asking(value);
}

static unsigned reserve_index(unsigned word_index)
{
	const uint8_t *uuid = share_slots()->devices[word_index].uuid;
	unsigned i = 0;

	while (i < SLOT_DEVICES && memcmp(near.admin->uuids[i], uuid, 16) != 0)
		i++;
	return i;
}

/* What is kept for others and not taken by them: as good as taken. */
static uint64_t kept(unsigned word_index, const uint64_t held[ADMIN_RESERVES])
{
	uint64_t sum = 0;
	unsigned device = near.admin ? reserve_index(word_index) : SLOT_DEVICES;

	for (unsigned i = 0; device < SLOT_DEVICES && i < near.admin->reserve_count; i++)
		if (!near.ours[i])
			sum += less(near.admin->reserves[i].bytes[device], held[i]);
	return sum;
}

static void add_all(unsigned word_index, uint32_t gid, struct neighbours_how how,
	struct neighbours_sum *sum)
{
	uint64_t held[ADMIN_RESERVES] = { 0 };

	near.blind = false;
	look_around();
	near.waits = 0;
	for (uint32_t i = 0; i < near.count; i++) {
		struct adding adding = {
			.sum = sum, .total = share_slots()->devices[word_index].total_bytes,
			.now_ns = how.leased_at ? how.leased_at : LEASES_OVER,
		};

		each_slot(&near.all[i], word_index, gid, how.carefully, add_slot, &adding);
		sum->bytes += adding.bytes;
		sum->overhead += adding.overhead;
		if (near.all[i].reserve)
			held[near.all[i].reserve - 1] += adding.bytes;
	}
	sum->reserved = gid == NEIGHBOURS_ALL ? kept(word_index, held) : 0;
	__atomic_store_n(&neighbours_wait, near.waits && near.waits != near.nobody, __ATOMIC_RELAXED);
	/* What cannot be seen may be anything. */
	if (near.too_many || near.blind)
		sum->bytes = WORD_BYTES_MASK;
}

void neighbours_add(unsigned word_index, uint32_t gid, struct neighbours_how how,
	struct neighbours_sum *sum)
{
	struct undisturbed was;
	int saved = errno;

	lock_near(&was);
	if (!near.opened)
		share_wipe_on_fork(&near, sizeof(near));
	near.opened = true;
	add_all(word_index, gid, how, sum);
	errno = saved; /* before a handler sees it */
	unlock_near(&was);
}

/* ---- names ---- */

void neighbours_place(struct ledger_holder *holders, const struct slot *slot, uint64_t bytes)
{
	struct ledger_holder holder = {
		.bytes = bytes, .pid = slot->who.pid, .uid = slot->who.uid,
		.since_ns = slot->who.start_realtime_ns,
	};
	int place = LEDGER_HOLDERS;

	memcpy(holder.command, slot->who.command, sizeof(holder.command) - 1);
	while (place > 0 && bytes > holders[place - 1].bytes)
		place--;
	if (place == LEDGER_HOLDERS)
		return;
	memmove(&holders[place + 1], &holders[place], (LEDGER_HOLDERS - 1 - place) * sizeof(holder));
	holders[place] = holder;
}

static void name_slot(void *to, const struct neighbour *neighbour, const struct slot *slot, int word)
{
	struct slot theirs = *slot;

	theirs.who.uid = neighbour->uid;
	neighbours_place(to, &theirs, slot->words[word] & WORD_BYTES_MASK);
}

void neighbours_name(unsigned word_index, uint32_t gid, struct ledger_holder *holders)
{
	struct undisturbed was;

	lock_near(&was);
	for (uint32_t i = 0; i < near.count; i++)
		each_slot(&near.all[i], word_index, gid, true, name_slot, holders);
	unlock_near(&was);
}

struct telling {
	neighbours_tell *tell;
	void *to;
	bool told;
};

static void tell_slot(void *to, const struct neighbour *neighbour, const struct slot *slot, int word)
{
	struct telling *telling = to;

	(void)neighbour;
	telling->told = true;
	telling->tell(telling->to, slot, word);
}

void neighbours_waiting(unsigned word_index, neighbours_tell *tell, void *to)
{
	struct telling telling = { tell, to, false };
	struct undisturbed was;

	lock_near(&was);
	near.waits = 0;
	for (uint32_t i = 0; i < near.count; i++)
		each_slot(&near.all[i], word_index, WHO_WAITS, true, tell_slot, &telling);
	near.nobody = telling.told ? 0 : near.waits;
	__atomic_store_n(&neighbours_wait, telling.told, __ATOMIC_RELAXED);
	unlock_near(&was);
}

bool neighbours_open(const struct admin *admin, char *why, size_t why_bytes)
{
	struct neighbours_sum sum = { 0 };
	uint64_t probe;

	share_wipe_on_fork(&near, sizeof(near));
	near.opened = true;
	near.admin = admin;
	for (unsigned i = 0; i < admin->reserve_count; i++)
		near.ours[i] = has_reserve(&admin->reserves[i], getuid());
	near.by_file = read_memory(&probe, share_slots(), sizeof(probe)) != sizeof(probe);
	neighbours_add(0, NEIGHBOURS_ALL, (struct neighbours_how){ 0 }, &sum);
	if (!near.too_many && !near.blind)
		return true;
	snprintf(why, why_bytes, near.too_many ? "there are too many users in " FOLDER :
		"a file in " FOLDER " could not be read");
	return false;
}

void neighbours_forget(void)
{
	memset(&near, 0, sizeof(near));
}
