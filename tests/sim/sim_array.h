/*
 * sim_array.h - arrays, mipmaps and what textures and surfaces read.
 */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "sim_context.h"

struct array {
	struct object object;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	uint64_t pixel_bytes, row_bytes, bytes;
	CUdeviceptr memory;    /* 0: sparse or mapped later */
	struct mipmap *mipmap; /* it is a level of: borrowed */
	bool borrowed;         /* it is a plane of another */
	struct array *plane[3];
};

#define MIPMAP_LEVELS 20

struct mipmap {
	struct object object;
	unsigned levels;
	uint64_t bytes;
	CUdeviceptr memory; /* of all levels; 0: sparse, or mapped later */
	bool external;      /* it is somebody else's */
	bool counted;       /* as one without memory */
	struct array *level[MIPMAP_LEVELS];
};

struct texture {
	struct object object;
	bool surface;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
};

struct texref {
	struct object object;
	struct module *module;
	char *name;
	CUarray array;
	CUdeviceptr address;
	CUarray_format format;
	int channels;
	unsigned flags, anisotropy;
	CUaddress_mode mode[3];
	CUfilter_mode filter, mipmap_filter;
	CUmipmappedArray mipmap;
	float bias, clamp[2], border[4];
};

/* Bytes of a pixel times two, since planar formats have half bytes; 0: unknown format. */
unsigned format_half_bytes(CUarray_format format, unsigned channels);
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
bool array_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);

/* A mipmap and its levels, without memory yet; and where its bytes are. */
struct mipmap *mipmap_new(
	struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels);
void mipmap_place(struct mipmap *mipmap, CUdeviceptr memory);
void mipmap_close(struct mipmap *mipmap);
/* The same while the memory goes with its context. */
void array_swept(struct array *array);
void mipmap_swept(struct mipmap *mipmap);

/* ---- sim_sparse.c ---- */

/* An array or mipmap is gone, or all of a context: what was mapped to it has one user less. */
void sparse_forget(const struct object *of, const struct context *context);

#endif
