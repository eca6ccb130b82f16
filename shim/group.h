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
#include "members.h"

/* Whose turn it is, where others wait for memory: turns.h. */
enum turn_answer {
	TURN_PASS,      /* nobody's before this one */
	TURN_QUEUE,     /* it would fit; others came before */
	TURN_HAND_OVER, /* it would fit, and so would somebody who came before: he takes it in a moment */
	TURN_SHORT,     /* it does not fit */
};

/* Why a request was refused. */
struct refusal {
	enum cuward_scope scope;
	uint64_t limit_bytes;
	uint64_t used_bytes;
	uint64_t kept_bytes; /* of those: for others, who may not come */
	uint32_t gid;        /* whose limit, SCOPE_GROUP */
	const char *source;  /* of the limit; NULL: that of the device's limit of this scope */
	enum turn_answer turn; /* it would have fit, but ... */
	struct ledger_holder holders[LEDGER_HOLDERS];
	bool noted; /* counted and told already */
};

/* Who asks, where others wait too. */
struct asker {
	int device;        /* index in this process */
	uint64_t since_ns; /* it waits since then, CLOCK_MONOTONIC; 0: it just came */
	bool queues;       /* it can wait for its turn */
	bool regardless;   /* it has let others go first for long enough */
};

/* Limits of a device that bind more than this process; BYTES_NONE where there is none. */
struct group_limits {
	uint64_t job;
	uint64_t inner; /* of a run within the job */
	uint64_t user;
	uint64_t gpu;
	uint64_t group[SLOT_GROUPS];
};

/* The least of these limits, and is there one? */
uint64_t group_least(const struct group_limits *limits);

/* For memory, under all limits that bind us. */
struct request {
	uint64_t *word;      /* what we hold, in our slot ... */
	unsigned word_index; /* ... the one of this index */
	uint64_t bytes;
	uint64_t process_limit;
	const struct group_limits *limits;
	const struct asker *asker;
	struct refusal *why;
};

/*
 * Raise the bytes in our own word, under the limit of the process and those of the groups. False:
 * refused by `why`, or others come before; and nothing is held.
 */
bool group_take(const struct request *request);

/* What one of the limits leaves, but for `raised` bytes of our own; where there is none, all. */
struct group_room {
	uint64_t left_bytes;
	struct refusal why; /* if that is too little */
};

/* All of them. True: some are of other users too. */
bool group_rooms(unsigned word_index, const struct group_limits *limits, uint64_t raised,
	struct group_room rooms[MEMBERS_LIMITS]);

/* What the groups leave: the least of limit less use, BYTES_NONE without limits. */
uint64_t group_room(unsigned word_index, const struct group_limits *limits);

#endif
