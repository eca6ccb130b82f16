/*
 * report_leaks.h - what is live in a ledger, summed up by where it came from.
 */
#ifndef CUWARD_REPORT_LEAKS_H
#define CUWARD_REPORT_LEAKS_H

#include <stdint.h>

#include "report.h"
#include "report_sites.h"

/* No such call, no such device: what the groups of the rest have. */
#define API_NONE UINT16_MAX
#define DEVICE_NONE UINT8_MAX

/* Memory of one verdict and kind that one call got for one device at one place. */
struct leak_group {
	uint64_t bytes;
	uint64_t count;
	uint64_t first_ns; /* CLOCK_REALTIME of the oldest */
	uint32_t site;
	uint16_t api;
	uint8_t verdict; /* enum cuward_verdict */
	uint8_t kind;
	uint8_t device;
	uint8_t part; /* what else its members have in common: enum in report_leaks.c */
	const char *suppressed_by; /* the rule, NULL none */
	const struct ledger_growth *growth; /* NULL unless it was watched */
};

/*
 * The groups, leaks first, the largest of them first. They live in one static table: the next call
 * overwrites them, and only one thread may call. Sums are exact whatever the number of records;
 * places beyond the table's size come together in a group without api, device and place.
 */
const struct leak_group *report_leak_groups(const struct ledger_view *view, unsigned *count);

/* Is it a leak that nobody suppressed? */
bool report_counts(const struct leak_group *group);

/* Did the image end in order, so that what it still holds is its own doing? */
bool report_ended_orderly(const struct ledger_view *view);

/* Is this a memory record that counts as held? Objects are counted elsewhere. */
bool report_record_is_live(const struct ledger_view *view, const struct ledger_record *record);

/* It may be gone with its context, which is being ended. */
bool report_record_is_doomed(const struct ledger_view *view, const struct ledger_record *record);

/* The same for the same place, kind and call in every run of a program. */
uint64_t report_leak_hash(const struct ledger_view *view, const struct leak_group *group);

/* Name of a call, NULL if this build does not know it. */
const char *report_call_name(const struct ledger_view *view, unsigned api);

const char *report_kind_word(unsigned kind);
const char *report_verdict_word(unsigned verdict);

#endif
