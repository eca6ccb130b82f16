/*
 * grant.h - the order of things for a call that takes or frees memory, written once:
 *
 *	take:  quota -> record in flight -> driver -> true up -> record live -> trace
 *	free:  record claimed -> driver -> record gone -> quota -> trace
 *
 * A hook opens, calls the driver, and closes with the driver's answer; see hook_mem.c.
 */
#ifndef CUWARD_GRANT_H
#define CUWARD_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "guest.h"
#include "refs.h"

struct grant {
	struct thread *thread;
	uint64_t bytes;
	uint64_t stream;   /* for the trace */
	uint64_t began_ns; /* CPU clock, only when traced */
	struct ledger_record *at; /* its record, NULL without one, ... */
	uint32_t record;          /* ... and that one's number */
	int32_t device;    /* index, -1 unknown */
	uint8_t kind;
	uint8_t flags;     /* of its record, as far as they say what it counts against */
};

/* What a request is for, where it is not plain memory of the current device. */
struct grant_request {
	enum cuward_kind kind;
	enum record_class class;
	uint64_t bytes;
	int device;        /* index, -1 unknown */
	CUcontext context; /* that owns it, NULL if none does */
	bool charged;      /* counts against the device's limit */
	bool pooled;       /* and so does what its pool keeps of it: */
	uint64_t pool;     /* this one, 0 the device's own */
	uint64_t stream;
};

/*
 * May the current device give `bytes`? CUDA_SUCCESS: call the driver, then grant_close().
 * CUDA_ERROR_OUT_OF_MEMORY: refused, noted and traced; do not call the driver and do not close.
 */
CUresult grant_open(struct grant *grant, enum cuward_kind kind, uint64_t bytes);
CUresult grant_open_for(struct grant *grant, const struct grant_request *request);

/*
 * The size became known to be another one. False: that is over the limit; the refusal is noted, the
 * caller frees the memory and closes with CUDA_ERROR_OUT_OF_MEMORY.
 */
bool grant_resize(struct grant *grant, uint64_t bytes);

/* Imports whose size the driver could not be asked for: look again, if it may be asked now. */
void grant_imports_look(void);

/* The driver answered. Returns its answer. */
CUresult grant_close(struct grant *grant, CUresult result, uint64_t handle);

/* The driver agreed, but to something that is accounted for already. */
void grant_withdraw(struct grant *grant);

/*
 * A live record turned out to be at least this large. Never refused; `reserved` bytes were taken for it
 * before with grant_reserve(), and are given back as far as they are not needed.
 */
void grant_grow(uint32_t record, uint64_t bytes, uint64_t reserved);

/* How much more the device would have to give for this. Over the limit: noted, refused. */
CUresult grant_would_fit(int device, uint64_t bytes);

/* One try, without waiting and without a word. */
bool grant_take_once(const struct asker *asker, uint64_t bytes, struct refusal *why);

/* Take them for a while; grant_hold(), grant_grow() or quota_give_back() gives them back. */
CUresult grant_reserve(int device, uint64_t bytes);

/* The size of imported memory that nobody could ask for before. Never refused. */
void grant_learn(uint64_t handle, uint64_t bytes);

/*
 * Memory that has one record however often it changes its size: hold so much of it, 0 for none.
 * Charged, never refused; `reserved` bytes taken for it before are given back in the same moment.
 */
void grant_hold(enum cuward_kind kind, enum record_class class, int device, uint64_t handle,
	uint64_t bytes, uint64_t reserved);
uint64_t grant_held(enum record_class class, uint64_t handle);

/*
 * Bytes that the driver took for itself: part of what is held, in no record, never refused. FREED, which
 * were in a record, are given back in the same moment.
 */
void grant_charge(int device, int64_t bytes, uint64_t freed);

struct release {
	struct thread *thread;
	uint64_t handle;
	uint64_t began_ns;
	uint32_t record; /* LEDGER_NO_RECORD: not ours to account */
	enum record_class class;
	bool freeing; /* without a record: perhaps memory of a graph, see graph_memory.h */
	struct ref_change change;
};

/* The driver is about to be told to free this. Then call it, always. */
void release_open(struct release *release, enum record_class class, uint64_t handle);

/* The driver answered. Returns its answer. */
CUresult release_close(struct release *release, CUresult result);

/* The same for something counted (refs.h): gone only with its last reference. */
void release_open_ref(struct release *release, enum record_class class, uint64_t handle, enum ref what);
CUresult release_close_ref(struct release *release, CUresult result);

/* A claimed record that no driver call of its own ends: its memory is gone. */
void grant_gone(uint32_t record);

/*
 * A context is gone: sweep what it owned. Its handle may stand for a new one already, which was then
 * seen to be made, and what is in that one stays.
 */
void grant_sweep(CUcontext context);
/* The context that owns this record is gone, if that still is its owner. */
void grant_owner_gone(uint32_t record, CUcontext context);
/*
 * A primary one, which comes back under its handle: only what was made before this epoch, a number taken
 * before the driver was told.
 */
uint32_t grant_sweep_epoch(void);
void grant_sweep_before(CUcontext context, uint32_t epoch);

/*
 * Objects are counted, not charged. After the driver made one: owner is the context it dies with,
 * NULL if none. Its end: grant_object_open(), the driver, release_close(). Returns its record, or
 * LEDGER_NO_RECORD.
 */
uint32_t grant_object_created(enum cuward_object kind, uint64_t handle, int device, CUcontext owner);
void grant_object_open(struct release *release, enum cuward_object kind, uint64_t handle);
bool grant_object_find(enum cuward_object kind, uint64_t handle, struct ledger_record *copy);
uint64_t grant_object_key(enum cuward_object kind, uint64_t handle);

#endif
