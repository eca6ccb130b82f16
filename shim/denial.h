/*
 * denial.h - what happens when the answer is no.
 */
#ifndef CUWARD_DENIAL_H
#define CUWARD_DENIAL_H

#include <stdint.h>

#include "driver.h"
#include "guest.h"

/*
 * Refuse this many bytes on a device (index, -1 none) and say so in report and trace. Returns
 * CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult denial_refuse(struct thread *thread, int device, uint64_t bytes, const struct refusal *why);

#endif
