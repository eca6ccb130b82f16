/*
 * queue.c - places in the queue, as files.
 */
#include "queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "admin.h"
#include "admin_dir.h"
#include "need.h"
#include "pread_some.h"
#include "proc_state.h"
#include "state.h"

#define PLACES_MAX 65536u
#define USERS_MAX 1024u

/* ---- the folder ---- */

/* Those that wait first, in order; then those let in; what cannot be read last. */
static int by_turn(const void *left, const void *right)
{
	const struct queue_place *a = left, *b = right;

	if (!a->problem[0] != !b->problem[0])
		return a->problem[0] ? 1 : -1;
	if (a->admitted != b->admitted)
		return a->admitted ? 1 : -1;
	return queue_order(a, b);
}

/* Nobody else's, or not there. The folder of shared state may be a link of its owner's. */
static bool is_fine(const char *folder, const char *state)
{
	struct stat info;

	if (stat(state, &info) != 0 || !S_ISDIR(info.st_mode))
		return true;
	if (info.st_uid != geteuid() || (info.st_mode & 022))
		return false;
	return lstat(folder, &info) != 0 ||
		(S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & 022));
}

static bool make_folder(const char *folder, const char *state, char *why, size_t why_bytes)
{
	const char *at = state, *problem = state_make(state);

	if (!problem) {
		at = folder;
		problem = state_make(folder);
	}
	if (!problem && !is_fine(folder, state))
		problem = "it is a link";
	if (problem)
		snprintf(why, why_bytes, "%s: %s; `cuward doctor` says more", at, problem);
	return !problem;
}

static bool find_folder(struct queue *queue, bool make, char *why, size_t why_bytes)
{
	char state[PATH_MAX];
	int common = admin_dir_open("queue");
	const char *problem;

	*queue = (struct queue){ .common = common >= 0 };
	if (queue->common) {
		close(common);
		snprintf(queue->folder, sizeof(queue->folder), CUWARD_RUNDIR "/queue");
		return true;
	}
	problem = state_folder(state);
	if (problem) {
		snprintf(why, why_bytes, "%s", problem);
		return false;
	}
	snprintf(queue->folder, sizeof(queue->folder), "%s/queue", state);
	if (make)
		return make_folder(queue->folder, state, why, why_bytes);
	if (!is_fine(queue->folder, state))
		snprintf(why, why_bytes, "%s is not yours or is writable by others", queue->folder);
	return is_fine(queue->folder, state);
}

bool queue_folder(struct queue *queue, char *why, size_t why_bytes)
{
	return find_folder(queue, false, why, why_bytes);
}

bool queue_make_folder(struct queue *queue, char *why, size_t why_bytes)
{
	return find_folder(queue, true, why, why_bytes);
}

/* ---- one file ---- */

static bool has_end(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);

	return length > tail && strcmp(name + length - tail, end) == 0;
}

/* For writing, only its owner can have locked it. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}

static uint64_t nanoseconds(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void read_place(struct queue_place *place, int fd, const struct stat *info)
{
	static char text[QUEUE_FILE_BYTES + 1];
	size_t got;

	if (info->st_size > QUEUE_FILE_BYTES) {
		snprintf(place->problem, sizeof(place->problem), "it is too long");
		return;
	}
	got = pread_some(fd, text, sizeof(text), 0);
	queue_parse(place, text, got);
}

/* A waiter that was stopped holds its lock, and nobody would ever get past it. */
static bool is_stopped(const struct queue_place *place)
{
	struct proc_state state;

	return !place->admitted && place->pid_ns == ledger_own_pid_ns() &&
		proc_state((pid_t)place->pid, &state) && state.stopped;
}

static int priority_max(uint32_t uid)
{
	static uint32_t known_uid = UINT32_MAX;
	static int known;
	static struct admin admin;
	char why[300];

	if (uid != known_uid) {
		known = admin_read(&admin, NULL, 0, uid, why, sizeof(why)) ? admin.priority_max : 0;
		known_uid = uid;
	}
	return known;
}

/* Being made: not locked yet, perhaps. One that is not finished soon never will be. */
static void look_at_hidden(int folder, const char *name)
{
	struct stat info;

	if ((has_end(name, ".run") || has_end(name, ".wait")) &&
		fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_uid == geteuid() &&
		info.st_ctim.tv_sec + 60 < time(NULL))
		unlinkat(folder, name, 0);
}

/* How many places of each user were looked at: nobody can hide the others behind his. */
static struct {
	struct {
		uint32_t uid, waiting, admitted;
	} all[USERS_MAX];
	unsigned count;
} users;

