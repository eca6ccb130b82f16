/*
 * report_file.h - where a JSON report goes: names with %p, and files that are whole or not there.
 *
 * Used by the guest's final handler too: no malloc, no stdio, no locale.
 */
#ifndef CUWARD_REPORT_FILE_H
#define CUWARD_REPORT_FILE_H

#include <limits.h>
#include <stdint.h>

#include "report.h"

/* Who writes; what %p, %t and %u stand for. */
struct report_writer {
	uint32_t pid;
	uint32_t uid;
	uint64_t start_ns; /* CLOCK_REALTIME */
};

/* The pattern with its %p %t %h %u %% replaced. -EINVAL: another % in it; -ENAMETOOLONG. */
int report_file_name(char name[PATH_MAX], const char *pattern, const struct report_writer *writer);

struct report_file {
	struct report_out out; /* write here */
	char name[PATH_MAX];   /* where it will be, and after the close where it is */
	char temporary[PATH_MAX];
	int fd;
	int error; /* of the write that failed, 0 none */
};

/* Begin a report. 0 or -errno. A terminal, pipe or device of that name is written directly. */
int report_file_open(struct report_file *file, const char *name);

/*
 * End it: the file appears at its name or, where that exists, at NAME-PID.EXT (and then
 * NAME-PID-2.EXT ...); an existing file is never changed. 0 or -errno, nothing is left then.
 */
int report_file_close(struct report_file *file, uint32_t pid);

#endif
