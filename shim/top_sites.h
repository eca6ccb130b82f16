/*
 * top_sites.h - live memory added up by call site.
 */
#ifndef CUWARD_TOP_SITES_H
#define CUWARD_TOP_SITES_H

#include "cuward/ledger.h"

#define TOP_SITES 512 /* told apart; those beyond share the last place */

struct top_sites {
	struct {
		uint64_t bytes;
		uint64_t since_ns;
		uint32_t site;
	} all[TOP_SITES];
};

/* If it is live, and charged to this device. */
void top_sites_add(struct top_sites *sums, const struct ledger_record *record, uint8_t device);

/* Largest first. */
void top_sites_largest(const struct top_sites *sums, struct ledger_holder holders[LEDGER_HOLDERS]);

#endif
