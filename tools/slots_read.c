/*
 * slots_read.c - slots files, read without trusting a byte of them.
 */
#include "slots_read.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin_dir.h"
#include "need.h"
#include "pread_some.h"
#include "state.h"

uint64_t slots_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* ---- one file ---- */

static uint64_t boot_number(void)
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		text[pread_some(fd, text, sizeof(text) - 1, 0)] = '\0';
		close(fd);
	}
	return strlen(text) < 36 ? 0 :
		strtoull(text, NULL, 16) << 16 | (strtoull(text + 9, NULL, 16) & 0xffff);
}

static const char *header_problem(const struct slots_header *header, size_t got)
{
	if (got < sizeof(*header))
		return "too short to be a slots file";
	if (header->magic == 0)
		return "still being made";
	if (header->magic != SLOTS_MAGIC)
		return "not a slots file";
	if (header->version != CUWARD_LAYOUT_VERSION)
		return "of another version of cuward";
	if (header->slot_bytes != sizeof(struct slot) || header->slot_count != SLOT_COUNT)
		return "a slots file of another layout";
	return NULL;
}

/* The owner holds a lock on the range of its slot; the kernel says so, not the file. */
static enum ledger_owner lock_owner(int fd, uint64_t offset)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = sizeof(struct slot) };

	if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
		return OWNER_UNKNOWN;
	/* For reading anybody may lock it who can read it. */
	return lock.l_type == F_WRLCK ? OWNER_ALIVE : OWNER_DEAD;
}

/*
 * Somebody else may hold a lock and write what he likes: of a process that we can see, /proc must tell
 * the same.
 */
static enum ledger_owner checked_owner(const struct slots_file *file, const struct slot *slot,
	enum ledger_owner owner)
{
	char path[64];
	struct stat info;

	if (file->own || owner != OWNER_ALIVE || slot->who.pid_ns != ledger_own_pid_ns())
		return owner;
	snprintf(path, sizeof(path), "/proc/%u", slot->who.pid);
	return stat(path, &info) == 0 && info.st_uid == file->uid ? owner : OWNER_UNKNOWN;
}

static void end_texts(struct process_identity *who)
{
	who->command[sizeof(who->command) - 1] = '\0';
	who->job[sizeof(who->job) - 1] = '\0';
	who->labels[sizeof(who->labels) - 1] = '\0';
}

static void add_entry(struct slots_file *file, int fd, uint32_t number, const struct slot *slot,
	bool fresh)
{
	struct slots_entry *entry = &file->entries[file->count];

	if (slot->state != SLOT_TAKEN && slot->state != SLOT_ENDED)
		return;
	entry->slot = *slot;
	entry->number = number;
	end_texts(&entry->slot.who);
	/* Whoever wrote it before the machine was started is dead. */
	entry->owner = !fresh ? OWNER_DEAD : checked_owner(file, slot,
		lock_owner(fd, sizeof(file->header) + number * sizeof(*slot)));
	/* Who ended in order is nobody to tell of, once he is gone. */
	file->count += slot->state == SLOT_TAKEN || entry->owner != OWNER_DEAD;
}

static void read_entries(struct slots_file *file, int fd)
{
	static struct slot some[64];
	uint32_t used = file->header.slots_used < SLOT_COUNT ? file->header.slots_used : SLOT_COUNT;
	bool fresh = file->header.boot == boot_number();
	uint32_t there = 1;

	file->entries = need_zeroed(used, sizeof(*file->entries));
	for (uint32_t first = 0; first < used && there; first += there) {
		uint32_t wanted = used - first < 64 ? used - first : 64;

		there = (uint32_t)(pread_some(fd, some, wanted * sizeof(*some),
			sizeof(file->header) + first * sizeof(*some)) / sizeof(*some));
		for (uint32_t i = 0; i < there; i++)
			add_entry(file, fd, first + i, &some[i], fresh);
	}
}

static void check_devices(struct slots_header *header)
{
	if (header->device_count > SLOT_DEVICES)
		header->device_count = SLOT_DEVICES;
	for (uint32_t i = 0; i < SLOT_DEVICES; i++)
		if (i >= header->device_count || !header->devices[i].present)
			memset(&header->devices[i], 0, sizeof(header->devices[i]));
}

/* Where their ledgers lie: beside them, or, with slots of all users, in their owners' folders. */
static char *ledgers_folder(const char *path, uint32_t uid)
{
	char folder[PATH_MAX];
	char *copy = need_copy(path), *beside = need_copy(dirname(copy));

	free(copy);
	if (strcmp(beside, CUWARD_RUNDIR "/slots") != 0)
		return beside;
	free(beside);
	if (uid == geteuid() && !state_folder(folder))
		return need_copy(folder);
	snprintf(folder, sizeof(folder), "/run/user/%u/cuward", uid);
	if (access(folder, F_OK) != 0)
		snprintf(folder, sizeof(folder), "/dev/shm/cuward-%u", uid);
	return need_copy(folder);
}

