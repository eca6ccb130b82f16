/*
 * sim_copy.c - copies of one line. The bytes move at once; what the stream takes is only time.
 */
#include "sim_copy.h"
#include "sim_array.h"
#include "sim_graph.h"

#include <string.h>

void copy_timed(struct stream *stream, uint64_t bytes, bool wait)
{
	uint64_t when = stream_append(stream, sim_copy_ns(bytes));

	count_one(&usage_process()->copies);
	if (wait && when > 0 && when > sim_now())
		sim_sleep_until(when);
}

static bool bytes_at(uint64_t address, enum side side, size_t bytes, bool write, void **place)
{
	if (side == SIDE_DEVICE && !memory_known(address))
		return false;
	return memory_bytes(address, bytes, write, place);
}

CUresult copy_bytes(
	uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t bytes)
{
	void *to_place, *from_place;

	if (!bytes)
		return CUDA_SUCCESS;
	if (!bytes_at(to, to_side, bytes, true, &to_place) ||
		!bytes_at(from, from_side, bytes, false, &from_place))
		return CUDA_ERROR_INVALID_VALUE;
	memmove(to_place, from_place, bytes);
	return CUDA_SUCCESS;
}

static CUmemorytype memory_type(enum side side)
{
	return side == SIDE_HOST     ? CU_MEMORYTYPE_HOST
	       : side == SIDE_DEVICE ? CU_MEMORYTYPE_DEVICE
				     : CU_MEMORYTYPE_UNIFIED;
}

static CUDA_MEMCPY3D line_box(
	uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = memory_type(from_side),
		.srcHost = (const void *)from,
		.srcDevice = from,
		.dstMemoryType = memory_type(to_side),
		.dstHost = (void *)to,
		.dstDevice = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

/* On a stream of the caller's choice. */
static CUresult line_async(uint64_t to, enum side to_side, uint64_t from, enum side from_side,
	size_t bytes, CUstream handle)
{
	struct stream *stream;
	struct node *node;
	CUresult result = stream_of(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node, &result)) {
		if (node)
			node->is.copy = line_box(to, to_side, from, from_side, bytes);
		return result;
	}
	result = copy_bytes(to, to_side, from, from_side, bytes);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, bytes, false);
	return result;
}

/* On the default stream; where the host takes part it waits for the end. */
static CUresult line(
	uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t bytes)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS || capture_refuses(&result))
		return result;
	result = stream_of(NULL, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = copy_bytes(to, to_side, from, from_side, bytes);
	if (result == CUDA_SUCCESS)
		copy_timed(stream, bytes, to_side != SIDE_DEVICE || from_side != SIDE_DEVICE);
	return result;
}

#define H(pointer) (uintptr_t)(pointer), SIDE_HOST
#define D(pointer) (pointer), SIDE_DEVICE
#define U(pointer) (pointer), SIDE_ANY

/* The two ABIs of one call differ in the width of their addresses and sizes. */
#define LINE(name, to_type, to, from_type, from) \
	CUresult sim_##name(to_type dst, from_type src, unsigned int ByteCount) \
	{ \
		return line(to(dst), from(src), ByteCount); \
	}
#define LINE_ASYNC(name, to_type, to, from_type, from) \
	CUresult sim_##name(to_type dst, from_type src, unsigned int ByteCount, CUstream hStream) \
	{ \
		return line_async(to(dst), from(src), ByteCount, hStream); \
	}
#define LINE_V2(name, to_type, to, from_type, from) \
	CUresult sim_##name(to_type dst, from_type src, size_t ByteCount) \
	{ \
		return line(to(dst), from(src), ByteCount); \
	}
#define LINE_ASYNC_V2(name, to_type, to, from_type, from) \
	CUresult sim_##name(to_type dst, from_type src, size_t ByteCount, CUstream hStream) \
	{ \
		return line_async(to(dst), from(src), ByteCount, hStream); \
	}

LINE(cuMemcpyHtoD, CUdeviceptr_v1, D, const void *, H)
LINE(cuMemcpyDtoH, void *, H, CUdeviceptr_v1, D)
LINE(cuMemcpyDtoD, CUdeviceptr_v1, D, CUdeviceptr_v1, D)
LINE_ASYNC(cuMemcpyHtoDAsync, CUdeviceptr_v1, D, const void *, H)
LINE_ASYNC(cuMemcpyDtoHAsync, void *, H, CUdeviceptr_v1, D)
LINE_ASYNC(cuMemcpyDtoDAsync, CUdeviceptr_v1, D, CUdeviceptr_v1, D)
LINE_V2(cuMemcpy, CUdeviceptr, U, CUdeviceptr, U)
LINE_V2(cuMemcpyHtoD_v2, CUdeviceptr, D, const void *, H)
LINE_V2(cuMemcpyDtoH_v2, void *, H, CUdeviceptr, D)
LINE_V2(cuMemcpyDtoD_v2, CUdeviceptr, D, CUdeviceptr, D)
LINE_ASYNC_V2(cuMemcpyAsync, CUdeviceptr, U, CUdeviceptr, U)
LINE_ASYNC_V2(cuMemcpyHtoDAsync_v2, CUdeviceptr, D, const void *, H)
LINE_ASYNC_V2(cuMemcpyDtoHAsync_v2, void *, H, CUdeviceptr, D)
LINE_ASYNC_V2(cuMemcpyDtoDAsync_v2, CUdeviceptr, D, CUdeviceptr, D)

