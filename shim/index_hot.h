/*
 * index_hot.h - the functions of index.h that look into records. Included by ledger.h, at its end.
 */
hot uint64_t index_key_of(const struct ledger_record *record)
{
	return index_key(record->class, record->handle);
}

hot uint32_t index_probe(const struct index_shard *shard, uint32_t tag, uint64_t key)
{
	uint32_t i = index_home(shard, tag);

	for (; shard->table[i].record; i = (i + 1) & index_mask(shard)) {
		if (shard->table[i].tag == tag &&
		    likely(index_key_of(ledger_record(shard->table[i].record - 1)) == key))
			break;
	}
	return i;
}

hot uint32_t index_insert(enum record_class class, uint64_t handle, uint32_t record)
{
	uint64_t key = index_key(class, handle);
	uint32_t tag = index_tag(key);
	struct index_shard *shard = index_shard(tag);
	uint32_t old = LEDGER_NO_RECORD;

	lock_take(&shard->lock);
	if (likely(shard->count < shard->limit) || index_grow(shard)) {
		struct index_entry *entry = &shard->table[index_probe(shard, tag, key)];

		if (unlikely(entry->record))
			old = entry->record - 1;
		else
			shard->count++;
		*entry = (struct index_entry){ tag, record + 1 };
	}
	lock_give_back(&shard->lock);
	return old;
}

hot uint32_t index_lookup(enum record_class class, uint64_t handle)
{
	uint64_t key = index_key(class, handle);
	uint32_t tag = index_tag(key);
	struct index_shard *shard = index_shard(tag);
	uint32_t record;

	lock_take(&shard->lock);
	record = shard->table[index_probe(shard, tag, key)].record;
	lock_give_back(&shard->lock);
	return record ? record - 1 : LEDGER_NO_RECORD;
}

/* Close the gap at i: move up what would not be found behind it any more. */
static __attribute__((noinline, unused)) void index_close_gap(struct index_shard *shard, uint32_t i)
{
	uint32_t mask = index_mask(shard);

	for (uint32_t j = (i + 1) & mask; shard->table[j].record; j = (j + 1) & mask) {
		uint32_t home = index_home(shard, shard->table[j].tag);

		if (((j - home) & mask) >= ((j - i) & mask)) {
			shard->table[i] = shard->table[j];
			i = j;
		}
	}
	shard->table[i].record = 0;
}

/* Take the entry of a key out; the shard's lock is held. LEDGER_NO_RECORD: there is none. */
hot uint32_t index_take(struct index_shard *shard, uint64_t key)
{
	uint32_t i = index_probe(shard, index_tag(key), key);
	uint32_t record;

	if (unlikely(!shard->table[i].record))
		return LEDGER_NO_RECORD;
	record = shard->table[i].record - 1;
	shard->count--;
	if (likely(!shard->table[(i + 1) & index_mask(shard)].record))
		shard->table[i].record = 0;
	else
		index_close_gap(shard, i);
	return record;
}

/* Does the key stand for this very record? The shard's lock is held. */
hot bool index_holds(const struct index_shard *shard, uint64_t key, uint32_t record)
{
	return shard->table[index_probe(shard, index_tag(key), key)].record == record + 1;
}

hot uint32_t index_remove(enum record_class class, uint64_t handle)
{
	uint64_t key = index_key(class, handle);
	struct index_shard *shard = index_shard(index_tag(key));
	uint32_t record;

	lock_take(&shard->lock);
	record = index_take(shard, key);
	lock_give_back(&shard->lock);
	return record;
}
