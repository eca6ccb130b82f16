/*
 * fault.c - frees that went wrong, with both places that have to do with it.
 */
#include "fault.h"

#include "site.h"

/* The search behind it looks at every record; a program that does it always must not crawl. */
#define INTERIOR_MAX 64

static bool same_fault(const struct ledger_fault *a, const struct ledger_fault *b)
{
	return a->finding == b->finding && a->api == b->api && a->site == b->site &&
		a->other_site == b->other_site;
}

static void enter(const struct ledger_fault *fault)
{
	struct ledger_fault *entries = guest.header->faults;

	lock_take(&guest.lock);
	for (unsigned i = 0; i < LEDGER_FAULTS_MAX; i++) {
		if (!entries[i].present) {
			entries[i] = *fault;
			__atomic_store_n(&entries[i].present, 1, __ATOMIC_RELEASE);
			break;
		}
		if (same_fault(&entries[i], fault)) {
			entries[i].count++;
			entries[i].time_ns = fault->time_ns;
			break;
		}
	}
	lock_give_back(&guest.lock);
}

static void note(struct thread *thread, enum cuward_finding finding, struct ledger_fault *fault)
{
	guest_find(finding);
	fault->count = 1;
	fault->time_ns = guest_realtime_ns();
	fault->site = site_of(thread->caller, thread->frame);
	fault->api = thread->call - THREAD_CALL(0);
	fault->finding = finding;
	enter(fault);
}

void fault_note(struct thread *thread, enum cuward_finding finding, uint64_t handle,
	const struct ledger_record *allocation)
{
	struct ledger_fault fault = { .pointer = handle };

	if (!guest.header)
		return;
	if (allocation) {
		fault.bytes = allocation->bytes;
		fault.other_site = allocation->site;
	}
	note(thread, finding, &fault);
}

/* Physical memory that only its mappings keep: the handle was given back before. */
static bool only_mapped(enum record_class class, uint64_t handle)
{
	struct ledger_record record;

	return class == CLASS_PHYSICAL && ledger_find(class, handle, &record) && record.refs == 0;
}

void fault_explain(struct thread *thread, enum record_class class, uint64_t handle)
{
	struct ledger_fault fault = { .pointer = handle };
	struct ledger_record inside;
	const void *by;

	if (ledger_was_freed(class, handle, &by)) {
		fault.other_site = site_of_address(by);
		note(thread, FINDING_DOUBLE_FREE, &fault);
	} else if (only_mapped(class, handle)) {
		note(thread, FINDING_DOUBLE_FREE, &fault);
	} else if (class == CLASS_MEMORY &&
		__atomic_load_n(&guest.header->findings[FINDING_INTERIOR_FREE], __ATOMIC_RELAXED) <
			INTERIOR_MAX && ledger_contains(handle, &inside)) {
		fault_note(thread, FINDING_INTERIOR_FREE, handle, &inside);
	} else {
		note(thread, FINDING_INVALID_FREE, &fault);
	}
}
