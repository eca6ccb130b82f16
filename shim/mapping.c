/*
 * mapping.c - mappings of physical memory: at addresses, and in sparse arrays.
 */
#include "mapping.h"

#include "grant.h"
#include "ledger.h"

static uint64_t key(uint64_t address)
{
	return grant_object_key(OBJECT_MAPPING, address);
}

/* ---- one mapping ---- */

bool mapping_open(struct ref_change *change, uint64_t handle)
{
	return guest.header && (refs_open(change, CLASS_PHYSICAL, handle, REF_MAPPING, true) ||
		refs_open(change, CLASS_OBJECT, grant_object_key(OBJECT_MULTICAST, handle), REF_MAPPING,
			true));
}

static uint32_t add(const struct ref_change *change, uint64_t at, uint64_t bytes)
{
	uint8_t device = ledger_record(change->record)->device;
	uint32_t record = grant_object_created(OBJECT_MAPPING, at, device == UINT8_MAX ? -1 : device,
		NULL);

	if (record != LEDGER_NO_RECORD) {
		set_field(&ledger_record(record)->bytes, bytes);
		set_field(&ledger_record(record)->link, change->record + 1);
	}
	return record;
}

void mapping_done(struct ref_change *change, bool done, uint64_t address, uint64_t bytes)
{
	if (done)
		add(change, address, bytes);
	if (refs_close(change, done))
		grant_gone(change->record);
}

/* ---- chains of them ---- */

/* Sweeps of contexts look at records of any kind, until they see that they own nothing. */
static void set_next(struct ledger_record *mapping, uint64_t next)
{
	set_field(&mapping->context, next);
}

/* One more of an array that nobody else knows, or with the lock of references held. */
static void list(uint32_t array, uint32_t mapping)
{
	set_next(ledger_record(mapping - 1), ledger_record(array)->link);
	set_field(&ledger_record(array)->link, mapping);
}

/* The mapping is claimed; what it refers to loses one, in the first half of that. */
static void take(struct mapping_chain *chain, uint32_t record)
{
	struct ledger_record *mapping = ledger_record(record);
	struct ref_change change;

	if (mapping->link && !refs_open_record(&change, mapping->link - 1, REF_MAPPING, false))
		set_field(&mapping->link, 0);
	set_next(mapping, chain->first);
	chain->first = record + 1;
}

/* Nothing was unmapped. Where the address is mapped anew already, somebody else did that. */
static bool put_back(uint32_t record)
{
	struct ref_change change;
	uint32_t link = ledger_record(record)->link;

	if (ledger_restore(record) == LEDGER_NO_RECORD)
		return true;
	if (link && refs_open_record(&change, link - 1, REF_MAPPING, false) && refs_close(&change, true))
		grant_gone(change.record);
	grant_gone(record);
	return false;
}

static bool whole_within(const struct ledger_record *mapping, uint64_t end)
{
	return mapping->bytes <= end - mapping->handle;
}

/* Mappings side by side, as every guest known makes them. Where they end. */
static uint64_t take_row(struct mapping_chain *chain, uint64_t at, uint64_t end)
{
	while (at < end) {
		uint32_t record = ledger_claim(CLASS_OBJECT, at);
		uint64_t bytes;

		if (record == LEDGER_NO_RECORD)
			break;
		if (!whole_within(ledger_record(record), end)) {
			put_back(record);
			break;
		}
		bytes = ledger_record(record)->bytes;
		take(chain, record);
		if (!bytes)
			break;
		at += bytes;
	}
	return at;
}

void mapping_open_range(struct mapping_chain *chain, uint64_t address, uint64_t bytes)
{
	uint64_t at = key(address);
	uint64_t end = at + bytes;
	uint32_t position = 0;
	uint32_t record;

	*chain = (struct mapping_chain){ .array = LEDGER_NO_RECORD };
	if (!guest.header)
		return;
	at = take_row(chain, at, end);
	/* A hole, a cut mapping, or nothing of ours: the driver judges; what it may accept is claimed. */
	while (at < end && (record = ledger_claim_within(CLASS_OBJECT, OBJECT_MAPPING, at, end - at,
		&position)) != LEDGER_NO_RECORD) {
		if (whole_within(ledger_record(record), end))
			take(chain, record);
		else
			put_back(record);
	}
}

void mapping_close(struct mapping_chain *chain, bool done)
{
	uint32_t next;

	for (uint32_t at = chain->first; at; at = next) {
		struct ledger_record *mapping = ledger_record(at - 1);
		struct ref_change change = { .record = mapping->link - 1, .what = REF_MAPPING,
			.moved = LEDGER_NO_RECORD };
		bool last = mapping->link && refs_close(&change, done);

		if (change.moved != LEDGER_NO_RECORD)
			set_field(&mapping->link, change.moved + 1);
		next = mapping->context;
		set_next(mapping, 0);
		if (done)
			grant_gone(at - 1);
		else if (put_back(at - 1) && chain->array != LEDGER_NO_RECORD)
			list(chain->array, at);
		if (last)
			grant_gone(change.record);
		else if (chain->lost && mapping->link && ledger_record(mapping->link - 1)->refs == 0)
			ledger_set_state(ledger_record(mapping->link - 1), RECORD_LOST);
	}
}

