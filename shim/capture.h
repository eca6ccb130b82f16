/*
 * capture.h - is a stream being captured into a graph?
 */
#ifndef CUWARD_CAPTURE_H
#define CUWARD_CAPTURE_H

#include <stdbool.h>

#include "guest.h"

/* The driver is only asked while some capture may be active: guest.captures counts them. */
static inline bool capture_is_active(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (likely(__atomic_load_n(&guest.captures, __ATOMIC_RELAXED) == 0))
		return false;
	if (per_thread)
		real.cuStreamIsCapturing_ptsz(stream, &status);
	else
		real.cuStreamIsCapturing(stream, &status);
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

#endif
