/*
 * index.c - handle -> record: linear probing with backward-shift deletion, 8 shards.
 *
 * The upper bits of a 32-bit tag give the place in a table, the lower ones the shard; the tag
 * stands in the entry, so that tables grow and close gaps without touching a record.
 */
#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

#include "share.h"

#define FIRST_BITS 9 /* one page */

struct index_memory handles;

bool index_open(void)
{
	const size_t bytes = sizeof(struct index_entry) << FIRST_BITS;
	char *tables = share_private(INDEX_SHARDS * bytes + INDEX_FREED * sizeof(struct index_freed));

	share_wipe_on_fork(&handles, sizeof(handles));
	if (!tables)
		return false;
	for (int i = 0; i < INDEX_SHARDS; i++) {
		handles.shards[i].shift = 32 - FIRST_BITS;
		handles.shards[i].limit = (1u << FIRST_BITS) / 8 * 5;
		handles.shards[i].table = (struct index_entry *)(tables + i * bytes);
	}
	handles.freed = (struct index_freed *)(tables + INDEX_SHARDS * bytes);
	return true;
}

static void place(struct index_shard *shard, struct index_entry entry)
{
	uint32_t mask = index_mask(shard);
	uint32_t i = index_home(shard, entry.tag);

	while (shard->table[i].record)
		i = (i + 1) & mask;
	shard->table[i] = entry;
}

/* Where memory ran out the table fills further, up to its last free place. */
bool index_grow(struct index_shard *shard)
{
	uint32_t places = index_mask(shard) + 1;
	struct index_shard grown = *shard;

	grown.shift--;
	grown.table = share_private_large(2 * places * sizeof(struct index_entry));
	if (!grown.table) {
		shard->limit = places - 1;
		return shard->count < shard->limit;
	}
	for (uint32_t i = 0; i < places; i++) {
		if (shard->table[i].record)
			place(&grown, shard->table[i]);
	}
	if (places > 1u << FIRST_BITS)
		munmap(shard->table, places * sizeof(struct index_entry));
	shard->table = grown.table;
	shard->shift = grown.shift;
	shard->limit = places / 4 * 5;
	return true;
}

bool index_find(enum record_class class, uint64_t handle, struct ledger_record *copy)
{
	uint64_t key = index_key(class, handle);
	uint32_t tag = index_tag(key);
	struct index_shard *shard = index_shard(tag);
	uint32_t record;

	lock_take(&shard->lock);
	record = shard->table[index_probe(shard, tag, key)].record;
	if (record)
		ledger_copy(copy, ledger_record(record - 1));
	lock_give_back(&shard->lock);
	return record != 0;
}

bool index_change(enum record_class class, uint64_t handle,
	void (*change)(struct ledger_record *record, void *how), void *how)
{
	uint64_t key = index_key(class, handle);
	uint32_t tag = index_tag(key);
	struct index_shard *shard = index_shard(tag);
	uint32_t record;

	lock_take(&shard->lock);
	record = shard->table[index_probe(shard, tag, key)].record;
	if (record)
		change(ledger_record(record - 1), how);
	lock_give_back(&shard->lock);
	return record != 0;
}

uint32_t index_put_back(enum record_class class, uint64_t handle, uint32_t record)
{
	uint64_t key = index_key(class, handle);
	uint32_t tag = index_tag(key);
	struct index_shard *shard = index_shard(tag);
	uint32_t other = LEDGER_NO_RECORD;

	lock_take(&shard->lock);
	if (shard->count < shard->limit || index_grow(shard)) {
		struct index_entry *entry = &shard->table[index_probe(shard, tag, key)];

		if (entry->record) {
			other = entry->record - 1;
		} else {
			shard->count++;
			*entry = (struct index_entry){ tag, record + 1 };
		}
	}
	lock_give_back(&shard->lock);
	return other;
}

void index_forget(void)
{
	memset(&handles, 0, sizeof(handles));
}
