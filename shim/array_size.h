/*
 * array_size.h - the bytes of an array, computed: no driver tells (driver manual, cuArray3DCreate).
 */
#ifndef CUWARD_ARRAY_SIZE_H
#define CUWARD_ARRAY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_headers.h"

/*
 * Bytes without the padding of tiles, UINT64_MAX if they do not fit 64 bits. *known is false where
 * the format is one nobody here has heard of: four bytes a channel are assumed.
 */
uint64_t array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, bool *known);

/* Of all levels; more than the shape has are cut by the driver, and here. */
uint64_t array_mipmap_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels, bool *known);

#endif
