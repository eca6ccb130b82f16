/*
 * calls.h - names of the driver's calls. A call's number is its row in DRIVER_CALLS.
 */
#ifndef CUWARD_CALLS_H
#define CUWARD_CALLS_H

/* "cuMemAlloc_v2", or "unknown" for a number that is no row. Constant memory. */
const char *call_name(unsigned call);

#endif
