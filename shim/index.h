/*
 * index.h - handle -> record, private to the process: sharded open addressing.
 *
 * An entry is 8 bytes, half a hash and a record number, so a look-up touches one cache line of the
 * index and one of the record. Shards grow one at a time; a call never waits for a whole table.
 */
#ifndef CUWARD_INDEX_H
#define CUWARD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

/* False: no memory. */
bool index_open(void);

/* Returns the record that had the handle before, or LEDGER_NO_RECORD. */
uint32_t index_insert(enum record_class class, uint64_t handle, uint32_t record);
uint32_t index_remove(enum record_class class, uint64_t handle);
bool index_find(enum record_class class, uint64_t handle, struct ledger_record *copy);

/* A small memory of handles freed lately, to tell a second free from a wild one. */
void index_note_freed(enum record_class class, uint64_t handle);
bool index_was_freed(enum record_class class, uint64_t handle);

void index_forget(void);

#endif
