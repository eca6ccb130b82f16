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

/*
 * Map somebody's bytes until cuMemFree or cuMemFreeAsync, which call external_unmap. They go with
 * `context`, if there is one; `imported` of them count as held by this mapping:
 * all, or none where the memory they are in counts.
 */
struct external_range {
	int fd;
	uint64_t offset, bytes, imported;
	bool array; /* not to be freed as memory */
	struct device *device;
	struct context *context;
};
CUresult external_map(const struct external_range *range, CUdeviceptr *address);
CUresult external_unmap(CUdeviceptr address, bool array);

void external_close(struct external *external);
/* The context is gone, and with it what it mapped. */
void external_forget(const struct context *context);
void ipc_forget(const struct context *context);

/* Count memory of others that this process holds now, or no longer. */
void imported_add(struct device *device, uint64_t bytes);
void imported_remove(struct device *device, uint64_t bytes);

/* ---- sim_arena.c ---- */

/* Make the bytes of the blocks around an allocation a file that others can map. */
int span_share(struct arena *arena, struct block *span, uint64_t *offset);

#endif