/* ---- between contexts ---- */

CUresult sim_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount)
{
	if (!context_get(dstContext) || !context_get(srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return line(D(dstDevice), D(srcDevice), ByteCount);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	if (!context_get(dstContext) || !context_get(srcContext))
		return CUDA_ERROR_INVALID_CONTEXT;
	return line_async(D(dstDevice), D(srcDevice), ByteCount, hStream);
}

static CUresult batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	size_t *fail, CUstream hStream)
{
	CUresult result = dsts && srcs && sizes && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	size_t i;

	if ((uintptr_t)hStream < 2)
		return CUDA_ERROR_INVALID_HANDLE; /* the legacy stream takes no batches */
	for (i = 0; result == CUDA_SUCCESS && i < count; i++) {
		result = line_async(U(dsts[i]), U(srcs[i]), sizes[i], hStream);
		if (result != CUDA_SUCCESS && fail)
			*fail = i;
	}
	return result;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	CUstream hStream)
{
	(void)attrs, (void)attrsIdxs, (void)numAttrs;
	return batch(dsts, srcs, sizes, count, failIdx, hStream);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	CUstream hStream)
{
	(void)attrs, (void)attrsIdxs, (void)numAttrs;
	return batch(dsts, srcs, sizes, count, NULL, hStream);
}

#ifdef PARAMS_cuMemcpyWithAttributesAsync
CUresult sim_cuMemcpyWithAttributesAsync PARAMS_cuMemcpyWithAttributesAsync
{
	(void)attr;
	return batch(&dst, &src, &size, 1, NULL, hStream);
}

CUresult sim_cuMemcpy3DWithAttributesAsync PARAMS_cuMemcpy3DWithAttributesAsync
{
	return sim_cuMemcpy3DBatchAsync_v2(1, op, flags, hStream);
}
#endif

/* ---- one line of an array ---- */

static bool array_at(CUarray handle, size_t offset, size_t bytes, CUdeviceptr *address)
{
	struct array *array = object_get(KIND_array, handle);

	if (!array || !array->memory || offset > array->bytes || bytes > array->bytes - offset)
		return false;
	*address = array->memory + offset;
	return true;
}

#define ARRAY_OR_RETURN(handle, offset, address) \
	CUdeviceptr address; \
	if (!array_at(handle, offset, ByteCount, &address)) \
	return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuMemcpyHtoA_v2(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	ARRAY_OR_RETURN(dstArray, dstOffset, to);
	return line(D(to), H(srcHost), ByteCount);
}

CUresult sim_cuMemcpyHtoA(
	CUarray dstArray, unsigned dstOffset, const void *srcHost, unsigned ByteCount)
{
	return sim_cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}

CUresult sim_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	ARRAY_OR_RETURN(srcArray, srcOffset, from);
	return line(H(dstHost), D(from), ByteCount);
}

CUresult sim_cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned srcOffset, unsigned ByteCount)
{
	return sim_cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}

CUresult sim_cuMemcpyHtoAAsync_v2(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	ARRAY_OR_RETURN(dstArray, dstOffset, to);
	return line_async(D(to), H(srcHost), ByteCount, hStream);
}

CUresult sim_cuMemcpyHtoAAsync(CUarray dstArray, unsigned dstOffset, const void *srcHost,
	unsigned ByteCount, CUstream hStream)
{
	return sim_cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}

CUresult sim_cuMemcpyAtoHAsync_v2(
	void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	ARRAY_OR_RETURN(srcArray, srcOffset, from);
	return line_async(H(dstHost), D(from), ByteCount, hStream);
}

CUresult sim_cuMemcpyAtoHAsync(
	void *dstHost, CUarray srcArray, unsigned srcOffset, unsigned ByteCount, CUstream hStream)
{
	return sim_cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

CUresult sim_cuMemcpyDtoA_v2(
	CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount)
{
	ARRAY_OR_RETURN(dstArray, dstOffset, to);
	return line(D(to), D(srcDevice), ByteCount);
}

CUresult sim_cuMemcpyDtoA(
	CUarray dstArray, unsigned dstOffset, CUdeviceptr_v1 srcDevice, unsigned ByteCount)
{
	return sim_cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}

CUresult sim_cuMemcpyAtoD_v2(
	CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	ARRAY_OR_RETURN(srcArray, srcOffset, from);
	return line(D(dstDevice), D(from), ByteCount);
}

CUresult sim_cuMemcpyAtoD(
	CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned srcOffset, unsigned ByteCount)
{
	return sim_cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}

CUresult sim_cuMemcpyAtoA_v2(
	CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	ARRAY_OR_RETURN(dstArray, dstOffset, to);
	ARRAY_OR_RETURN(srcArray, srcOffset, from);
	return line(D(to), D(from), ByteCount);
}

CUresult sim_cuMemcpyAtoA(CUarray dstArray, unsigned dstOffset, CUarray srcArray,
	unsigned srcOffset, unsigned ByteCount)
{
	return sim_cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}
