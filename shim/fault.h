/*
 * fault.h - frees that went wrong, with both places that have to do with it.
 */
#ifndef CUWARD_FAULT_H
#define CUWARD_FAULT_H

#include "guest.h"

/* The driver refused to free this, which is not live: say what it probably is. */
void fault_explain(struct thread *thread, enum record_class class, uint64_t handle);

/* A fault of the call that this thread is in. The allocation it is about, NULL unknown. */
void fault_note(struct thread *thread, enum cuward_finding finding, uint64_t handle,
	const struct ledger_record *allocation);

#endif
