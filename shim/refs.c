/*
 * refs.c - counts of references, each change in two halves around a driver call.
 */
#include "refs.h"

#include "ledger.h"

static uint32_t *counter(struct ledger_record *record, enum ref what)
{
	return what == REF_MAPPING ? &record->mappings : &record->refs;
}

static bool nobody_left(const struct ledger_record *record)
{
	return record->refs == 0 && record->mappings == 0;
}

static bool is_gone(const struct ledger_record *record)
{
	return record->flags & RECORD_GONE;
}

static void less(struct ledger_record *record, enum ref what)
{
	if (is_gone(record))
		return;
	set_field(counter(record, what), *counter(record, what) - 1);
	if (nobody_left(record) && record->state == RECORD_LIVE)
		ledger_claim(record->class, record->handle);
}

/* Memory of others that the driver hands out twice has one handle; and one record, mostly. */
static bool same_memory(const struct ledger_record *a, const struct ledger_record *b)
{
	return a->kind == KIND_IMPORTED && b->kind == KIND_IMPORTED && a->class == b->class &&
		a->handle == b->handle && a->context == b->context && !is_gone(b);
}

/*
 * Put back, unless the handle stands for something newer. That may be the same memory: opened again by
 * another thread while the last close was under way, which then failed. What is counted here belongs
 * there then.
 */
static void put_back(struct ledger_record *record, uint32_t number, uint32_t *moved)
{
	uint32_t other = ledger_restore(number);

	if (other == LEDGER_NO_RECORD)
		return;
	if (same_memory(record, ledger_record(other))) {
		set_field(&ledger_record(other)->refs, ledger_record(other)->refs + record->refs);
		set_field(&ledger_record(other)->mappings, ledger_record(other)->mappings + record->mappings);
		*moved = other;
	}
	set_field(&record->refs, 0);
	set_field(&record->mappings, 0);
}

static void more(struct ledger_record *record, uint32_t number, enum ref what, uint32_t *moved)
{
	if (is_gone(record))
		return;
	set_field(counter(record, what), *counter(record, what) + 1);
	if (record->state == RECORD_FREEING)
		put_back(record, number, moved);
}

static bool open_locked(struct ref_change *change, uint32_t record)
{
	struct ledger_record *r;

	if (record == LEDGER_NO_RECORD)
		return false;
	r = ledger_record(record);
	/* A release too many, or of a handle that just died: the driver will say so. */
	if (r->state != RECORD_LIVE || (!change->more && *counter(r, change->what) == 0))
		return false;
	change->record = record;
	set_field(&r->pending, r->pending + 1);
	if (change->more)
		more(r, record, change->what, &change->moved);
	else
		less(r, change->what);
	return true;
}

bool refs_open(struct ref_change *change, enum record_class class, uint64_t handle, enum ref what,
	bool is_more)
{
	bool found;

	*change = (struct ref_change){ .record = LEDGER_NO_RECORD, .what = what, .more = is_more,
		.moved = LEDGER_NO_RECORD };
	lock_take(&ledger.refs_lock);
	found = open_locked(change, index_lookup(class, handle));
	lock_give_back(&ledger.refs_lock);
	return found;
}

bool refs_open_again(struct ref_change *change, enum record_class class, uint64_t handle,
	uint64_t context)
{
	uint32_t record;
	bool found;

	*change = (struct ref_change){ .record = LEDGER_NO_RECORD, .what = REF_HANDLE, .more = true,
		.moved = LEDGER_NO_RECORD };
	lock_take(&ledger.refs_lock);
	record = index_lookup(class, handle);
	found = record != LEDGER_NO_RECORD && (ledger_record(record)->kind != KIND_IMPORTED ||
		ledger_record(record)->context == context) && open_locked(change, record);
	lock_give_back(&ledger.refs_lock);
	return found;
}

bool refs_open_record(struct ref_change *change, uint32_t record, enum ref what, bool is_more)
{
	bool found;

	*change = (struct ref_change){ .record = LEDGER_NO_RECORD, .what = what, .more = is_more,
		.moved = LEDGER_NO_RECORD };
	lock_take(&ledger.refs_lock);
	found = open_locked(change, record);
	lock_give_back(&ledger.refs_lock);
	return found;
}

bool refs_close(struct ref_change *change, bool done)
{
	struct ledger_record *r;
	bool last;

	change->moved = LEDGER_NO_RECORD;
	if (change->record == LEDGER_NO_RECORD)
		return false;
	r = ledger_record(change->record);
	lock_take(&ledger.refs_lock);
	set_field(&r->pending, r->pending - 1);
	if (!done && change->more)
		less(r, change->what);
	else if (!done)
		more(r, change->record, change->what, &change->moved);
	last = r->pending == 0 && (is_gone(r) || (r->state == RECORD_FREEING && nobody_left(r)));
	lock_give_back(&ledger.refs_lock);
	return last;
}

bool refs_gone(uint32_t record)
{
	struct ledger_record *r = ledger_record(record);
	bool last;

	lock_take(&ledger.refs_lock);
	last = r->pending == 0;
	set_field(&r->flags, r->flags | RECORD_GONE);
	lock_give_back(&ledger.refs_lock);
	return last;
}
