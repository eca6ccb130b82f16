/*
 * sim_copy_box.c - copies in two and three dimensions, between any two kinds of memory.
 */
#include "sim_copy.h"
#include "sim_array.h"
#include "sim_graph.h"

#include <string.h>

/* One side of a box: where its first byte is, and how far apart rows and slices are. */
struct corner {
	char *place;
	size_t pitch, slice;
};

/* The bytes from the first to the last one the box touches. */
static size_t extent(size_t pitch, size_t slice, const CUDA_MEMCPY3D *box)
{
	return (box->Depth - 1) * slice + (box->Height - 1) * pitch + box->WidthInBytes;
}

static CUresult array_corner(CUarray handle, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *box,
	bool write, struct corner *corner)
{
	struct array *array = object_get(KIND_array, handle);
	size_t offset, rows;
	void *place;

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	rows = larger(array->descriptor.Height, 1);
	corner->pitch = array->row_bytes;
	corner->slice = corner->pitch * rows;
	offset = z * corner->slice + y * corner->pitch + x;
	if (x + box->WidthInBytes > corner->pitch || y + box->Height > rows ||
		z + box->Depth > larger(array->descriptor.Depth, 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (!array->memory || !memory_bytes(array->memory, array->bytes, write, &place))
		return CUDA_ERROR_INVALID_VALUE;
	corner->place = (char *)place + offset;
	return CUDA_SUCCESS;
}

static CUresult corner_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
	size_t height, size_t x, size_t y, size_t z, const CUDA_MEMCPY3D *box, bool write,
	struct corner *corner)
{
	uint64_t address = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
	void *place;

	if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE &&
		type != CU_MEMORYTYPE_UNIFIED)
		return CUDA_ERROR_INVALID_VALUE;
	if ((box->Height > 1 || box->Depth > 1) && pitch && pitch < x + box->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	corner->pitch = pitch ? pitch : x + box->WidthInBytes;
	corner->slice = corner->pitch * (height ? height : y + box->Height);
	address += z * corner->slice + y * corner->pitch + x;
	if (type == CU_MEMORYTYPE_DEVICE && !memory_known(address))
		return CUDA_ERROR_INVALID_VALUE;
	if (!memory_bytes(address, extent(corner->pitch, corner->slice, box), write, &place))
		return CUDA_ERROR_INVALID_VALUE;
	corner->place = place;
	return CUDA_SUCCESS;
}

static CUresult corners(const CUDA_MEMCPY3D *box, struct corner *from, struct corner *to)
{
	CUresult result;

	if (box->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		result = array_corner(
			box->srcArray, box->srcXInBytes, box->srcY, box->srcZ, box, false, from);
	else
		result = corner_of(box->srcMemoryType, box->srcHost, box->srcDevice, box->srcPitch,
			box->srcHeight, box->srcXInBytes, box->srcY, box->srcZ, box, false, from);
	if (result != CUDA_SUCCESS)
		return result;
	if (box->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return array_corner(
			box->dstArray, box->dstXInBytes, box->dstY, box->dstZ, box, true, to);
	return corner_of(box->dstMemoryType, box->dstHost, box->dstDevice, box->dstPitch,
		box->dstHeight, box->dstXInBytes, box->dstY, box->dstZ, box, true, to);
}

CUresult copy_box(const CUDA_MEMCPY3D *box)
{
	struct corner from, to;
	CUresult result;
	size_t y, z;

	if (!box->WidthInBytes || !box->Height || !box->Depth)
		return CUDA_SUCCESS;
	result = corners(box, &from, &to);
	if (result != CUDA_SUCCESS)
		return result;
	for (z = 0; z < box->Depth; z++)
		for (y = 0; y < box->Height; y++)
			memmove(to.place + z * to.slice + y * to.pitch,
				from.place + z * from.slice + y * from.pitch, box->WidthInBytes);
	return CUDA_SUCCESS;
}

uint64_t copy_box_bytes(const CUDA_MEMCPY3D *box)
{
	return (uint64_t)box->WidthInBytes * box->Height * box->Depth;
}

static CUresult box_async(const CUDA_MEMCPY3D *box, CUstream handle)
{
	struct stream *stream;
	struct node *node;
	CUresult result = stream_of(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node, &result)) {
		if (node)
			node->is.copy = *box;
		return result;
	}
	result = copy_box(box);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, copy_box_bytes(box), false);
	return result;
}

static CUresult box_sync(const CUDA_MEMCPY3D *box)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS || capture_refuses(&result))
		return result;
	result = stream_of(NULL, &stream);
	if (result == CUDA_SUCCESS)
		result = copy_box(box);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, copy_box_bytes(box), true);
	return result;
}

/* Whatever ABI the caller speaks, the fields have the same names. */
#define SIDES(copy) \
	.srcXInBytes = (copy)->srcXInBytes, .srcY = (copy)->srcY, \
	.srcMemoryType = (copy)->srcMemoryType, .srcHost = (copy)->srcHost, \
	.srcDevice = (copy)->srcDevice, .srcArray = (copy)->srcArray, \
	.srcPitch = (copy)->srcPitch, .dstXInBytes = (copy)->dstXInBytes, .dstY = (copy)->dstY, \
	.dstMemoryType = (copy)->dstMemoryType, .dstHost = (copy)->dstHost, \
	.dstDevice = (copy)->dstDevice, .dstArray = (copy)->dstArray, \
	.dstPitch = (copy)->dstPitch, .WidthInBytes = (copy)->WidthInBytes, \
	.Height = (copy)->Height