/* In the folder of all users anybody may make a file in anybody's name. */
static bool is_named_after_owner(const char *path, uint32_t uid)
{
	const char *name = strrchr(path, '/');
	char own[32];

	snprintf(own, sizeof(own), "/slots.%u", uid);
	return strncmp(path, CUWARD_RUNDIR "/slots/", strlen(CUWARD_RUNDIR "/slots/")) != 0 ||
		(name && strcmp(name, own) == 0);
}

bool slots_file_open(struct slots_file *file, const char *path, char *why, size_t why_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	const char *problem = NULL;
	struct stat info;

	*file = (struct slots_file){ 0 };
	if (fd < 0 || fstat(fd, &info) != 0)
		problem = strerror(errno);
	else if (!S_ISREG(info.st_mode))
		problem = "not a regular file";
	else if (!is_named_after_owner(path, info.st_uid))
		problem = "it belongs to somebody else than its name says";
	else
		problem = header_problem(&file->header,
			pread_some(fd, &file->header, sizeof(file->header), 0));
	if (problem) {
		snprintf(why, why_bytes, "%s: %s", path, problem);
	} else {
		file->path = need_copy(path);
		file->folder = ledgers_folder(path, info.st_uid);
		file->uid = info.st_uid;
		file->own = info.st_uid == geteuid();
		check_devices(&file->header);
		read_entries(file, fd);
	}
	if (fd >= 0)
		close(fd);
	return !problem;
}

bool slots_file_is_foreign(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	/* Beyond the first byte, which is locked while a slot is taken. */
	struct flock slots = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 };
	struct slots_header header;
	bool foreign = fd >= 0 && pread_some(fd, &header, sizeof(header), 0) == sizeof(header) &&
		header.magic == SLOTS_MAGIC && header.version != CUWARD_LAYOUT_VERSION &&
		header.boot == boot_number() && fcntl(fd, F_OFD_GETLK, &slots) == 0 &&
		slots.l_type != F_UNLCK;

	if (fd >= 0)
		close(fd);
	return foreign;
}

void slots_file_close(struct slots_file *file)
{
	free(file->path);
	free(file->folder);
	free(file->entries);
	*file = (struct slots_file){ 0 };
}

/* ---- all there are ---- */

/* Seen before? From now on it is. */
static bool is_seen(struct slots_list *list, const char *path)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return false;
	for (size_t i = 0; i < list->seen_count; i++)
		if (file.st_dev == list->seen[i].device && file.st_ino == list->seen[i].inode)
			return true;
	list->seen = need(reallocarray(list->seen, list->seen_count + 1, sizeof(*list->seen)));
	list->seen[list->seen_count++] = (struct slots_seen){ file.st_dev, file.st_ino };
	return false;
}

static void add_pattern(struct slots_list *list, const char *pattern)
{
	glob_t found;

	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (is_seen(list, found.gl_pathv[i]))
			continue;
		list->files = need(reallocarray(list->files, list->count + 1, sizeof(*list->files)));
		if (slots_file_open(&list->files[list->count], found.gl_pathv[i], list->why,
			sizeof(list->why)))
			list->count++;
		else
			list->unreadable++;
	}
	globfree(&found);
}

/* A path as a pattern that it alone fits. */
static void quote(char *to, size_t bytes, const char *path)
{
	size_t used = 0;

	for (; *path && used + 2 < bytes; path++) {
		if (strchr("*?[\\", *path))
			to[used++] = '\\';
		to[used++] = *path;
	}
	to[used] = '\0';
}

void slots_list_open(struct slots_list *list)
{
	char folder[PATH_MAX], pattern[2 * PATH_MAX];
	const char *dir = getenv("CUWARD_DIR");

	int common = admin_dir_open("slots");

	*list = (struct slots_list){ 0 };
	if (common >= 0) {
		add_pattern(list, CUWARD_RUNDIR "/slots/slots.*");
		close(common);
	}
	if (!state_folder(folder)) {
		quote(pattern, sizeof(pattern) - 16, folder);
		strcat(pattern, "/slots.*");
		add_pattern(list, pattern);
	}
	/* Who names a folder means that one. */
	if (dir && *dir)
		return;
	add_pattern(list, "/dev/shm/cuward-*/slots.*");
	add_pattern(list, "/run/user/*/cuward/slots.*");
}

void slots_list_close(struct slots_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		slots_file_close(&list->files[i]);
	free(list->files);
	free(list->seen);
	*list = (struct slots_list){ 0 };
}
