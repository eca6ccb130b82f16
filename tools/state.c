/*
 * state.c - where shared state lies: CUWARD_DIR, the runtime folder of the user, or /dev/shm.
 */
#include "state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_ours(const char *folder)
{
	struct stat info;

	return lstat(folder, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

const char *state_folder(char path[PATH_MAX])
{
	const char *dir = getenv("CUWARD_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");
	char here[PATH_MAX] = "";
	int length;

	if (dir && *dir && *dir != '/' && !getcwd(here, sizeof(here)))
		return "cannot tell the current folder";
	if (dir && *dir)
		length = snprintf(path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", dir);
	else if (runtime && *runtime == '/' && is_ours(runtime))
		length = snprintf(path, PATH_MAX, "%s/cuward", runtime);
	else
		length = snprintf(path, PATH_MAX, "/dev/shm/cuward-%u", geteuid());
	return length >= 400 ? "CUWARD_DIR: the path is too long" : NULL;
}

const char *state_make(const char *folder)
{
	static char text[64];
	struct stat info;

	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		return strerror(errno);
	if (stat(folder, &info) != 0)
		return strerror(errno);
	if (!S_ISDIR(info.st_mode))
		return "it is no folder";
	if (info.st_uid != geteuid()) {
		snprintf(text, sizeof(text), "it belongs to uid %u", info.st_uid);
		return text;
	}
	return info.st_mode & 022 ? "others may write to it" : NULL;
}
