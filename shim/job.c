/*
 * job.c - jobs are folders of ledgers: whose is it?
 */
#include "job.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool job_is_of_run(int folder, const char *job)
{
	char path[sizeof(((struct process_identity *)0)->job) + 16];
	size_t all = strlen(job);

	for (size_t length = 1; length <= all; length++) {
		if (job[length] && job[length] != '/')
			continue;
		snprintf(path, sizeof(path), "jobs/%.*s/.run", (int)length, job);
		if (faccessat(folder, path, F_OK, 0) == 0)
			return true;
	}
	return false;
}

static int open_or_make(int parent, const char *name)
{
	if (mkdirat(parent, name, 0700) == 0)
		fchmodat(parent, name, 0700, 0); /* whatever the umask */
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int job_open_folder(int folder, const char *job)
{
	char text[sizeof(((struct process_identity *)0)->job)];
	char *rest = NULL;
	int fd = open_or_make(folder, "jobs");

	snprintf(text, sizeof(text), "%s", job[0] ? job : "-");
	for (char *part = strtok_r(text, "/", &rest); part && fd >= 0; part = strtok_r(NULL, "/", &rest)) {
		/* "." and ".." would leave the folder. */
		int next = part[0] == '.' ? -1 : open_or_make(fd, part);

		close(fd);
		fd = next;
	}
	return fd;
}

void job_remove_ledger(int folder, const struct process_identity *who)
{
	const char *job = who->job[0] ? who->job : "-";
	char path[sizeof(who->job) + 80];

	snprintf(path, sizeof(path), "jobs/%s/%u-%u-%llu.ledger", job, who->pid, who->image,
		(unsigned long long)who->start_ticks);
	if (who->pid && !strchr("/.", job[0]) && !strstr(job, "/.") && !job_is_of_run(folder, job))
		unlinkat(folder, path, 0);
}
