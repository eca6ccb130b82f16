/*
 * mapping.h - what is mapped where: each mapping is an object that refers to physical memory.
 *
 * A range of addresses is unmapped in one call, however many mappings make it up, and the driver
 * refuses if one of them is cut; so they are claimed as a chain, and all put back where it refused.
 */
#ifndef CUWARD_MAPPING_H
#define CUWARD_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "refs.h"

/* Claimed mappings, linked by the `context` of their records. */
struct mapping_chain {
	uint32_t first; /* + 1 */
	uint32_t array; /* record whose mappings they were, or LEDGER_NO_RECORD */
	bool lost;      /* for the close: the driver is gone, and what only they kept with it */
};

/* The driver is about to map this handle. False: a handle nobody knows. */
bool mapping_open(struct ref_change *change, uint64_t handle);
void mapping_done(struct ref_change *change, bool done, uint64_t address, uint64_t bytes);

/* It is about to unmap a range. */
void mapping_open_range(struct mapping_chain *chain, uint64_t address, uint64_t bytes);

/* It is about to destroy a sparse array, or one that never had mappings. */
void mapping_open_array(struct mapping_chain *chain, uint32_t array);

void mapping_close(struct mapping_chain *chain, bool done);

/* Part of a sparse array: everything is in elements, or in bytes of the mip tail. */
struct mapping_region {
	unsigned level, layer;
	uint64_t from[3], extent[3];
	bool tail;
};

struct mapping_array {
	enum record_class class; /* an array, or a mipmapped one */
	uint64_t handle;
};

/* The driver mapped memory there, or will when the stream gets there; and took it away again. */
void mapping_array_add(const struct mapping_array *of, const struct mapping_region *region,
	uint64_t handle);
void mapping_array_remove(const struct mapping_array *of, const struct mapping_region *region);

/* The claimed record of an array that is gone: what was mapped into it is not mapped any more. */
void mapping_array_gone(uint32_t array);

#endif
