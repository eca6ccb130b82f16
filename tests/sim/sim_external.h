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

/* Map somebody's bytes until cuMemFree or cuMemFreeAsync, which call external_unmap. */
CUresult external_map(
	int fd, uint64_t offset, uint64_t bytes, struct device *device, CUdeviceptr *address);
CUresult external_unmap(CUdeviceptr address);

/* ---- sim_arena.c ---- */

/* Make the bytes of the blocks around an allocation a file that others can map. */
int span_share(struct arena *arena, struct block *span, uint64_t *offset);

#endif
