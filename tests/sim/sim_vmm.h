/*
 * sim_vmm.h - memory that was mapped by hand: physical handles, reserved addresses, mappings.
 *
 * A physical handle is a memfd, so that its bytes are the same wherever it is mapped, in whichever
 * process.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim_context.h"
#include "sim_object.h"

struct physical {
	struct object object;
	struct device *device; /* NULL: host memory */
	uint64_t bytes;
	CUmemAllocationProp props;
	int fd;                     /* -1: not touched yet */
	unsigned handles, mappings; /* what keeps it */
	bool imported;              /* another process pays */
	bool multicast;             /* no memory of its own */
	uint64_t inode;             /* of the memfd: what was imported is recognised by it */
};

/* Is the address mapped, and what is there? */
bool vmm_find(uint64_t address, struct found *found);
/* Where its bytes can be touched; NULL: not mapped, or not accessible that far. */
void *vmm_bytes(uint64_t address, uint64_t bytes);
/* Is it an address that cuMemAddressReserve gave? */
bool vmm_reserved(uint64_t address);

/* Map this file's bytes at addresses of the driver's choice (for IPC and external memory), and undo
 * it. */
struct vmm_file {
	int fd;
	uint64_t offset;      /* whole blocks */
	uint64_t from, bytes; /* what is meant, from there on */
	struct device *device;
};
CUresult vmm_map_file(const struct vmm_file *file, CUdeviceptr *address);
CUresult vmm_unmap_file(CUdeviceptr address);

extern struct heap vmm_heap, imported_heap;

/* One lock for handles and mappings: each keeps the other alive. */
extern pthread_mutex_t vmm_lock;

#endif
