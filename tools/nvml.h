/*
 * nvml.h - what NVIDIA's management library says of all processes, under cuward or not.
 *
 * It is never needed: where it is not, hangs or fails, everything it would have told is unknown. It is
 * loaded by a child, which answers as long as we live; what hangs there is given up.
 */
#ifndef NVML_H
#define NVML_H

#include <stdbool.h>
#include <stdint.h>

#define NVML_GPUS 32u
#define NVML_SLICES 8u
#define NVML_PROCESSES 512u
#define NVML_UNKNOWN (UINT64_MAX - 1) /* as BYTES_UNKNOWN */

enum nvml_kind { NVML_COMPUTE, NVML_GRAPHICS, NVML_MPS, NVML_KINDS };

struct nvml_process {
	uint32_t gpu; /* index below */
	uint32_t pid; /* in the namespace of the machine */
	uint32_t kind;
	uint64_t used_bytes; /* NVML_UNKNOWN */
};

struct nvml_gpu {
	uint8_t uuid[16];
	char name[64];
	uint64_t total_bytes; /* NVML_UNKNOWN */
	uint64_t used_bytes;  /* by everybody; NVML_UNKNOWN */
	bool mig;             /* it is divided */
	uint32_t slice_count;
	uint64_t slice_bytes[NVML_SLICES];
	bool processes_known; /* those that are compute at least */
};

enum nvml_state { NVML_ABSENT, NVML_FAILED, NVML_LOST, NVML_THERE };

struct nvml_facts {
	uint32_t state; /* enum nvml_state; only NVML_THERE tells more */
	int32_t error;  /* NVML's, for NVML_FAILED */
	bool simulated;
	uint32_t gpu_count;
	uint32_t process_count;
	struct nvml_gpu gpus[NVML_GPUS];
	struct nvml_process processes[NVML_PROCESSES];
};

/* Ask, so that the answer comes while something else is done. */
void nvml_begin(void);
/* The answer; asks if nobody did. Takes 5 s at most, and then not again for a minute. */
const struct nvml_facts *nvml_answer(void);

/* nvml_call.c, in the child: fill it in. The library stays loaded. */
void nvml_call(struct nvml_facts *facts);

#endif
