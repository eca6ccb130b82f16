/*
 * sim_semaphore.h - external semaphores: counters that streams raise and wait for.
 */
#ifndef SIM_SEMAPHORE_H
#define SIM_SEMAPHORE_H

#include "sim_context.h"

struct semaphore {
	struct object object;
	int fd;
	bool timeline; /* else binary: a wait takes what a signal gave */
	sim_count value;
};

#define SEMAPHORES_MOST 64

struct semaphore_op {
	CUexternalSemaphore handle;
	uint64_t value;
};

void semaphore_close(struct semaphore *semaphore);
CUresult semaphores_run(bool wait, const struct semaphore_op *ops, unsigned count);
/* Out of the parameters of a call, which are `stride` bytes each. */
CUresult semaphores_read(const CUexternalSemaphore *array, const void *params, size_t stride,
	unsigned count, struct semaphore_op *ops);

#endif
