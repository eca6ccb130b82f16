/*
 * index.c - handle -> record: linear probing with backward-shift deletion, 16 shards.
 *
 * The upper bits of a 32-bit tag give the place in a table, the lower ones the shard; the tag
 * stands in the entry, so that tables grow and close gaps without touching a record.
 */
#include "index.h"

#include <string.h>
#include <sys/mman.h>

#include "ledger.h"
#include "lock.h"
#include "share.h"

#define SHARDS 16
#define FIRST_BITS 9 /* one page */
#define FREED 4096

struct entry {
	uint32_t tag;
	uint32_t record; /* + 1, 0 for an empty place */
};

struct shard {
	uint32_t lock;
	uint32_t bits;
	uint32_t count;
	struct entry *table;
} __attribute__((aligned(64)));

static struct {
	struct shard shards[SHARDS];
	uint64_t *freed;
} handles __attribute__((aligned(4096)));

static uint64_t key_of(enum record_class class, uint64_t handle)
{
	return handle ^ (uint64_t)class << 61;
}

static uint32_t tag_of(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

static struct shard *shard_of(uint32_t tag)
{
	return &handles.shards[tag % SHARDS];
}

static uint32_t home_of(const struct shard *shard, uint32_t tag)
{
	return tag >> (32 - shard->bits);
}

bool index_open(void)
{
	const size_t bytes = sizeof(struct entry) << FIRST_BITS;
	char *tables = share_private(SHARDS * bytes + FREED * sizeof(uint64_t));

	share_wipe_on_fork(&handles, sizeof(handles));
	if (!tables)
		return false;
	for (int i = 0; i < SHARDS; i++) {
		handles.shards[i].bits = FIRST_BITS;
		handles.shards[i].table = (struct entry *)(tables + i * bytes);
	}
	handles.freed = (uint64_t *)(tables + SHARDS * bytes);
	return true;
}

static void place(struct shard *shard, struct entry entry)
{
	uint32_t mask = (1u << shard->bits) - 1;
	uint32_t i = home_of(shard, entry.tag);

	while (shard->table[i].record)
		i = (i + 1) & mask;
	shard->table[i] = entry;
}

/* At 5/8 full; where memory ran out the table fills further, up to its last free place. */
static bool make_room(struct shard *shard)
{
	uint32_t places = 1u << shard->bits;
	struct shard grown = *shard;

	if (likely(shard->count < places / 8 * 5))
		return true;
	grown.bits++;
	grown.table = share_private(sizeof(struct entry) << grown.bits);
	if (!grown.table)
		return shard->count < places - 1;
	for (uint32_t i = 0; i < places; i++) {
		if (shard->table[i].record)
			place(&grown, shard->table[i]);
	}
	if (shard->bits > FIRST_BITS)
		munmap(shard->table, sizeof(struct entry) << shard->bits);
	shard->table = grown.table;
	shard->bits = grown.bits;
	return true;
}

/* The place of a key, or of the gap where it would stand. */
static uint32_t probe(const struct shard *shard, uint32_t tag, uint64_t key)
{
	uint32_t mask = (1u << shard->bits) - 1;
	uint32_t i = home_of(shard, tag);

	for (; shard->table[i].record; i = (i + 1) & mask) {
		if (shard->table[i].tag == tag) {
			const struct ledger_record *r = ledger_record(shard->table[i].record - 1);

			if (key_of(r->class, r->handle) == key)
				break;
		}
	}
	return i;
}

uint32_t index_insert(enum record_class class, uint64_t handle, uint32_t record)
{
	uint64_t key = key_of(class, handle);
	uint32_t tag = tag_of(key);
	struct shard *shard = shard_of(tag);
	uint32_t old = LEDGER_NO_RECORD;

	lock_take(&shard->lock);
	if (likely(make_room(shard))) {
		struct entry *entry = &shard->table[probe(shard, tag, key)];

		if (unlikely(entry->record))
			old = entry->record - 1;
		else
			shard->count++;
		*entry = (struct entry){ tag, record + 1 };
	}
	lock_give_back(&shard->lock);
	return old;
}

/* Close the gap at i: move up what would not be found behind it any more. */
static void close_gap(struct shard *shard, uint32_t i)
{
	uint32_t mask = (1u << shard->bits) - 1;

	for (uint32_t j = (i + 1) & mask; shard->table[j].record; j = (j + 1) & mask) {
		uint32_t home = home_of(shard, shard->table[j].tag);

		if (((j - home) & mask) >= ((j - i) & mask)) {
			shard->table[i] = shard->table[j];
			i = j;
		}
	}
	shard->table[i].record = 0;
}

uint32_t index_remove(enum record_class class, uint64_t handle)
{
	uint64_t key = key_of(class, handle);
	uint32_t tag = tag_of(key);
	struct shard *shard = shard_of(tag);
	uint32_t record = LEDGER_NO_RECORD;
	uint32_t i;

	lock_take(&shard->lock);
	i = probe(shard, tag, key);
	if (likely(shard->table[i].record)) {
		record = shard->table[i].record - 1;
		shard->count--;
		close_gap(shard, i);
	}
	lock_give_back(&shard->lock);
	return record;
}

bool index_find(enum record_class class, uint64_t handle, struct ledger_record *copy)
{
	uint64_t key = key_of(class, handle);
	uint32_t tag = tag_of(key);
	struct shard *shard = shard_of(tag);
	uint32_t record;

	lock_take(&shard->lock);
	record = shard->table[probe(shard, tag, key)].record;
	if (record)
		*copy = *ledger_record(record - 1);
	lock_give_back(&shard->lock);
	return record != 0;
}

void index_note_freed(enum record_class class, uint64_t handle)
{
	uint64_t key = key_of(class, handle);

	__atomic_store_n(&handles.freed[tag_of(key) % FREED], key, __ATOMIC_RELAXED);
}

bool index_was_freed(enum record_class class, uint64_t handle)
{
	uint64_t key = key_of(class, handle);

	return __atomic_load_n(&handles.freed[tag_of(key) % FREED], __ATOMIC_RELAXED) == key;
}

void index_forget(void)
{
	memset(&handles, 0, sizeof(handles));
}
