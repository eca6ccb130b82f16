/*
 * index.h - handle -> record, private to the process: linear probing, in shards.
 *
 * An entry is 8 bytes, half a hash and a record number, so a look-up touches one cache line of the
 * index and one of the record. The upper bits of the 32-bit tag give the place in a table, the
 * lower ones the shard; the tag stands in the entry, so that tables grow and close gaps without
 * touching a record. Shards grow one at a time; a call never waits for a whole table.
 *
 * The functions are here because they are on the way of every allocation. Included by ledger.h only.
 */
#ifndef CUWARD_INDEX_H
#define CUWARD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"
#include "lock.h"

#define INDEX_SHARDS 8
#define INDEX_FREED 4096

struct index_entry {
	uint32_t tag;
	uint32_t record; /* + 1, 0 for an empty place */
};

struct index_shard {
	uint32_t lock;
	uint32_t shift; /* of a tag, to its place: 32 less the bits of the number of places */
	uint32_t count;
	uint32_t limit; /* grow at this count: 5/8 of the places */
	struct index_entry *table;
} __attribute__((aligned(64)));

struct index_freed {
	uint64_t key;
	uint64_t by; /* return address of the call that freed it */
};

/* Zero in a forked child. */
struct index_memory {
	PAGE_COLOUR(5);
	struct index_shard shards[INDEX_SHARDS];
	struct index_freed *freed; /* lately, to tell a second free from a wild one */
} WHOLE_PAGES;

extern struct index_memory handles __attribute__((visibility("hidden")));

/* False: no memory. */
bool index_open(void);
/* False: no place is left. */
bool index_grow(struct index_shard *shard);
bool index_find(enum record_class class, uint64_t handle, struct ledger_record *copy);
/* The record of a handle is changed while it cannot go; false: there is none. */
bool index_change(enum record_class class, uint64_t handle,
	void (*change)(struct ledger_record *record, void *how), void *how);
/* Under its handle, unless another record stands there: that one, else LEDGER_NO_RECORD. */
uint32_t index_put_back(enum record_class class, uint64_t handle, uint32_t record);
void index_forget(void);

hot uint64_t index_key(enum record_class class, uint64_t handle)
{
	return handle ^ (uint64_t)class << 60;
}

hot uint32_t index_tag(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

hot struct index_shard *index_shard(uint32_t tag)
{
	struct index_shard *shard = &handles.shards[tag % INDEX_SHARDS];

	/* One address; compilers work it out for each field again. */
	__asm__("" : "+r"(shard));
	return shard;
}

hot uint32_t index_home(const struct index_shard *shard, uint32_t tag)
{
	return tag >> shard->shift;
}

hot uint32_t index_mask(const struct index_shard *shard)
{
	return UINT32_MAX >> shard->shift;
}

hot uint64_t index_key_of(const struct ledger_record *record);

/* The place of a key, or of the gap where it would stand. */
hot uint32_t index_probe(const struct index_shard *shard, uint32_t tag, uint64_t key);

/* Returns the record that had the handle before, or LEDGER_NO_RECORD. */
hot uint32_t index_insert(enum record_class class, uint64_t handle, uint32_t record);
hot uint32_t index_remove(enum record_class class, uint64_t handle);
/* The record of a handle, or LEDGER_NO_RECORD. */
hot uint32_t index_lookup(enum record_class class, uint64_t handle);
hot uint32_t index_take(struct index_shard *shard, uint64_t key);
hot bool index_holds(const struct index_shard *shard, uint64_t key, uint32_t record);

hot struct index_freed *index_freed_place(uint64_t key)
{
	return &handles.freed[key / 256 % INDEX_FREED];
}

hot void index_note_freed(uint64_t key, const void *by)
{
	struct index_freed *place = index_freed_place(key);

	__atomic_store_n(&place->by, (uint64_t)by, __ATOMIC_RELAXED);
	__atomic_store_n(&place->key, key, __ATOMIC_RELAXED);
}

#endif
