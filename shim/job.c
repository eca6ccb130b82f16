/*
 * job.c - jobs are folders of ledgers: whose is it?
 */
#include "job.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuward/ledger.h"

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
