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

static void less(struct ledger_record *record, enum ref what)
{
	--*counter(record, what);
	if (nobody_left(record) && record->state == RECORD_LIVE)
		ledger_claim(record->class, record->handle);
}

static void more(struct ledger_record *record, uint32_t number, enum ref what)
{
	++*counter(record, what);
	if (record->state == RECORD_FREEING)
		ledger_restore(number);
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
	r->pending++;
	if (change->more)
		more(r, record, change->what);
	else
		less(r, change->what);
	return true;
}

bool refs_open(struct ref_change *change, enum record_class class, uint64_t handle, enum ref what,
	bool is_more)
{
	bool found;

	*change = (struct ref_change){ .record = LEDGER_NO_RECORD, .what = what, .more = is_more };
	lock_take(&ledger.refs_lock);
	found = open_locked(change, index_lookup(class, handle));
	lock_give_back(&ledger.refs_lock);
	return found;
}

bool refs_open_record(struct ref_change *change, uint32_t record, enum ref what, bool is_more)
{
	bool found;

	*change = (struct ref_change){ .record = LEDGER_NO_RECORD, .what = what, .more = is_more };
	lock_take(&ledger.refs_lock);
	found = open_locked(change, record);
	lock_give_back(&ledger.refs_lock);
	return found;
}

bool refs_close(struct ref_change *change, bool done)
{
	struct ledger_record *r;
	bool last;

	if (change->record == LEDGER_NO_RECORD)
		return false;
	r = ledger_record(change->record);
	lock_take(&ledger.refs_lock);
	r->pending--;
	if (!done && change->more)
		less(r, change->what);
	else if (!done)
		more(r, change->record, change->what);
	last = r->state == RECORD_FREEING && nobody_left(r) && r->pending == 0;
	lock_give_back(&ledger.refs_lock);
	return last;
}
