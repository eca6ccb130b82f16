/*
 * sim_plane.c - the planes of pictures in several planes: arrays borrowed from the whole one.
 */
#include "sim_array.h"

/* Width and height of the second and third plane are the picture's divided by these. */
static const struct {
	unsigned short format;
	uint8_t planes, channels, wide, across, down; /* wide: bytes of a channel */
} layouts[] = {
	{ CU_AD_FORMAT_NV12, 2, 2, 1, 2, 2 },
	{ CU_AD_FORMAT_P010, 2, 2, 2, 2, 2 },
	{ CU_AD_FORMAT_P016, 2, 2, 2, 2, 2 },
	{ CU_AD_FORMAT_NV16, 2, 2, 1, 2, 1 },
	{ CU_AD_FORMAT_P210, 2, 2, 2, 2, 1 },
	{ CU_AD_FORMAT_P216, 2, 2, 2, 2, 1 },
	{ CU_AD_FORMAT_Y444_PLANAR8, 3, 1, 1, 1, 1 },
	{ CU_AD_FORMAT_Y444_PLANAR10, 3, 1, 2, 1, 1 },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 2, 2, 1, 1, 1 },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 2, 2, 2, 1, 1 },
};

static struct array *plane_new(const struct array *whole, size_t layout, unsigned index)
{
	CUDA_ARRAY3D_DESCRIPTOR d = whole->descriptor;
	struct array *plane = object_new(KIND_array, whole->object.context);
	uint64_t luma = d.Width * larger(d.Height, 1) * layouts[layout].wide;

	if (!plane)
		return NULL;
	d.Format = layouts[layout].wide == 1 ? CU_AD_FORMAT_UNSIGNED_INT8
					     : CU_AD_FORMAT_UNSIGNED_INT16;
	d.NumChannels = index ? layouts[layout].channels : 1;
	if (index) {
		d.Width /= layouts[layout].across;
		d.Height /= layouts[layout].down;
	}
	plane->descriptor = d;
	plane->bytes = array_bytes(&d);
	plane->row_bytes = plane->bytes / larger(d.Height, 1);
	plane->memory = whole->memory ? whole->memory + index * luma : 0;
	plane->borrowed = true;
	return plane;
}

CUresult sim_cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	struct array *array = object_get(KIND_array, hArray);
	size_t i;

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	for (i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].format == array->descriptor.Format)
			break;
	if (!pPlaneArray || i == ARRAY_SIZE(layouts) || planeIdx >= layouts[i].planes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!array->plane[planeIdx])
		array->plane[planeIdx] = plane_new(array, i, planeIdx);
	if (!array->plane[planeIdx])
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pPlaneArray = (CUarray)array->plane[planeIdx];
	return CUDA_SUCCESS;
}