/* ---- sparse arrays: the array's record holds its mappings in a list ---- */

/* Where a region begins, in one number; levels and layers are few, tiles are counted in elements. */
static uint64_t place(const struct mapping_region *region)
{
	return (uint64_t)region->tail << 63 | (uint64_t)(region->level & 31) << 58 |
		(uint64_t)(region->layer & 0xfff) << 46 |
		(region->tail ? region->from[0] & ((1ull << 46) - 1) :
		(region->from[0] & 0x1ffff) << 29 | (region->from[1] & 0x1ffff) << 12 |
		(region->from[2] & 0xfff));
}

static bool in_range(uint64_t at, const struct mapping_region *region, int axis)
{
	return at - region->from[axis] < (region->extent[axis] ? region->extent[axis] : 1);
}

static bool begins_within(uint64_t where, const struct mapping_region *region)
{
	if (where >> 46 != place(region) >> 46)
		return false;
	if (region->tail)
		return in_range(where & ((1ull << 46) - 1), region, 0);
	return in_range(where >> 29 & 0x1ffff, region, 0) && in_range(where >> 12 & 0x1ffff, region, 1) &&
		in_range(where & 0xfff, region, 2);
}

/* Objects are found by handle; nobody looks these up, they only have to differ. */
static uint64_t unique(uint32_t array, uint64_t where)
{
	return (where * 0x9e3779b97f4a7c15ull ^ array) | 1ull << 55;
}

/* Out of the index, if it is still there. */
static bool claim_mapping(uint32_t record)
{
	uint32_t claimed = ledger_claim(CLASS_OBJECT, ledger_record(record)->handle);

	if (unlikely(claimed != record && claimed != LEDGER_NO_RECORD))
		put_back(claimed);
	return claimed == record;
}

/*
 * Take those of the list that begin within the region, all without one. The array is claimed, or the one
 * that is `of`, if that is still so.
 */
static void take_listed(struct mapping_chain *chain, uint32_t array, const struct mapping_array *of,
	const struct mapping_region *region)
{
	uint64_t taken = 0, keep = 0, next;

	lock_take(&ledger.refs_lock);
	if (of && index_lookup(of->class, of->handle) != array) {
		lock_give_back(&ledger.refs_lock);
		return;
	}
	for (uint64_t at = ledger_record(array)->link; at; at = next) {
		struct ledger_record *mapping = ledger_record(at - 1);
		bool wanted = !region || begins_within(mapping->bytes, region);

		next = mapping->context;
		set_next(mapping, wanted ? taken : keep);
		if (wanted)
			taken = at;
		else
			keep = at;
	}
	set_field(&ledger_record(array)->link, keep);
	lock_give_back(&ledger.refs_lock);
	for (uint64_t at = taken; at; at = next) {
		next = ledger_record(at - 1)->context;
		if (claim_mapping(at - 1))
			take(chain, at - 1);
	}
}

void mapping_array_remove(const struct mapping_array *of, const struct mapping_region *region)
{
	struct mapping_chain chain = { .array = LEDGER_NO_RECORD };
	uint32_t array = index_lookup(of->class, of->handle);

	if (array == LEDGER_NO_RECORD)
		return;
	take_listed(&chain, array, of, region);
	mapping_close(&chain, true);
}

/* It may be destroyed by another thread, and with it the list: then the mapping is gone, too. */
static bool list_if_there(const struct mapping_array *of, uint32_t array, uint32_t mapping)
{
	bool there;

	lock_take(&ledger.refs_lock);
	there = index_lookup(of->class, of->handle) == array;
	if (there)
		list(array, mapping);
	lock_give_back(&ledger.refs_lock);
	return there;
}

void mapping_array_add(const struct mapping_array *of, const struct mapping_region *region,
	uint64_t handle)
{
	uint32_t array = index_lookup(of->class, of->handle);
	struct ref_change change;
	uint32_t record;
	bool known;

	if (array == LEDGER_NO_RECORD)
		return;
	/* The same memory may lie there, held by nothing else. */
	known = mapping_open(&change, handle);
	mapping_array_remove(of, region);
	if (!known)
		return;
	record = add(&change, unique(array, place(region)), place(region));
	refs_close(&change, true);
	if (record != LEDGER_NO_RECORD && !list_if_there(of, array, record + 1)) {
		struct mapping_chain chain = { .array = LEDGER_NO_RECORD };

		if (claim_mapping(record))
			take(&chain, record);
		mapping_close(&chain, true);
	}
}

void mapping_array_gone(uint32_t array)
{
	struct mapping_chain chain = { .array = LEDGER_NO_RECORD };

	take_listed(&chain, array, NULL, NULL);
	mapping_close(&chain, true);
}

void mapping_open_array(struct mapping_chain *chain, uint32_t array)
{
	*chain = (struct mapping_chain){ .array = array };
	if (array != LEDGER_NO_RECORD && unlikely(ledger_record(array)->link))
		take_listed(chain, array, NULL, NULL);
}
