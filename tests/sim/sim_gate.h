/*
 * sim_gate.h - watching every call, on behalf of a test.
 */
#ifndef SIM_GATE_H
#define SIM_GATE_H

#include "sim.h"

/* From now on every call passes through control_fault(). */
void gate_watch(void);

/* Count the call; true: it is to fail, with *result. */
bool control_fault(enum call call, CUresult *result);

#endif
