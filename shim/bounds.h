/*
 * bounds.h - which limits bind this process, and which of those asked for wins.
 *
 * Of a process: the least of what the environment asks (or, instead of it, `cuward limit set` while
 * it runs) and what the administrator allows. The same for its job; for its user the administrator's.
 */
#ifndef CUWARD_BOUNDS_H
#define CUWARD_BOUNDS_H

#include "guest.h"

/* Once, devices and slot being there. False: refused, the ledger says why. */
bool bounds_open(void);

/* Somebody changed them. */
void bounds_reload(void);

/* Threads wait on this device, or not any more: then what fits is not taken at once. */
void bounds_note_waiting(int device);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void bounds_forget(void);

/* On the way of an allocation: did anybody? */
hot void bounds_look(void)
{
	if (unlikely(__atomic_load_n(guest.limits_changed, __ATOMIC_RELAXED) !=
		__atomic_load_n(&guest.limits_seen, __ATOMIC_RELAXED)))
		bounds_reload();
}

#endif
