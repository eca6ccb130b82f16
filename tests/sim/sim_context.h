/*
 * sim_context.h - contexts, and which of them a thread is in.
 */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "sim_device.h"
#include "sim_object.h"

#define LIMITS 16

struct context {
	struct object object;
	struct device *device;
	bool active; /* a primary context's handle outlives what it stands for */
	bool primary;
	struct context *owner; /* of the memory allocated here: itself, or a green one's primary */
	unsigned flags, references, api_version;
	unsigned long long id;
	uint64_t serial; /* never used twice */
	CUresult error; /* after a sticky one every call repeats it */
	CUfunc_cache cache;
	CUsharedconfig shared;
	size_t limits[LIMITS];
	uint64_t grown; /* physical bytes that raised limits took */
	struct stream *legacy;
	sim_count blocking_ready; /* when the last work on any blocking stream ends */
	sim_count gone_ready;     /* the same, on any destroyed one */
	uint64_t peers;           /* bit: ordinal of a device whose memory was enabled */
	struct heap memory, low, managed, arrays, globals, host;
};

/* Somebody who wants to hear of errors. */
struct listener {
	struct object object;
	struct device *device; /* NULL: of the log */
};

struct context *context_new(struct device *device);
CUresult context_open(struct context **context, struct device *device, unsigned flags);
void context_close(struct context *context);
/* Hold as much as its limits say now; false: the device is full. */
bool context_grow(struct context *context);

/* ---- primary contexts, for who retains them ---- */

CUresult primary_retain(struct device *device);
CUresult primary_release(struct device *device);
void context_fault(CUresult code);

/* The context this thread is in, fit to be used. */
static inline CUresult context_current(struct context **context)
{
	struct context *current = sim_thread.current;

	*context = current;
	if (unlikely(!current))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (unlikely(!current->active || current->serial != sim_thread.serial))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return current->error;
}

static inline struct context *context_get(CUcontext handle)
{
	return object_get(KIND_context, handle);
}

#endif
