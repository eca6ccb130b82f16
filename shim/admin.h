/*
 * admin.h - limits that the administrator of this machine set, in /etc/cuward; pure but for reading.
 *
 *	cuward.conf, conf.d/NAME.conf: [default], [user NAME], [gpu UUID]
 *	                             process_max, job_max, user_max = SIZE, N% or none
 *
 * Of all lines that concern a user and a GPU the lowest wins. A file that root does not own alone is
 * ignored, and that is told; one that cannot be understood lets nobody start. Where the files lie is
 * settled when cuward is built: what can be told by the environment is no limit.
 */
#ifndef CUWARD_ADMIN_H
#define CUWARD_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit.h"

enum admin_max { ADMIN_PROCESS, ADMIN_JOB, ADMIN_USER, ADMIN_COUNT };

struct admin_limit {
	uint64_t bytes;  /* BYTES_NONE without one */
	char source[48]; /* the file that sets it */
};

struct admin {
	struct admin_limit max[ADMIN_COUNT][SLOT_DEVICES];
	char warning[256]; /* what was ignored, empty if nothing was */
};

/* Limits of this user on these devices. False: `why` names file, line and what is wrong. */
bool admin_read(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	char *why, size_t why_bytes);

/* The same from another folder, for whose files `owner` stands in for root. */
bool admin_read_from(const char *folder, uint32_t owner, struct admin *admin,
	const struct limit_device *devices, unsigned count, uint32_t uid, char *why, size_t why_bytes);

#endif
