/*
 * growth.h - what is live of each call site over time, where leaks are told by growth or by marks.
 */
#ifndef CUWARD_GROWTH_H
#define CUWARD_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"
#include "lock.h"

/* Zero in a forked child. */
struct growth_table {
	PAGE_COLOUR(6);
	bool on;
	uint32_t lock;
	uint32_t count;
	uint16_t *number_of; /* site -> number of its entry + 1 */
} WHOLE_PAGES;

extern struct growth_table growth __attribute__((visibility("hidden")));

/* The ledger is open: does anybody want to know? */
void growth_start(const char *leak);
void growth_forget(void);

void growth_note_taken(const struct ledger_record *record);
void growth_note_given(const struct ledger_record *record);

/* Memory became live, and went. */
hot void growth_taken(const struct ledger_record *record)
{
	if (unlikely(growth.on))
		growth_note_taken(record);
}

hot void growth_given(const struct ledger_record *record)
{
	if (unlikely(growth.on))
		growth_note_given(record);
}

/* Name this moment. */
void growth_mark(const char *name);

/* Marks that others asked for and that no call has noticed since. */
void growth_mark_pending(void);

#endif
