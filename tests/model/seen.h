/*
 * seen.h - what both sides say about this process's memory: the shim's ledger and slot, mapped from
 * the files it keeps, and the simulated driver's truth, from inside.
 */
#ifndef SEEN_H
#define SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "control.h"
#include "cuward/ledger.h"

#define SEEN_DEVICES 2

struct seen {
	int64_t bytes[KIND_COUNT];
	int64_t live[KIND_COUNT];
	uint64_t used[SEEN_DEVICES]; /* charged */
	uint64_t denied;
	int64_t objects[OBJECT_COUNT]; /* created and not destroyed */
};

extern const struct sim_control *sim;
extern const struct ledger_header *seen_header;
extern const struct ledger_record *seen_records;

/* After cuInit, under the preload. Exits with status 3 if one side cannot be seen. */
void seen_open(void);
void seen_read(struct seen *seen);

/* Handles that both sides count. */
extern const struct seen_object {
	const char *word;
	enum cuward_object ours;
	enum sim_given its;
} seen_objects[];
extern const unsigned seen_object_count;

/* What the driver says in the shim's words. Bytes of graphs are what is kept for them. */
void seen_truth(struct seen *truth);

/* A wrong ledger on purpose, to see that it is seen: bytes of pinned memory that are not there. */
extern bool seen_spoil;
extern int64_t seen_spoilt;

/* Kinds as in events.h, by their word. */
extern const char *const seen_kinds[KIND_COUNT];

#endif
