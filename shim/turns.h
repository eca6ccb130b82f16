/*
 * turns.h - who waits for memory, and whose turn it is: between threads, processes and users.
 *
 * A thread that waits has an entry here; of those that wait for one limit the first stands in the
 * process's slot, where others see it. The one with more priority comes first, where a minute of waiting
 * counts as much as one step. Who comes and holds nothing yet queues behind all that wait. Who holds
 * memory already, for which they may be waiting, takes what none of those before it could take now:
 * else each would wait for the other.
 */
#ifndef CUWARD_TURNS_H
#define CUWARD_TURNS_H

#include "group.h"

#define TURNS_MAX 64 /* threads of one process; those beyond wait without an order */

/* A request that waits. */
struct turn {
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint64_t bytes;
	uint32_t gid;
	uint16_t device; /* index in this process, ... */
	uint16_t word;   /* ... and in the slots */
	enum cuward_scope scope;
};

/*
 * A signal handler may jump out of a wait, and nobody leaves then: entries do not lie on stacks, and one
 * that nobody keeps stands in nobody's way.
 */
struct turns {
	PAGE_COLOUR(2);
	uint32_t count; /* threads of ours that wait */
	uint32_t lock;
	struct slot *slot;
	struct {
		struct turn turn; /* since_ns 0: free */
		uint64_t seen_ns;
	} all[TURNS_MAX];
} WHOLE_PAGES;

extern struct turns turns __attribute__((visibility("hidden")));

/* Once; NULL without a slot. */
void turns_open(struct slot *slot);

/* It waits, still, for the limit that its turn names. `place` is -1 at first. */
void turns_keep(int *place, const struct turn *turn, uint64_t now);
void turns_leave(int place);

/* Does a thread of ours wait on this device? */
bool turns_wait_on(unsigned device);

/* Who would take what fits, or waits until it does. */
struct turns_ask {
	const struct asker *asker;
	const uint64_t *word;
	unsigned word_index;
	uint64_t bytes;
	uint64_t raised; /* so much of the word is this very request: all or nothing of it */
	uint64_t process_limit;
	const struct group_limits *limits;
};

/*
 * Whose turn is it? `why` tells under which limit somebody else comes first, or which leaves too little
 * to who has raised nothing yet. Files are opened: not on the way of a call while nobody waits.
 */
enum turn_answer turns_look(const struct turns_ask *ask, struct refusal *why);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void turns_forget(void);

#endif
