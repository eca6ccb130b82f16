/*
 * libraries.c - the command finds its libraries by where it lies itself.
 */
#include "libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_library(const char *folder)
{
	char path[PATH_MAX + 160];

	return snprintf(path, sizeof(path), "%s/libcuward.so", folder) < (int)sizeof(path) &&
		access(path, R_OK) == 0;
}

bool libraries_find(char folder[PATH_MAX])
{
	char installed[PATH_MAX + 32], resolved[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	folder[length < 0 ? 0 : length] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	if (has_library(folder))
		return true;
	snprintf(installed, sizeof(installed), "%s/../lib/cuward", folder);
	if (has_library(installed) && realpath(installed, resolved)) {
		strcpy(folder, resolved);
		return true;
	}
	if (!has_library(CUWARD_LIBDIR))
		return false;
	strcpy(folder, CUWARD_LIBDIR);
	return true;
}