#define BOX2(copy) \
	(CUDA_MEMCPY3D) \
	{ \
		SIDES(copy), .Depth = 1 \
	}
#define BOX3(copy) \
	(CUDA_MEMCPY3D) \
	{ \
		SIDES(copy), .srcZ = (copy)->srcZ, .srcHeight = (copy)->srcHeight, \
			     .dstZ = (copy)->dstZ, .dstHeight = (copy)->dstHeight, \
			     .Depth = (copy)->Depth \
	}

#define BOX_CALL(name, type, convert) \
	CUresult sim_##name(const type *pCopy) \
	{ \
		return pCopy ? box_sync(&convert(pCopy)) : CUDA_ERROR_INVALID_VALUE; \
	}
#define BOX_CALL_ASYNC(name, type, convert) \
	CUresult sim_##name(const type *pCopy, CUstream hStream) \
	{ \
		return pCopy ? box_async(&convert(pCopy), hStream) : CUDA_ERROR_INVALID_VALUE; \
	}

BOX_CALL(cuMemcpy2D, CUDA_MEMCPY2D_v1, BOX2)
BOX_CALL(cuMemcpy2D_v2, CUDA_MEMCPY2D, BOX2)
BOX_CALL(cuMemcpy2DUnaligned, CUDA_MEMCPY2D_v1, BOX2)
BOX_CALL(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, BOX2)
BOX_CALL(cuMemcpy3D, CUDA_MEMCPY3D_v1, BOX3)
BOX_CALL(cuMemcpy3D_v2, CUDA_MEMCPY3D, BOX3)
BOX_CALL(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, BOX3)
BOX_CALL_ASYNC(cuMemcpy2DAsync, CUDA_MEMCPY2D_v1, BOX2)
BOX_CALL_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, BOX2)
BOX_CALL_ASYNC(cuMemcpy3DAsync, CUDA_MEMCPY3D_v1, BOX3)
BOX_CALL_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, BOX3)
BOX_CALL_ASYNC(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, BOX3)

/* ---- many boxes in one call: lengths are in elements of a byte, or of the array's format ---- */

static bool operand_of(const CUmemcpy3DOperand *operand, CUmemorytype *type, CUarray *array,
	CUdeviceptr *address, size_t at[3], size_t length[2], uint64_t *pixel)
{
	struct array *it;

	if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		*type = CU_MEMORYTYPE_UNIFIED;
		*address = operand->op.ptr.ptr;
		length[0] = operand->op.ptr.rowLength;
		length[1] = operand->op.ptr.layerHeight;
		return true;
	}
	it = object_get(KIND_array, operand->op.array.array);
	if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY || !it)
		return false;
	*type = CU_MEMORYTYPE_ARRAY;
	*array = operand->op.array.array;
	*pixel = larger(it->row_bytes / it->descriptor.Width, 1);
	at[0] = operand->op.array.offset.x * *pixel;
	at[1] = operand->op.array.offset.y;
	at[2] = operand->op.array.offset.z;
	return true;
}

static CUresult copy_one(const CUDA_MEMCPY3D_BATCH_OP *op, struct stream *stream)
{
	size_t from[3] = { 0 }, to[3] = { 0 }, from_length[2] = { 0 }, to_length[2] = { 0 };
	CUDA_MEMCPY3D box = { .Height = op->extent.height, .Depth = op->extent.depth };
	uint64_t pixel = 1;
	CUresult result;

	if (!op->extent.width || !op->extent.height || !op->extent.depth ||
		!operand_of(&op->src, &box.srcMemoryType, &box.srcArray, &box.srcDevice, from,
			from_length, &pixel) ||
		!operand_of(&op->dst, &box.dstMemoryType, &box.dstArray, &box.dstDevice, to,
			to_length, &pixel))
		return CUDA_ERROR_INVALID_VALUE;
	box.WidthInBytes = op->extent.width * pixel;
	box.srcXInBytes = from[0], box.srcY = from[1], box.srcZ = from[2];
	box.dstXInBytes = to[0], box.dstY = to[1], box.dstZ = to[2];
	box.srcPitch = from_length[0] * pixel, box.srcHeight = from_length[1];
	box.dstPitch = to_length[0] * pixel, box.dstHeight = to_length[1];
	result = copy_box(&box);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, copy_box_bytes(&box), false);
	return result;
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
	unsigned long long flags, CUstream hStream)
{
	size_t failed;

	return sim_cuMemcpy3DBatchAsync(numOps, opList, &failed, flags, hStream);
}

CUresult sim_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
	unsigned long long flags, CUstream hStream)
{
	struct stream *stream;
	CUresult result = opList && numOps && !flags ? stream_of(hStream, &stream)
						     : CUDA_ERROR_INVALID_VALUE;
	size_t i;

	if (result == CUDA_SUCCESS && stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	for (i = 0; i < numOps && result == CUDA_SUCCESS; i++) {
		result = copy_one(&opList[i], stream);
		if (result != CUDA_SUCCESS && failIdx)
			*failIdx = i;
	}
	return result;
}
