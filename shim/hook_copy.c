/*
 * hook_copy.c - copies and sets: one event each, with bytes, direction and stream.
 *
 * One row a call. The expressions are evaluated after a success only: a failed call may have been
 * given anything.
 */
#include <string.h>

#include "blocked.h"
#include "gputime.h"
#include "traced.h"

struct copy {
	enum cuward_direction direction;
	uint64_t bytes;
};

static __attribute__((noinline)) CUresult traced_copy(enum call call, CUresult result,
	uint64_t began_ns, uint64_t stream, struct copy copy, const struct gputime *time)
{
	struct event_copy event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .direction = copy.direction,
		.device = traced_device(), .result = result, .duration_ns = traced_duration(began_ns),
		.bytes = copy.bytes, .stream = stream, .correlation = traced_correlation(guest_thread()),
	};

	trace_define_api(guest.key, call);
	trace_copy(&event);
	gputime_close(time, event.correlation, result, began_ns + event.duration_ns);
	return result;
}

/* Saturating: a count of bytes never wraps. */
static uint64_t area(uint64_t width, uint64_t height, uint64_t depth)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(width, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes))
		return UINT64_MAX;
	return bytes;
}

static enum cuward_direction between(CUmemorytype from, CUmemorytype to)
{
	if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
		return DIRECTION_UNKNOWN;
	if (from == CU_MEMORYTYPE_HOST)
		return to == CU_MEMORYTYPE_HOST ? DIRECTION_HTOH : DIRECTION_HTOD;
	return to == CU_MEMORYTYPE_HOST ? DIRECTION_DTOH : DIRECTION_DTOD;
}

static uint64_t batch_bytes(const size_t *sizes, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += sizes[i];
	return bytes;
}

/* Elements, not bytes: the operands do not tell how large an element of theirs is. */
static uint64_t batch_volume(const CUDA_MEMCPY3D_BATCH_OP *operations, size_t count)
{
	uint64_t volume = 0;

	for (size_t i = 0; i < count; i++)
		volume += area(operations[i].extent.width, operations[i].extent.height,
			operations[i].extent.depth);
	return volume;
}

/* How long the others take, their duration says. Known when this is compiled. */
#define IS_ASYNC(name) (strstr(name, "Async") != NULL)
/* Work before it that never ends keeps the caller here. */
#define MAY_WAIT(name) (!IS_ASYNC(name) && strncmp(name, "cuMemcpy", 8) == 0)

