/*
 * sim_copy.h - copies and sets, of lines and of boxes.
 */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "sim_stream.h"

/* Does it look like an address of this kind? ANY: as unified addressing finds out. */
enum side { SIDE_HOST, SIDE_DEVICE, SIDE_ANY };

/* Move the bytes now; host addresses are taken as they are, others are checked. */
CUresult copy_bytes(
	uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t bytes);
CUresult copy_box(const CUDA_MEMCPY3D *box);
uint64_t copy_box_bytes(const CUDA_MEMCPY3D *box);

/* Width elements of 1, 2 or 4 bytes, in rows pitch apart. */
CUresult set_rect(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
	size_t height);

/* Make it take its time on the stream; wait: until it is done. */
void copy_timed(struct stream *stream, uint64_t bytes, bool wait);

#endif
