/*
 * ledger.h - what is live: one record an allocation or object, found by its handle.
 *
 * Records lie in the ledger file of this process image, where `cuward` reads them even after a
 * SIGKILL; the index handle -> record is private. A record is written as "allocating" before
 * the driver is asked and claimed ("freeing") before the driver is told, so at any moment of death
 * the truth lies within live +- in flight. Where the file cannot grow, records live on in private
 * memory and are counted as dropped: sums stay exact.
 */
#ifndef CUWARD_SHIM_LEDGER_H
#define CUWARD_SHIM_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "cuward/ledger.h"
#include "index.h"
#include "lock.h"

#define LEDGER_SPARES 32
#define LEDGER_NO_RECORD UINT32_MAX

/* Records at and above this number are private: the file could not grow. */
#define LEDGER_PRIVATE_FIRST (1u << 30)

/* Records a thread keeps for its next allocations, so that taking one needs no lock. */
struct ledger_spares {
	unsigned count;
	uint32_t record[LEDGER_SPARES];
};

/* Zero in a forked child. Here only for the functions below that are on the way of a call. */
struct ledger_memory {
	PAGE_COLOUR(2);
	char *base; /* the mapping: the ledger file, or private memory */
	struct ledger_header *header;
	struct ledger_record *records;
	struct ledger_record *private_records;
	uint64_t mapped_bytes;
	uint32_t refs_lock; /* of the counted records, see refs.h */
	uint32_t import_lock; /* taken before that: two imports of the same memory make one record */
	uint32_t lock;      /* of everything below */
	uint32_t allocated; /* records the file has room for */
	uint32_t private_count;
	uint32_t free_record; /* free list + 1, linked by `handle` */
	uint32_t threads_allocated;
	uint64_t sites_allocated;
	uint32_t growth_allocated;
	bool in_file;
	dev_t device;
	ino_t inode;
	char name[96];
	char job[128];
} WHOLE_PAGES;

extern struct ledger_memory ledger __attribute__((visibility("hidden")));

/*
 * Open this image's ledger: a file in the job's folder, or private memory with a sentence in `why`.
 * NULL only without any memory. The header holds `who` (with its image number) and zeros.
 */
struct ledger_header *ledger_open(const struct process_identity *who, char *why, size_t why_bytes);

/* Memory ran out before the ledger could even live in private memory. */
bool ledger_is_open(void);

/* Counters of the number-th thread; the last block is shared once there are too many. */
struct ledger_thread *ledger_thread(uint32_t number);

/* All thread blocks, header->thread_count of them. */
hot struct ledger_thread *ledger_threads(void)
{
	return (struct ledger_thread *)(ledger.base + LEDGER_THREADS_OFFSET);
}

/* More spares: from the free list, the file, or private memory. None is possible. */
void ledger_refill(struct ledger_spares *spares);
/* Half of a full set of spares goes where other threads find it. */
void ledger_spill(struct ledger_spares *spares);

hot struct ledger_record *ledger_record(uint32_t record)
{
	if (unlikely(record >= LEDGER_PRIVATE_FIRST))
		return &ledger.private_records[record - LEDGER_PRIVATE_FIRST];
	return &ledger.records[record];
}

/*
 * Whoever changes a record that is in the index, or may be looked at by a sweep that is about to see
 * that it is none of its own, stores with this; whoever copies one loads each of its words at once.
 */
#define set_field(field, value) __atomic_store_n(field, value, __ATOMIC_RELAXED)

