/*
 * members.h - the processes that count for a limit of several, and what they hold together.
 *
 * Each limit that binds us has a number: MEMBERS_UNIX and those after it are of the groups of users
 * whose limit binds us. Limits from MEMBERS_GPU on are of other users' processes too, which are read
 * through the kernel.
 */
#ifndef CUWARD_MEMBERS_H
#define CUWARD_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

enum {
	MEMBERS_JOB,
	MEMBERS_INNER, /* a run within that job */
	MEMBERS_USER,
	MEMBERS_GPU,
	MEMBERS_UNIX,
	MEMBERS_LIMITS = MEMBERS_UNIX + SLOT_GROUPS,
};

static inline bool members_are_common(int which)
{
	return which >= MEMBERS_GPU;
}

/* Runs within a run are part of it. Without a job, all that have none are one. */
bool members_is_part(const char *job, const char *of);

/* Once, with a slot: whose job are we in? */
void members_open(const char *job, uint32_t self);

/* The run within it that has a limit of its own. */
void members_open_inner(const char *job);

/* The groups of users whose limit binds us, in the order of their limits. */
void members_join(const uint32_t *gids, unsigned count);

/* Limits that our job and our user were given while they ran: those who live have them. */
void members_inherit(struct slot *own);

/* The lowest limit of our job that others were started with on that device; BYTES_NONE. */
uint64_t members_job_limit(uint32_t slot_device);

/* Our slot's number; what tells limits of one scope apart: the group of users, 1 of a run within. */
uint32_t members_self(void);
uint32_t members_gid(int which);

/* Index of a limit of ours that this process (NULL: ours) is bound by too, by scope and group; -1. */
int members_which(const struct slot *slot, unsigned scope, uint32_t gid);
enum cuward_scope members_scope(int which);

/*
 * What those of our user hold: of a job or a user that is all. As consistent as raising is: what we
 * raised is seen by everybody before any word is read.
 */
uint64_t members_sum(int which, unsigned word_index);

/*
 * The same of all users' processes, and what is `kept` for others: as it is held, without the dead; or
 * with leases, as limits count (lease.h). Carefully: without the dead.
 */
uint64_t members_sum_held(int which, unsigned word_index, uint64_t *kept);
uint64_t members_sum_leased(int which, unsigned word_index, bool carefully, uint64_t *kept);

/* All words as one number: where it is the same, nothing moved. How many requests are undecided? */
uint64_t members_reading(int which, unsigned word_index, unsigned *asking);

/* Who holds most, for whoever reads a refusal. */
void members_name(int which, unsigned word_index, struct ledger_holder *holders);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void members_forget(void);

#endif
