/*
 * calls.h - names of the driver's calls. A call's number is its row in DRIVER_CALLS.
 */
#ifndef CUWARD_CALLS_H
#define CUWARD_CALLS_H

#include <stdbool.h>

#include "driver_calls.h"

enum call {
#define X(name, params, args) CALL_##name,
	DRIVER_CALLS(X)
#undef X
};

/*
 * Launches of one kernel, the calls that come most: their entry saves what it can (entry.c). What the
 * driver calls in there is taken for a call of the program.
 */
static inline bool call_is_bare(enum call call)
{
	return call == CALL_cuLaunchKernel || call == CALL_cuLaunchKernel_ptsz ||
		call == CALL_cuLaunchKernelEx || call == CALL_cuLaunchKernelEx_ptsz ||
		call == CALL_cuLaunchCooperativeKernel || call == CALL_cuLaunchCooperativeKernel_ptsz;
}

/* The call of this exact exported name, -1 for any other text. */
int call_number(const char *name);

/* Could it be a name of the driver's: cu and a capital? */
bool call_like(const char *name);

/* "cuMemAlloc_v2", or "unknown" for a number that is no row. Constant memory. */
const char *call_name(unsigned call);

#endif
