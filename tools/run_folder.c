/*
 * run_folder.c - the folder where the processes of a run leave their ledgers.
 *
 * A run holds a lock on the file .run in its folder while it lives. Whoever finds that file without
 * a lock may remove what dead processes left there, unless a run further up lives. So an inner run
 * leaves its own to the outer one, which reads it too, and what outlives a run a later one removes.
 */
#include "run.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10 };

/* ---- make it ---- */

static bool make_folders_once(const struct run *run)
{
	char path[sizeof(run->job_dir)];

	strcpy(path, run->job_dir);
	for (char *at = path + strlen(run->dir); ; *at = '/', at = strchrnul(at + 1, '/')) {
		bool last = *at == 0;

		*at = 0;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return false;
		if (last)
			return true;
	}
}

/* The job's folder with all above it. A run that ends may remove one of them in between. */
static bool make_folders(const struct run *run)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		if (make_folders_once(run))
			return true;
		if (errno != ENOENT)
			return false;
	}
	return false;
}

static int open_lock(const char *folder, int flags)
{
	char path[PATH_MAX + 200];

	if (snprintf(path, sizeof(path), "%s/.run", folder) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

/* Somebody may take the new file for an abandoned one and remove it: then it has no name left. */
static bool lock_folder(struct run *run)
{
	struct stat info;

	for (unsigned tries = 0; tries < TRIES && make_folders(run); tries++) {
		run->job_lock = open_lock(run->job_dir, O_CREAT);
		if (run->job_lock >= 0 && flock(run->job_lock, LOCK_EX) == 0 &&
			fstat(run->job_lock, &info) == 0 && info.st_nlink > 0)
			return true;
		if (run->job_lock >= 0)
			close(run->job_lock);
		run->job_lock = -1;
	}
	return false;
}

/* Could a process keep its books there now? 0, or why not. */
static int find_room(const struct run *run)
{
	char path[PATH_MAX + 200];
	off_t bytes = sizeof(struct ledger_header) + LEDGER_FIRST_THREADS * sizeof(struct ledger_thread) +
		LEDGER_GROW_BYTES;
	int error, fd;

	snprintf(path, sizeof(path), "%s/.room", run->job_dir);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno;
	error = posix_fallocate(fd, 0, bytes);
	unlink(path);
	close(fd);
	return error;
}

int run_folder_open(struct run *run)
{
	bool needed = run->values[SETTING_report].text || run->values[SETTING_fail_on].text;
	const char *error = state_make(run->dir);
	int no_room;

	if (!error && !lock_folder(run))
		error = strerror(errno);
	no_room = error ? 0 : find_room(run);
	if (needed && (error || no_room)) {
		run_folder_close(run);
		return run_fail("cannot use the folder %s: %s; without it there is no report", run->dir,
			error ? error : strerror(no_room));
	}
	if (no_room)
		run_say(run, "there is no room in %s: %s; what processes do may not be recorded", run->dir,
			strerror(no_room));
	if (error) {
		run_say(run, "cannot use the folder %s: %s; there will be no report", run->dir, error);
		run->dir[0] = 0;
	}
	return 0;
}

/* ---- remove what nobody needs ---- */

/* What is being swept, and what went. */
static struct {
	const char *dir;
	unsigned files;
} sweeping;

/* What fts_number says of a folder. */
enum {
	FOREIGN,   /* no run made it */
	ABANDONED, /* its run is gone */
	NEEDED,    /* the same, but something in it is needed */
};

/* A folder below an abandoned one is abandoned too, unless a run lives in it. */
static void enter(FTS *tree, FTSENT *folder)
{
	int lock = open_lock(folder->fts_path, 0);

	folder->fts_number = folder->fts_level > 0 ? folder->fts_parent->fts_number : FOREIGN;
	if (lock < 0)
		return;
	folder->fts_number = ABANDONED;
	if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
		folder->fts_parent->fts_number = NEEDED;
		fts_set(tree, folder, FTS_SKIP);
	}
	close(lock);
}

bool run_folder_is_dead(const char *dir, const char *path)
{
	struct ledger_file file;
	char why[8];
	bool dead;

	if (!ledger_open(&file, path, why, sizeof(why)))
		return false;
	dead = ledger_owner(&file, dir) == OWNER_DEAD;
	ledger_close(&file);
	return dead;
}

/* What a process without room left: nobody needs it once the run is gone. */
static bool is_mark(const FTSENT *file)
{
	const char *dot = strrchr(file->fts_name, '.');

	return dot && strcmp(dot, LEDGER_LOST) == 0 && file->fts_statp->st_size == 0;
}

static void remove_file(const FTSENT *file)
{
	FTSENT *folder = file->fts_parent;

	if (folder->fts_number == FOREIGN || strcmp(file->fts_name, ".run") == 0 ||
		strcmp(file->fts_name, RECORD_FILE) == 0)
		return;
	if (is_mark(file))
		unlink(file->fts_path);
	else if (!run_folder_is_dead(sweeping.dir, file->fts_path) || unlink(file->fts_path) != 0)
		folder->fts_number = NEEDED;
	else
		sweeping.files++;
}

static void leave(FTSENT *folder)
{
	char path[PATH_MAX + 200];
	int lock;

	if (folder->fts_number == FOREIGN || folder->fts_level == 0)
		return;
	if (folder->fts_number == NEEDED) {
		if (folder->fts_parent->fts_number == ABANDONED)
			folder->fts_parent->fts_number = NEEDED;
		return;
	}
	lock = open_lock(folder->fts_path, 0);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0) {
		snprintf(path, sizeof(path), "%s/" RECORD_FILE, folder->fts_path);
		unlink(path);
		snprintf(path, sizeof(path), "%s/.run", folder->fts_path);
		unlink(path);
		rmdir(folder->fts_path);
	}
	if (lock >= 0)
		close(lock);
}

unsigned run_folder_sweep(const char *dir)
{
	char path[PATH_MAX + 8];
	char *roots[] = { path, NULL };
	FTSENT *entry;
	FTS *tree;

	sweeping.dir = dir;
	sweeping.files = 0;
	snprintf(path, sizeof(path), "%s/jobs", dir);
	tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	while (tree && (entry = fts_read(tree))) {
		if (entry->fts_info == FTS_D)
			enter(tree, entry);
		else if (entry->fts_info == FTS_DP)
			leave(entry);
		else if (entry->fts_info == FTS_F)
			remove_file(entry);
	}
	if (tree)
		fts_close(tree);
	return sweeping.files;
}

void run_folder_close(struct run *run)
{
	if (!run->dir[0] || run->job_lock < 0)
		return;
	close(run->job_lock);
	run->job_lock = -1;
	run_folder_sweep(run->dir);
}