hot void ledger_copy(struct ledger_record *copy, const struct ledger_record *record)
{
	uint64_t *to = (uint64_t *)copy;
	const uint64_t *from = (const uint64_t *)record;

	for (size_t i = 0; i < sizeof(*record) / sizeof(*from); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

hot void ledger_set_state(struct ledger_record *record, enum record_state state)
{
	__atomic_store_n(&record->state, state, __ATOMIC_RELEASE);
}

/*
 * A record for an allocation that the driver is about to be asked for: fill it in, its state last,
 * as RECORD_ALLOCATING. LEDGER_NO_RECORD only if there is no memory at all.
 */
hot uint32_t ledger_begin(struct ledger_spares *spares)
{
	uint32_t record;

	if (unlikely(spares->count == 0)) {
		ledger_refill(spares);
		if (spares->count == 0)
			return LEDGER_NO_RECORD;
	}
	record = spares->record[--spares->count];
	if (unlikely(record >= LEDGER_PRIVATE_FIRST))
		__atomic_fetch_add(&ledger.header->dropped_records, 1, __ATOMIC_RELAXED);
	return record;
}

/*
 * The driver agreed: live under this handle. Returns the record that was live under the same
 * handle (its memory must have gone unseen): now claimed, to be accounted for; else
 * LEDGER_NO_RECORD.
 */
hot uint32_t ledger_commit(uint32_t record, struct ledger_record *r, enum record_class class,
	uint64_t handle)
{
	uint32_t old;

	set_field(&r->handle, handle);
	ledger_set_state(r, RECORD_LIVE);
	old = index_insert(class, handle, record);
	if (unlikely(old != LEDGER_NO_RECORD))
		ledger_set_state(ledger_record(old), RECORD_FREEING);
	return old;
}

/* Take the live record of a handle out, before the driver is told. LEDGER_NO_RECORD: unknown. */
hot uint32_t ledger_claim(enum record_class class, uint64_t handle)
{
	uint32_t record = index_remove(class, handle);

	if (likely(record != LEDGER_NO_RECORD))
		ledger_set_state(ledger_record(record), RECORD_FREEING);
	return record;
}

/* Is the handle live? Copies its record. */
bool ledger_find(enum record_class class, uint64_t handle, struct ledger_record *copy);

/*
 * The driver refused: put a claimed record back. Its handle may stand for something newer by now: then
 * that is the answer, and the record stays claimed; else LEDGER_NO_RECORD.
 */
uint32_t ledger_restore(uint32_t record);

/* The record is done with: freed by the call that returns to `by`, or never came to life. */
hot void ledger_remove(struct ledger_spares *spares, uint32_t record, struct ledger_record *r,
	const void *by)
{
	if (unlikely(record >= LEDGER_PRIVATE_FIRST))
		__atomic_fetch_sub(&ledger.header->dropped_records, 1, __ATOMIC_RELAXED);
	if (likely(r->state == RECORD_FREEING))
		index_note_freed(index_key_of(r), by);
	ledger_set_state(r, RECORD_FREE);
	if (unlikely(spares->count == LEDGER_SPARES))
		ledger_spill(spares);
	spares->record[spares->count++] = record;
}

/* Was this handle freed a short while ago? By the call that returns to *by. */
bool ledger_was_freed(enum record_class class, uint64_t handle, const void **by);

/* Is there a live memory record that contains this address? Copies it. A search; for errors only. */
bool ledger_contains(uint64_t address, struct ledger_record *copy);

/* Handles of memory whose size is not known yet, one after the other; 0 at the end. */
uint64_t ledger_next_unsized(uint32_t *position);

/*
 * Claim, one after the other, the live records that `context` owns and that were made before epoch.
 * Start with *position = 0; LEDGER_NO_RECORD at the end.
 */
uint32_t ledger_claim_owned(uint64_t context, uint32_t epoch, uint32_t *position);
/* The same for one record, which may be something else by now. */
bool ledger_claim_if_owned(uint32_t record, uint64_t context, uint32_t epoch);

/*
 * Between stores and the loads that follow: whoever misses those stores has made his own before, and
 * these loads see them. On x86-64 a locked instruction must stand between, as in lock_take().
 */
hot void ledger_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Call sites that hold most of a device's charged memory, largest first. A search, for refusals only. */
void ledger_top_sites(uint8_t device, struct ledger_holder holders[LEDGER_HOLDERS]);

/* The same for live records of a class and kind with their handle in [start, start + bytes). */
uint32_t ledger_claim_within(enum record_class class, uint8_t kind, uint64_t start, uint64_t bytes,
	uint32_t *position);

/*
 * Append an entry to the call sites, with the bytes that follow it; `bytes` and `site` are filled in
 * here. Its id, 0 if there is no room.
 */
struct ledger_part {
	const void *at;
	size_t bytes;
};
uint32_t ledger_add_site(struct ledger_site *entry, const struct ledger_part parts[2]);

/* The number-th entry of growth; NULL if there is no room. */
struct ledger_growth *ledger_growth(uint32_t number);
/* The same for a number that there is. */
hot struct ledger_growth *ledger_growth_at(uint32_t number)
{
	return (struct ledger_growth *)(ledger.base + LEDGER_GROWTH_OFFSET) + number;
}

/* What the report is made from. */
struct ledger_view;
void ledger_view(struct ledger_view *view);

/* Remove the file: after an orderly end outside any run nobody reads it. */
void ledger_unlink(void);

/* Does a run read it after our end? Where a job was named by somebody else nobody does. */
bool ledger_is_of_run(void);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void ledger_forget(void);

#include "index_hot.h"

#endif
