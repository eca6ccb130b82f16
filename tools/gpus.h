/*
 * gpus.h - the GPUs that a program started here would see, as the driver tells without a context.
 */
#ifndef GPUS_H
#define GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

struct gpu_fact {
	uint8_t uuid[16];
	bool stands_in; /* it is none of the driver's, which has none of its own for this GPU */
	uint64_t total_bytes;
	int64_t used_bytes; /* by everybody, as NVML says; -1 unknown */
};

/*
 * By their ordinals. Asked in a child: a driver may hang or crash. 0: there is no driver or no GPU. The
 * driver is a path, or NULL for the one that programs find; visible is CUDA_VISIBLE_DEVICES, or NULL
 * for what it is here.
 */
unsigned gpus_ask(struct gpu_fact facts[SLOT_DEVICES]);
unsigned gpus_ask_as(struct gpu_fact facts[SLOT_DEVICES], const char *driver, const char *visible);

/* What is used now of those that were asked about before. */
void gpus_ask_used(struct gpu_fact facts[SLOT_DEVICES], unsigned count);

/* As CUDA_VISIBLE_DEVICES names it: by its UUID, or, where the driver has none, by its place there. */
void gpus_name(const struct gpu_fact *facts, unsigned count, const uint8_t uuid[16], char name[48]);

#endif
