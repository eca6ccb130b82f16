/*
 * admin_dir.c - opening the administrator's folder, if it can be trusted.
 */
#include "admin_dir.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* Root's; where others may write, only their own files are theirs to rename and remove. */
static bool is_safe(int fd, bool open_to_all)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_uid == 0 &&
		(!(status.st_mode & 022) || (open_to_all && (status.st_mode & S_ISVTX)));
}

static int open_rundir(void)
{
	int fd = open(CUWARD_RUNDIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && is_safe(fd, false))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int admin_dir_open(const char *part)
{
	int folder = open_rundir();
	int fd;

	if (folder < 0)
		return -1;
	fd = openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	close(folder);
	if (fd >= 0 && is_safe(fd, true))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int open_file(const char *name)
{
	int folder = open_rundir();
	int fd;

	if (folder < 0)
		return -1;
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	close(folder);
	return fd;
}

int admin_dir_open_turn(void)
{
	return open_file("turn");
}

int admin_dir_open_trace(void)
{
	return open_file("trace");
}
