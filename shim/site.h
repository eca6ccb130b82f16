/*
 * site.h - where in the program a call came from, as a small number.
 *
 * A place is one return address; a stack is the places and lines of Python that led there. Both are
 * described once, when they are first seen. Tables are read without a lock: an entry's key is
 * published after its id.
 */
#ifndef CUWARD_SITE_H
#define CUWARD_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

#define SITE_PLACES 8192u /* powers of two; at most three quarters are used */
#define SITE_STACKS 65536u

struct site_place {
	uint64_t key; /* 0: empty; published last */
	uint32_t site;
	uint32_t what; /* of a place: enum module_what */
};

/* Zero in a forked child. */
struct site_table {
	PAGE_COLOUR(3);
	struct site_place *places; /* by address; NULL: not prepared, or not wanted */
	struct site_place *stacks; /* by hash of their frames; NULL: the address is enough */
	uint32_t lock;
	uint32_t count;
	uint32_t stack_count;
	bool prepared; /* what is wanted is known: set last */
	bool native; /* callers' callers are kept */
	bool python; /* lines of Python are kept */
} WHOLE_PAGES;

extern struct site_table sites __attribute__((visibility("hidden")));

/* A site not seen before, or no table yet. */
uint32_t site_add(const void *caller, const void *frame);
/* Just the place of a return address. */
uint32_t site_of_address(const void *address);
/* With its stack. */
uint32_t site_deep(const void *caller, const void *frame);

/* A line of Python as a site. */
uint32_t site_add_python(const char *file, const char *function, unsigned line);

hot uint32_t site_place_of(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15ull >> 40) % SITE_PLACES;
}

/*
 * The id of the call site with this return address, whose callee's frame is this (as
 * __builtin_frame_address() has it); 0 unknown, or call sites are not wanted.
 */
hot uint32_t site_of(const void *caller, const void *frame)
{
	uint64_t address = (uint64_t)caller;

	if (unlikely(sites.stacks))
		return site_deep(caller, frame);
	if (likely(sites.places)) {
		for (uint32_t i = site_place_of(address);; i = (i + 1) % SITE_PLACES) {
			uint64_t found = __atomic_load_n(&sites.places[i].key, __ATOMIC_ACQUIRE);

			if (likely(found == address))
				return sites.places[i].site;
			if (!found)
				break;
		}
	}
	return site_add(caller, frame);
}

/* Are sites known by their return address alone? */
static inline bool site_is_the_address(void)
{
	return __atomic_load_n(&sites.prepared, __ATOMIC_ACQUIRE) && !sites.stacks;
}

void site_forget(void);

#endif
