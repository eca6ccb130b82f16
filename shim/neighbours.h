/*
 * neighbours.h - what the processes of other users hold, for limits of all users together.
 *
 * Their slots lie beside ours in the administrator's folder. They are hostile: an owner may write
 * what he likes and cut his file off, so nothing is read but through the kernel, which says so
 * instead of killing us; what one of them claims is at most the whole GPU.
 */
#ifndef CUWARD_NEIGHBOURS_H
#define CUWARD_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "admin.h"
#include "cuward/ledger.h"

#define NEIGHBOURS_ALL UINT32_MAX

struct neighbours_sum {
	uint64_t bytes;
	uint64_t overhead; /* of contexts and modules, in no word and under no limit */
	uint64_t reserved; /* of what is kept for some of them: the part they do not hold yet */
	uint64_t hash;     /* equal numbers, equal words, for all that matters */
	unsigned asking;
};

/* Once: what is kept for others by policy. False: they cannot be seen here, `why` says that. */
bool neighbours_open(const struct admin *admin, char *why, size_t why_bytes);

struct neighbours_how {
	bool carefully;     /* without the dead, one system call each */
	uint64_t leased_at; /* with leases, of this time: lease.h; 0: without */
};

/*
 * Add up a device, the one of this word in our own slots: of all, or of those that the group_max of a
 * group binds.
 */
void neighbours_add(unsigned word_index, uint32_t gid, struct neighbours_how how,
	struct neighbours_sum *sum);

/* The largest of them go to their places among the holders. */
void neighbours_name(unsigned word_index, uint32_t gid, struct ledger_holder *holders);
void neighbours_place(struct ledger_holder *holders, const struct slot *slot, uint64_t bytes);

/* Did any of them wait for memory, when they were added up last? */
extern bool neighbours_wait __attribute__((visibility("hidden")));

/* Each living process of theirs that waits; word is that of the device in its slot. */
typedef void neighbours_tell(void *to, const struct slot *slot, int word);
void neighbours_waiting(unsigned word_index, neighbours_tell *tell, void *to);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void neighbours_forget(void);

#endif
