/*
 * admin.h - limits that the administrator of this machine set, in /etc/cuward; pure but for reading.
 *
 *	cuward.conf, conf.d/NAME.conf
 *	[default], [user NAME], [group NAME], [gpu UUID]
 *	process_max, job_max, user_max, group_max, reserve = SIZE, N%, none
 *	priority_max = N (not of a GPU), warn = N%, idle = T
 *
 * Of all lines that concern a user and a GPU the lowest wins; of reserves the largest. A file that
 * root does not own alone is ignored, and that is told; one that cannot be understood lets nobody
 * start. Where the files lie is settled when cuward is built: what can be told by the environment is
 * no limit.
 */
#ifndef CUWARD_ADMIN_H
#define CUWARD_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit.h"

/* ADMIN_GPU is what all users together may hold: the GPU less the reserve that is nobody's. */
enum admin_max { ADMIN_PROCESS, ADMIN_JOB, ADMIN_USER, ADMIN_GPU, ADMIN_COUNT };

#define ADMIN_GROUPS SLOT_GROUPS /* with a group_max, of one user */
#define ADMIN_RESERVES 16 /* of users and groups */
#define PRIORITY_MAX 20

struct admin_limit {
	uint64_t bytes;  /* BYTES_NONE without one */
	char source[48]; /* the file that sets it */
};

/* What all users of a group together may hold; only groups this user is in. */
struct admin_group {
	uint32_t gid;
	struct admin_limit max[SLOT_DEVICES];
};

/* What is kept for a user or a group, whoever asks. */
struct admin_reserve {
	bool of_group;
	uint32_t id;
	uint64_t bytes[SLOT_DEVICES]; /* 0: nothing on this one */
	char source[48];
};

struct admin {
	struct admin_limit max[ADMIN_COUNT][SLOT_DEVICES];
	struct admin_group groups[ADMIN_GROUPS];
	unsigned group_count;
	struct admin_reserve reserves[ADMIN_RESERVES];
	unsigned reserve_count;
	uint8_t uuids[SLOT_DEVICES][16]; /* of the devices asked about */
	int priority_max;  /* PRIORITY_MAX where nothing is said */
	unsigned warn[SLOT_DEVICES];    /* per cent of a limit there, 0 nothing is said */
	uint64_t idle_ns[SLOT_DEVICES]; /* of who holds something there, 0 nothing is said */
	char warning[256]; /* what was ignored, empty if nothing was */
	char nobody[256];  /* the first section of a user who is not there; for who checks the files */
};

/* Limits of this user on these devices. False: `why` names file, line and what is wrong. */
bool admin_read(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	char *why, size_t why_bytes);

/* The same of a process, which may have other groups than the files say; 0: they are not known. */
bool admin_read_as(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	const uint32_t *gids, unsigned gid_count, char *why, size_t why_bytes);

/* The same from another folder, for whose files `owner` stands in for root. */
bool admin_read_from(const char *folder, uint32_t owner, struct admin *admin,
	const struct limit_device *devices, unsigned count, uint32_t uid, char *why, size_t why_bytes);

#endif
