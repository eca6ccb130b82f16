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

#include "cuward/ledger.h"

#define LEDGER_SPARES 32
#define LEDGER_NO_RECORD UINT32_MAX

/* Records a thread keeps for its next allocations, so that taking one needs no lock. */
struct ledger_spares {
	unsigned count;
	uint32_t record[LEDGER_SPARES];
};

/*
 * Open this image's ledger: a file in the job's folder, or private memory with a sentence in `why`.
 * NULL only without any memory. The header holds `who` (with its image number) and zeros.
 */
struct ledger_header *ledger_open(const struct process_identity *who, char *why, size_t why_bytes);

/* Memory ran out before the ledger could even live in private memory. */
bool ledger_is_open(void);

/* Counters of the number-th thread; the last block is shared once there are too many. */
struct ledger_thread *ledger_thread(uint32_t number);

/* A record for an allocation that the driver is about to be asked for. Fill it in, but not its
 * state. LEDGER_NO_RECORD only if there is no memory at all. */
uint32_t ledger_begin(struct ledger_spares *spares);
struct ledger_record *ledger_record(uint32_t record);

/* The driver was asked: the record is in flight with what it says of bytes and kind. */
void ledger_asking(uint32_t record);

/*
 * The driver agreed: live under this handle. Returns the record that was live under the same
 * handle (its memory must have gone unseen): now claimed, to be accounted for; else
 * LEDGER_NO_RECORD.
 */
uint32_t ledger_commit(uint32_t record, uint64_t handle);

/* Take the live record of a handle out, before the driver is told. LEDGER_NO_RECORD: unknown. */
uint32_t ledger_claim(enum record_class class, uint64_t handle);

/* Is the handle live? Copies its record. */
bool ledger_find(enum record_class class, uint64_t handle, struct ledger_record *copy);

/* The driver refused: put a claimed record back. */
void ledger_restore(uint32_t record);

/* The record is done with: freed, or never came to life. */
void ledger_remove(struct ledger_spares *spares, uint32_t record);

/* Was this handle freed a short while ago? */
bool ledger_was_freed(enum record_class class, uint64_t handle);

/* Is there a live memory record that contains this address? A search; for errors only. */
bool ledger_contains(uint64_t address);

/*
 * Claim, one after the other, the live records that `context` owns and that were made before epoch.
 * Start with *position = 0; LEDGER_NO_RECORD at the end.
 */
uint32_t ledger_claim_owned(uint64_t context, uint32_t epoch, uint32_t *position);

/* Append a call site; its id, 0 if there is no room. */
uint32_t ledger_add_site(uint64_t address, uint64_t offset, const char *module,
	const char *function, uint64_t function_offset);

/* What the report is made from. */
struct ledger_view;
void ledger_view(struct ledger_view *view);

/* Remove the file: after an orderly end outside any run nobody reads it. */
void ledger_unlink(void);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void ledger_forget(void);

#endif
