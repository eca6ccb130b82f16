/*
 * sim_visible.h - see sim_visible.c. Apart from the rest, so that it can be fuzzed alone.
 */
#ifndef SIM_VISIBLE_H
#define SIM_VISIBLE_H

#include <cuda.h>
#include <stdint.h>

/*
 * Indices, UUIDs and prefixes of them; the first item that names no device, or one that was named
 * before, ends the list. Bit i of slices: device i is a part of a GPU, named MIG-UUID. Indices in the
 * box go to seen, which has room for all; how many.
 */
int visible_parse(
	const char *list, const CUuuid *uuids, uint64_t slices, int count, int *seen);

#endif
