/*
 * history.c - the file that grows: one line a process, written at once, so that many may write.
 */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* From here on it is put aside, once, and a new one begins. */
#define FILE_MAX (32ll << 20)

bool history_file(char path[PATH_MAX], const char *setting)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (!setting || !*setting || strcmp(setting, "0") == 0)
		return false;
	if (strcmp(setting, "1") != 0)
		return snprintf(path, PATH_MAX, "%s", setting) < PATH_MAX;
	if (state && *state == '/')
		return snprintf(path, PATH_MAX, "%s/cuward/history.jsonl", state) < PATH_MAX;
	return home && *home == '/' &&
		snprintf(path, PATH_MAX, "%s/.local/state/cuward/history.jsonl", home) < PATH_MAX;
}

/* The folders on the way, for the user alone. */
static void make_folders(const char *path)
{
	char part[PATH_MAX];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0700);
		*slash = '/';
	}
}

static void put_aside(const char *path)
{
	char old[PATH_MAX + 8];
	struct stat info;

	if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < FILE_MAX)
		return;
	snprintf(old, sizeof(old), "%s.1", path);
	rename(path, old);
}

/* Of what a report says of a process, so much as history needs; how much was leaked instead of what. */
static json_t *shorten(const json_t *process)
{
	static const char *const kept[] = { "version", "host", "pid", "pid_ns", "outer_pid", "image",
		"uid", "user", "start_time", "end_time", "command", "job", "labels", "ended", "status",
		"devices", "findings", "leaked_bytes" };
	json_t *line = json_object();

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (json_object_get(process, kept[i]))
			json_object_set(line, kept[i], json_object_get(process, kept[i]));
	return line;
}

int history_append(const char *path, const json_t *process)
{
	json_t *line = shorten(process);
	char *text = json_dumps(line, JSON_COMPACT);
	size_t bytes = text ? strlen(text) : 0;
	int fd, error = 0;

	json_decref(line);
	if (!text)
		return -ENOMEM;
	make_folders(path);
	put_aside(path);
	text[bytes] = '\n'; /* in the place of the 0 byte: one write, and lines of others are not torn */
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0)
		error = -errno;
	else if (write(fd, text, bytes + 1) != (ssize_t)(bytes + 1))
		error = errno ? -errno : -ENOSPC;
	if (fd >= 0)
		close(fd);
	free(text);
	return error;
}
