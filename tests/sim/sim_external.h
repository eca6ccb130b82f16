/*
 * sim_external.h - memory of other processes and of other drivers.
 */
#ifndef SIM_EXTERNAL_H
#define SIM_EXTERNAL_H

#include "sim_context.h"

struct external {
	struct object object;
	int fd;
	uint64_t bytes;
};

/* The end of a buffer that cuExternalMemoryGetMappedBuffer gave: cuMemFree calls it. */
CUresult external_unmap(CUdeviceptr address);

/* ---- sim_arena.c ---- */

/* Make the bytes of the blocks around an allocation a file that others can map. */
int span_share(struct arena *arena, struct block *span, uint64_t *offset);

#endif
