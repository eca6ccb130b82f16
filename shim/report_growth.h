/*
 * report_growth.h - does what is live of a call site keep rising?
 */
#ifndef CUWARD_REPORT_GROWTH_H
#define CUWARD_REPORT_GROWTH_H

#include "report.h"

struct report_growth {
	bool grows;
	unsigned confidence;  /* percent of the time watched in which it rose */
	uint64_t from_bytes;  /* the least that was live once the program had warmed up ... */
	uint64_t to_bytes;    /* ... and at the end */
	uint64_t bytes_per_s; /* in between; BYTES_NONE where no time passed */
};

struct report_growth report_growth_of(const struct ledger_view *view,
	const struct ledger_growth *entry);

/* The entry of a site; NULL if none was kept. */
const struct ledger_growth *report_growth_find(const struct ledger_view *view, uint32_t site);

#endif
