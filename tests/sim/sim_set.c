/*
 * sim_set.c - fill device memory.
 */
#include "sim_copy.h"
#include "sim_graph.h"

#include <string.h>

static void fill(void *place, unsigned value, unsigned element, size_t count)
{
	size_t i;

	if (element == 1)
		memset(place, (int)value, count);
	else if (element == 2)
		for (i = 0; i < count; i++)
			((uint16_t *)place)[i] = (uint16_t)value;
	else
		for (i = 0; i < count; i++)
			((uint32_t *)place)[i] = value;
}

CUresult set_rect(
	CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height)
{
	size_t bytes, y;
	void *place;

	if (!width || !height)
		return CUDA_SUCCESS;
	if (to % element || (height > 1 && (pitch < width * element || pitch % element)))
		return CUDA_ERROR_INVALID_VALUE;
	bytes = (height - 1) * pitch + width * element;
	if (!memory_known(to) || !memory_bytes(to, bytes, true, &place))
		return CUDA_ERROR_INVALID_VALUE;
	for (y = 0; y < height; y++)
		fill((char *)place + y * pitch, value, element, width);
	return CUDA_SUCCESS;
}

static CUresult set_async(CUdeviceptr to, size_t pitch, unsigned value, unsigned element,
	size_t width, size_t height, CUstream handle)
{
	struct stream *stream;
	struct node *node;
	CUresult result = stream_of(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_MEMSET, &node, &result)) {
		if (node)
			node->is.set = (CUDA_MEMSET_NODE_PARAMS){ to, pitch, value, element, width,
				height };
		return result;
	}
	result = set_rect(to, pitch, value, element, width, height);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, width * element * height, false);
	return result;
}

static CUresult set(
	CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS || capture_refuses(&result))
		return result;
	return set_async(to, pitch, value, element, width, height, NULL);
}

/* The three widths of an element, each as a line and as a rectangle, in both ABIs. */
#define SETS(bits, type) \
	CUresult sim_cuMemsetD##bits(CUdeviceptr_v1 dstDevice, type value, unsigned int N) \
	{ \
		return set(dstDevice, 0, value, bits / 8, N, 1); \
	} \
	CUresult sim_cuMemsetD##bits##_v2(CUdeviceptr dstDevice, type value, size_t N) \
	{ \
		return set(dstDevice, 0, value, bits / 8, N, 1); \
	} \
	CUresult sim_cuMemsetD##bits##Async( \
		CUdeviceptr dstDevice, type value, size_t N, CUstream hStream) \
	{ \
		return set_async(dstDevice, 0, value, bits / 8, N, 1, hStream); \
	} \
	CUresult sim_cuMemsetD2D##bits(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, \
		type value, unsigned int Width, unsigned int Height) \
	{ \
		return set(dstDevice, dstPitch, value, bits / 8, Width, Height); \
	} \
	CUresult sim_cuMemsetD2D##bits##_v2( \
		CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height) \
	{ \
		return set(dstDevice, dstPitch, value, bits / 8, Width, Height); \
	} \
	CUresult sim_cuMemsetD2D##bits##Async(CUdeviceptr dstDevice, size_t dstPitch, type value, \
		size_t Width, size_t Height, CUstream hStream) \
	{ \
		return set_async(dstDevice, dstPitch, value, bits / 8, Width, Height, hStream); \
	}
SETS(8, unsigned char)
SETS(16, unsigned short)
SETS(32, unsigned int)
