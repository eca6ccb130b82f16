/*
 * sim_gate.h - watching every call, on behalf of a test.
 */
#ifndef SIM_GATE_H
#define SIM_GATE_H

#include "sim.h"

/* From now on every call passes through control_fault(). */
void gate_watch(void);

/* Busy for so long, as a call that takes its time. */
void gate_delay(uint64_t ns);

/* From now on such calls take so long. */
void gate_set_delay(int call, uint64_t ns);

/* From now on, or no longer, every call passes through checkpoint_waits(). */
void gate_hold(bool hold);

/* ---- sim_checkpoint.c ---- */

/* Wait while the process is locked; true: it may not wait, and *result is its answer. */
bool checkpoint_waits(enum call call, CUresult *result);

/* ---- sim_control.c ---- */

/* Count the call; true: it is to fail, with *result. */
bool control_fault(enum call call, CUresult *result);

#endif