static bool has_too_many(int folder, const char *name, bool admitted)
{
	struct stat info;
	unsigned i = 0;

	if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	while (i < users.count && users.all[i].uid != info.st_uid)
		i++;
	if (i == USERS_MAX)
		return true;
	if (i == users.count) {
		users.all[users.count].uid = info.st_uid;
		users.all[users.count].waiting = users.all[users.count].admitted = 0;
		users.count++;
	}
	return ++*(admitted ? &users.all[i].admitted : &users.all[i].waiting) > QUEUE_OF_USER;
}

/* True: there is such a place now. */
static bool look_at(struct queue_place *place, int folder, const char *name)
{
	bool admitted = has_end(name, ".run");
	struct stat info;
	int fd;

	if (name[0] == '.') {
		look_at_hidden(folder, name);
		return false;
	}
	if ((!admitted && !has_end(name, ".wait")) || strlen(name) >= sizeof(place->name) ||
		has_too_many(folder, name, admitted))
		return false;
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !is_locked(fd)) {
		/* What the dead left; others cannot remove it. */
		if (S_ISREG(info.st_mode) && info.st_uid == geteuid())
			unlinkat(folder, name, 0);
		close(fd);
		return false;
	}
	*place = (struct queue_place){ 0 };
	read_place(place, fd, &info);
	close(fd);
	snprintf(place->name, sizeof(place->name), "%s", name);
	place->uid = info.st_uid;
	place->admitted = admitted;
	place->since_ns = nanoseconds(info.st_ctim);
	if (place->priority > priority_max(place->uid))
		place->priority = priority_max(place->uid);
	place->stopped = is_stopped(place);
	return true;
}

bool queue_look(struct queue *queue, char *why, size_t why_bytes)
{
	DIR *folder = opendir(queue->folder);
	size_t capacity = 0;
	struct dirent *entry;

	if (!folder && (errno == ENOENT || errno == ENOTDIR))
		return true; /* nobody was ever there */
	if (!folder) {
		snprintf(why, why_bytes, "%s: %s", queue->folder, strerror(errno));
		return false;
	}
	users.count = 0;
	while (queue->count < PLACES_MAX && (entry = readdir(folder))) {
		queue->places = need_room(queue->places, queue->count, &capacity, sizeof(*queue->places));
		if (!look_at(&queue->places[queue->count], dirfd(folder), entry->d_name))
			continue;
		queue->waiting += !queue->places[queue->count].problem[0] &&
			!queue->places[queue->count].admitted;
		queue->broken += queue->places[queue->count].problem[0] != '\0';
		queue->count++;
	}
	closedir(folder);
	if (queue->count)
		qsort(queue->places, queue->count, sizeof(*queue->places), by_turn);
	if (queue->count < PLACES_MAX)
		return true;
	snprintf(why, why_bytes, "%s holds more than %u places", queue->folder, PLACES_MAX);
	return false;
}

void queue_forget(struct queue *queue)
{
	free(queue->places);
	queue->places = NULL;
	queue->count = queue->waiting = queue->broken = 0;
}

/* ---- our own ---- */

static bool lock_it(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool write_all(int fd, const char *text)
{
	size_t length = strlen(text);

	return write(fd, text, length) == (ssize_t)length;
}

/* Who is let in waited before. */
static bool has_as_many_as_he_may(const struct queue *queue, const struct queue_place *place)
{
	unsigned ours = 0;

	for (size_t i = 0; !place->admitted && i < queue->waiting; i++)
		ours += queue->places[i].uid == geteuid();
	return ours >= QUEUE_OF_USER;
}

/* Under a name that nobody looks at, until it is locked and complete. */
int queue_take(const struct queue *queue, struct queue_place *place, char *why, size_t why_bytes)
{
	char path[PATH_MAX + 80], final[PATH_MAX + 80];
	char *text = queue_text(place);
	uint32_t random = 0;
	bool fine;
	int fd;

	if (has_as_many_as_he_may(queue, place)) {
		snprintf(why, why_bytes, "%s holds %u places of yours, as many as one user may have",
			queue->folder, QUEUE_OF_USER);
		free(text);
		return -1;
	}
	if (getrandom(&random, sizeof(random), 0) < 0)
		random = (uint32_t)getpid();
	snprintf(place->name, sizeof(place->name), "%u-%d-%08x.%s", geteuid(), getpid(), random,
		place->admitted ? "run" : "wait");
	snprintf(final, sizeof(final), "%s/%s", queue->folder, place->name);
	snprintf(path, sizeof(path), "%s/.%s", queue->folder, place->name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	fine = fd >= 0 && fchmod(fd, 0644) == 0 && lock_it(fd) && write_all(fd, text) &&
		rename(path, final) == 0;
	free(text);
	if (fine)
		return fd;
	snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	return -1;
}

void queue_leave(const struct queue *queue, const struct queue_place *place, int fd)
{
	char path[PATH_MAX + 80];

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", queue->folder, place->name);
	unlink(path);
	close(fd);
}
