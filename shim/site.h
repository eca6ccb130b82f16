/*
 * site.h - where in the program a call came from, as a small number.
 */
#ifndef CUWARD_SITE_H
#define CUWARD_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

#define SITE_PLACES 8192u /* a power of two; at most three quarters are used */

struct site_place {
	uint64_t address; /* 0: empty; published last */
	uint32_t site;
};

/* Zero in a forked child. */
struct site_table {
	PAGE_COLOUR(3);
	struct site_place *places; /* NULL: not prepared, or not wanted */
	uint32_t lock;
	uint32_t count;
	bool prepared;
} WHOLE_PAGES;

extern struct site_table sites;

/* A site not seen before, or no table yet. */
uint32_t site_add(uint64_t address);

hot uint32_t site_place_of(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15ull >> 40) % SITE_PLACES;
}

/* The id of the call site with this return address; 0 unknown, or call sites are not wanted. */
hot uint32_t site_of(const void *caller)
{
	uint64_t address = (uint64_t)caller;

	if (likely(sites.places)) {
		for (uint32_t i = site_place_of(address);; i = (i + 1) % SITE_PLACES) {
			uint64_t found = __atomic_load_n(&sites.places[i].address, __ATOMIC_ACQUIRE);

			if (likely(found == address))
				return sites.places[i].site;
			if (!found)
				break;
		}
	}
	return site_add(address);
}

void site_forget(void);

#endif
