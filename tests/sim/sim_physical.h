/*
 * sim_physical.h - handles of physical memory.
 */
#ifndef SIM_PHYSICAL_H
#define SIM_PHYSICAL_H

#include "sim_vmm.h"

static inline struct physical *physical_get(CUmemGenericAllocationHandle handle)
{
	return object_get(KIND_physical, (const void *)handle);
}

/* Its memfd; -1 if it has no bytes (multicast), or there are no more descriptors. */
int physical_file(struct physical *physical);
/* One of its holders is gone: with the last one it dies. */
void physical_release(struct physical *physical);

#endif