#define COPY(name, way, size, stream) \
	static __attribute__((noinline)) CUresult traced_##name PARAMS_##name \
	{ \
		const uint64_t cw_stream = stream; \
		struct copy cw_copy = { DIRECTION_UNKNOWN, 0 }; \
		struct gputime cw_time; \
		uint64_t cw_began_ns; \
		CUresult cw_result; \
\
		if (!attend_slow()) \
			return real.name ARGS_##name; \
		gputime_open(&cw_time, IS_ASYNC(#name) ? cw_stream : 0); \
		cw_began_ns = guest_clock_ns(); \
		cw_result = real.name ARGS_##name; \
		if (cw_result == CUDA_SUCCESS) \
			cw_copy = (struct copy){ way, size }; \
		return traced_copy(CALL_##name, cw_result, cw_began_ns, cw_stream, cw_copy, &cw_time); \
	} \
	CUresult on_##name PARAMS_##name \
	{ \
		CUresult cw_result; \
\
		if (!MAY_WAIT(#name)) \
			return (attention_wanted() ? traced_##name : real.name) ARGS_##name; \
		blocked_open(CALL_##name); \
		cw_result = (attention_wanted() ? traced_##name : real.name) ARGS_##name; \
		blocked_close(); \
		return cw_result; \
	}

COPY(cuMemcpy, DIRECTION_UNKNOWN, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpy2D, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DAsync, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, false))
COPY(cuMemcpy2DAsync_v2, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, false))
COPY(cuMemcpy2DAsync_v2_ptsz, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, true))
COPY(cuMemcpy2DUnaligned, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DUnaligned_v2, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DUnaligned_v2_ptds, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, true))
COPY(cuMemcpy2D_v2, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2D_v2_ptds, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, true))
COPY(cuMemcpy3D, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3DAsync, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DAsync_v2, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DAsync_v2_ptsz, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, true))
COPY(cuMemcpy3DBatchAsync, DIRECTION_UNKNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, false))
COPY(cuMemcpy3DBatchAsync_ptsz, DIRECTION_UNKNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, true))
COPY(cuMemcpy3DBatchAsync_v2, DIRECTION_UNKNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, false))
COPY(cuMemcpy3DBatchAsync_v2_ptsz, DIRECTION_UNKNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, true))
COPY(cuMemcpy3DPeer, DIRECTION_PEER,
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3DPeerAsync, DIRECTION_PEER,
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DPeerAsync_ptsz, DIRECTION_PEER,
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, true))
COPY(cuMemcpy3DPeer_ptds, DIRECTION_PEER,
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, true))
COPY(cuMemcpy3D_v2, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3D_v2_ptds, between(pCopy->srcMemoryType, pCopy->dstMemoryType),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, true))
COPY(cuMemcpyAsync, DIRECTION_UNKNOWN, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAsync_ptsz, DIRECTION_UNKNOWN, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyAtoA, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoA_v2, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoA_v2_ptds, DIRECTION_DTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyAtoD, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoD_v2, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoD_v2_ptds, DIRECTION_DTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyAtoH, DIRECTION_DTOH, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoHAsync, DIRECTION_DTOH, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAtoHAsync_v2, DIRECTION_DTOH, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAtoHAsync_v2_ptsz, DIRECTION_DTOH, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyAtoH_v2, DIRECTION_DTOH, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoH_v2_ptds, DIRECTION_DTOH, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyBatchAsync, DIRECTION_UNKNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, false))
COPY(cuMemcpyBatchAsync_ptsz, DIRECTION_UNKNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, true))
COPY(cuMemcpyBatchAsync_v2, DIRECTION_UNKNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, false))
COPY(cuMemcpyBatchAsync_v2_ptsz, DIRECTION_UNKNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, true))
COPY(cuMemcpyDtoA, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoA_v2, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoA_v2_ptds, DIRECTION_DTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyDtoD, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoDAsync, DIRECTION_DTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoDAsync_v2, DIRECTION_DTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoDAsync_v2_ptsz, DIRECTION_DTOD, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyDtoD_v2, DIRECTION_DTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoD_v2_ptds, DIRECTION_DTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyDtoH, DIRECTION_DTOH, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoHAsync, DIRECTION_DTOH, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoHAsync_v2, DIRECTION_DTOH, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoHAsync_v2_ptsz, DIRECTION_DTOH, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyDtoH_v2, DIRECTION_DTOH, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoH_v2_ptds, DIRECTION_DTOH, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyHtoA, DIRECTION_HTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoAAsync, DIRECTION_HTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoAAsync_v2, DIRECTION_HTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoAAsync_v2_ptsz, DIRECTION_HTOD, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyHtoA_v2, DIRECTION_HTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoA_v2_ptds, DIRECTION_HTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyHtoD, DIRECTION_HTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoDAsync, DIRECTION_HTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoDAsync_v2, DIRECTION_HTOD, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoDAsync_v2_ptsz, DIRECTION_HTOD, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyHtoD_v2, DIRECTION_HTOD, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoD_v2_ptds, DIRECTION_HTOD, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyPeer, DIRECTION_PEER, ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyPeerAsync, DIRECTION_PEER, ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyPeerAsync_ptsz, DIRECTION_PEER, ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyPeer_ptds, DIRECTION_PEER, ByteCount, traced_stream(NULL, true))
COPY(cuMemcpy_ptds, DIRECTION_UNKNOWN, ByteCount, traced_stream(NULL, true))
COPY(cuMemsetD16, DIRECTION_SET, area(N, 2, 1), traced_stream(NULL, false))
COPY(cuMemsetD16Async, DIRECTION_SET, area(N, 2, 1), traced_stream(hStream, false))
COPY(cuMemsetD16Async_ptsz, DIRECTION_SET, area(N, 2, 1), traced_stream(hStream, true))
COPY(cuMemsetD16_v2, DIRECTION_SET, area(N, 2, 1), traced_stream(NULL, false))
COPY(cuMemsetD16_v2_ptds, DIRECTION_SET, area(N, 2, 1), traced_stream(NULL, true))
COPY(cuMemsetD2D16, DIRECTION_SET, area(Width, Height, 2), traced_stream(NULL, false))
COPY(cuMemsetD2D16Async, DIRECTION_SET, area(Width, Height, 2), traced_stream(hStream, false))
COPY(cuMemsetD2D16Async_ptsz, DIRECTION_SET, area(Width, Height, 2), traced_stream(hStream, true))
COPY(cuMemsetD2D16_v2, DIRECTION_SET, area(Width, Height, 2), traced_stream(NULL, false))
COPY(cuMemsetD2D16_v2_ptds, DIRECTION_SET, area(Width, Height, 2), traced_stream(NULL, true))
COPY(cuMemsetD2D32, DIRECTION_SET, area(Width, Height, 4), traced_stream(NULL, false))
COPY(cuMemsetD2D32Async, DIRECTION_SET, area(Width, Height, 4), traced_stream(hStream, false))
COPY(cuMemsetD2D32Async_ptsz, DIRECTION_SET, area(Width, Height, 4), traced_stream(hStream, true))
COPY(cuMemsetD2D32_v2, DIRECTION_SET, area(Width, Height, 4), traced_stream(NULL, false))
COPY(cuMemsetD2D32_v2_ptds, DIRECTION_SET, area(Width, Height, 4), traced_stream(NULL, true))
COPY(cuMemsetD2D8, DIRECTION_SET, area(Width, Height, 1), traced_stream(NULL, false))
COPY(cuMemsetD2D8Async, DIRECTION_SET, area(Width, Height, 1), traced_stream(hStream, false))
COPY(cuMemsetD2D8Async_ptsz, DIRECTION_SET, area(Width, Height, 1), traced_stream(hStream, true))
COPY(cuMemsetD2D8_v2, DIRECTION_SET, area(Width, Height, 1), traced_stream(NULL, false))
COPY(cuMemsetD2D8_v2_ptds, DIRECTION_SET, area(Width, Height, 1), traced_stream(NULL, true))
COPY(cuMemsetD32, DIRECTION_SET, area(N, 4, 1), traced_stream(NULL, false))
COPY(cuMemsetD32Async, DIRECTION_SET, area(N, 4, 1), traced_stream(hStream, false))
COPY(cuMemsetD32Async_ptsz, DIRECTION_SET, area(N, 4, 1), traced_stream(hStream, true))
COPY(cuMemsetD32_v2, DIRECTION_SET, area(N, 4, 1), traced_stream(NULL, false))
COPY(cuMemsetD32_v2_ptds, DIRECTION_SET, area(N, 4, 1), traced_stream(NULL, true))
COPY(cuMemsetD8, DIRECTION_SET, area(N, 1, 1), traced_stream(NULL, false))
COPY(cuMemsetD8Async, DIRECTION_SET, area(N, 1, 1), traced_stream(hStream, false))
COPY(cuMemsetD8Async_ptsz, DIRECTION_SET, area(N, 1, 1), traced_stream(hStream, true))
COPY(cuMemsetD8_v2, DIRECTION_SET, area(N, 1, 1), traced_stream(NULL, false))
COPY(cuMemsetD8_v2_ptds, DIRECTION_SET, area(N, 1, 1), traced_stream(NULL, true))
