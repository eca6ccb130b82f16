/*
 * overhead.h - memory that nobody asked for by name: contexts, modules, heaps, and the rest.
 *
 * The driver says how much of a device is in use; what all processes seen here hold is known. The
 * difference is `unattributed`. Its growth around the birth of a context or module is that one's
 * overhead; what is left is untracked. Measured with cuMemGetInfo, never while a stream captures,
 * and from allocations at most once a second.
 *
 * Before the first context of a process nobody can ask, so what is unattributed then counts as its
 * overhead, up to 1 GiB: on a device that programs without cuward use, that is too much.
 */
#ifndef CUWARD_OVERHEAD_H
#define CUWARD_OVERHEAD_H

#include <stdint.h>

#include "driver.h"
#include "guest.h"

struct overhead {
	int device; /* -1: cannot be measured */
	int64_t before;
};

/* The driver is about to take memory for itself on the current device. Then close, always. */
void overhead_open(struct overhead *overhead);

/*
 * It is done. Whatever it took goes to this new object: by its handle, as another thread may have
 * ended it with its context, and its record may stand for memory by now.
 */
void overhead_close(const struct overhead *overhead, enum cuward_object kind, uint64_t handle);
/* To the current context's, which gave up so much at most. */
void overhead_close_context(const struct overhead *overhead, uint64_t shrinks);

/* A context was made on this device; it is measured once it is current on some thread. */
void overhead_new_context(int device, CUcontext context);

/* Was there one, ever? The cheap question. */
static inline bool overhead_is_owed(void)
{
	return __atomic_load_n(&guest.new_contexts, __ATOMIC_RELAXED);
}

/* A context may have become current on this thread. */
void overhead_now_current(void);

/* Look how much is untracked, on the current device. */
void overhead_sample(int device);

/* The guest itself asked. */
void overhead_learn(int device, uint64_t free_bytes, uint64_t total_bytes);

/* An object with overhead is gone. */
void overhead_gone(const struct ledger_record *object);

#endif
