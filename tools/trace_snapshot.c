/*
 * trace_snapshot.c - `cuward trace snapshot`: a snapshot of a run with a flight recorder, now.
 */
#include "trace_snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "format.h"
#include "run.h"

enum { WAIT_MS = 10000 };

struct recorder {
	int file;
	pid_t keeper;
	unsigned told; /* snapshots tried so far */
	bool good;     /* the last of them */
	char dir[PATH_MAX];
};

static void read_recorder(struct recorder *recorder)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char text[PATH_MAX + 64];
	ssize_t got = pread(recorder->file, text, sizeof(text) - 1, 0);
	unsigned good = 0;

	recorder->keeper = 0;
	recorder->told = 0;
	/* A lock that is no process's has no pid, and -1 is everybody to kill(). */
	if (fcntl(recorder->file, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && whole.l_pid > 0)
		recorder->keeper = whole.l_pid;
	text[got > 0 ? got : 0] = '\0';
	if (sscanf(text, "%u %u %4095[^\n]", &recorder->told, &good, recorder->dir) != 3)
		recorder->told = 0;
	recorder->good = good;
}

/* Of the run, or of one around it. */
static bool open_recorder(struct recorder *recorder, const char *folder, const char *job)
{
	char path[2 * PATH_MAX], name[sizeof(((struct process_identity *)0)->job)];
	char *end;

	if (!*job || *job == '.' || *job == '/' || strstr(job, "/."))
		return false;
	snprintf(name, sizeof(name), "%s", job);
	do {
		snprintf(path, sizeof(path), "%s/jobs/%s/" RECORD_FILE, folder, name);
		recorder->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		if (recorder->file >= 0)
			read_recorder(recorder);
		if (recorder->file >= 0 && recorder->keeper)
			return true;
		if (recorder->file >= 0)
			close(recorder->file);
		end = strrchr(name, '/');
		if (end)
			*end = '\0';
	} while (end);
	return false;
}

/* The one with the highest number. */
static bool newest(const struct recorder *recorder, char *path, size_t bytes)
{
	DIR *folder = opendir(recorder->dir);
	const struct dirent *entry;
	long best = -1;

	while (folder && (entry = readdir(folder))) {
		const char *number = strrchr(entry->d_name, '-');

		if (strncmp(entry->d_name, SNAPSHOT_PREFIX, strlen(SNAPSHOT_PREFIX)) != 0 ||
			atol(number + 1) <= best)
			continue;
		best = atol(number + 1);
		snprintf(path, bytes, "%s/%s", recorder->dir, entry->d_name);
	}
	if (folder)
		closedir(folder);
	return best >= 0;
}

static int fail(int status, const char *what, const char *why)
{
	fputs("cuward: trace snapshot: ", stderr);
	put_safe(stderr, what, 0);
	fprintf(stderr, ": %s\n", why);
	return status;
}

static int ask(struct recorder *recorder, const char *name)
{
	char path[PATH_MAX + 300];
	unsigned before = recorder->told;

	if (kill(recorder->keeper, SIGUSR1) != 0)
		return fail(errno == EPERM ? EXIT_NO_PERMISSION : EXIT_FOUND, name, strerror(errno));
	for (unsigned waited = 0; waited < WAIT_MS && recorder->told == before && recorder->keeper;
		waited += 10) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		read_recorder(recorder);
	}
	if (recorder->told == before || !recorder->good || !newest(recorder, path, sizeof(path)))
		return fail(EXIT_FOUND, name, "no snapshot was written");
	printf("recorded %s\n", path);
	return EXIT_FINE;
}

/* The first process that this is about, or whose job it is. */
static const struct box_process *find_process(const struct box *box, const char *name)
{
	if (name[strspn(name, "0123456789")] == '\0')
		return box_find(box, box_pid(name));
	for (size_t i = 0; i < box->count; i++)
		if (box->processes[i].owner != OWNER_DEAD && box_in_job(&box->processes[i], name))
			return &box->processes[i];
	return NULL;
}

int trace_snapshot(const char *name)
{
	struct recorder recorder;
	const struct box_process *process;
	struct box box;
	int status;

	box_open(&box, false);
	process = find_process(&box, name);
	if (!process)
		status = fail(EXIT_FOUND, name, "no process of this pid or job uses CUDA under cuward");
	else if (!process->file->own)
		status = fail(EXIT_NO_PERMISSION, name, "it belongs to another user");
	else if (!open_recorder(&recorder, process->file->folder, process->who->job))
		status = fail(EXIT_FOUND, name, "it was not started with cuward run --record");
	else
		status = ask(&recorder, name);
	box_close(&box);
	return status;
}
