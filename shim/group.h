/*
 * group.h - limits of several processes together: a job, a user, a group of users, all on a GPU.
 *
 * A group has no counter of its own: what it uses is the sum over its members' slots, so nothing
 * drifts, and a killed process stops counting. A request is raised in our own word, visibly and before
 * the driver is called; then the words of all members are read. If the sum fits it is granted. Of all
 * grants alive at any time the last one's reading saw all the others, so the truth never passes the
 * limit. Where it does not fit, requests take turns, and one is refused only when two equal readings
 * show nobody else asking.
 */
#ifndef CUWARD_GROUP_H
#define CUWARD_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"
#include "lock.h"

/* Why a request was refused. */
struct refusal {
	enum cuward_scope scope;
	uint64_t limit_bytes;
	uint64_t used_bytes;
	struct ledger_holder holders[LEDGER_HOLDERS];
	bool noted; /* counted and told already */
};

/* Limits of a device that bind more than this process; BYTES_NONE where there is none. */
struct group_limits {
	uint64_t job;
	uint64_t user;
	uint64_t gpu;
	uint64_t group[SLOT_GROUPS];
};

/* Runs within a run are part of it. Without a job, all that have none are one. */
bool group_is_part(const char *job, const char *of);

/* Once, with a slot: whose group are we in? */
void group_open(const char *job, uint32_t self);

/* The groups of users whose limit binds us; each index is that of group_limits.group. */
void group_join(const uint32_t *gids, unsigned count);

/* The least of these limits, and is there one? */
uint64_t group_least(const struct group_limits *limits);

/* Limits that our job and our user were given while they ran: those who live have them. */
void group_inherit(struct slot *own);

/* The lowest limit that others have for our job on that device of the slots, else BYTES_NONE. */
uint64_t group_job_limit(uint32_t slot_device);

/*
 * Raise `bytes` in our own word, the one of index `word_index` in our slot, under the limit of the
 * process and those of the groups. False: refused by `why`, and nothing is held.
 */
bool group_take(uint64_t *word, unsigned word_index, uint64_t bytes, uint64_t process_limit,
	const struct group_limits *limits, struct refusal *why);

/* What the groups leave: the least of limit less use, BYTES_NONE without limits. */
uint64_t group_room(unsigned word_index, const struct group_limits *limits);

/* The dead still stand in their slots until somebody needs the room. True: some were there. */
bool group_drop_dead(void);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void group_forget(void);

#endif
