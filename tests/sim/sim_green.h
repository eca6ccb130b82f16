/*
 * sim_green.h - green contexts: a part of a device's multiprocessors, and the primary context's
 * memory.
 */
#ifndef SIM_GREEN_H
#define SIM_GREEN_H

#include "sim_context.h"

struct green {
	struct object object;
	struct context *face; /* what cuCtxFromGreenCtx gives */
	unsigned multiprocessors;
};

#endif
