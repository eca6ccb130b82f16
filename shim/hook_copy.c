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

/* From where to where. */
struct way {
	enum cuward_direction direction;
	enum cuward_host host;
};

struct copy {
	struct way way;
	uint64_t bytes;
};

static __attribute__((noinline)) CUresult traced_copy(enum call call, CUresult result,
	uint64_t began_ns, uint64_t stream, struct copy copy, const struct gputime *time)
{
	struct event_copy event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .direction = copy.way.direction,
		.host = copy.way.host, .device = traced_device(), .result = result,
		.duration_ns = traced_duration(began_ns),
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

/* ---- ways: what memory is, the driver knows; it is not asked while a stream captures ---- */

/* SIDE_HOST: nobody knows which. */
enum side { SIDE_UNKNOWN, SIDE_DEVICE, SIDE_HOST, SIDE_PAGEABLE, SIDE_PINNED };

static enum side side_of(uint64_t pointer)
{
	unsigned type = 0;
	CUresult result;

	if (__atomic_load_n(&guest.captures, __ATOMIC_RELAXED))
		return SIDE_UNKNOWN;
	result = real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
	/* Memory that the driver never heard of. */
	if (result == CUDA_ERROR_INVALID_VALUE)
		return SIDE_PAGEABLE;
	if (result != CUDA_SUCCESS)
		return SIDE_UNKNOWN;
	return type == CU_MEMORYTYPE_HOST ? SIDE_PINNED : SIDE_DEVICE;
}

static enum cuward_host host_of(enum side side)
{
	return side == SIDE_PINNED ? HOST_PINNED : side == SIDE_PAGEABLE ? HOST_PAGEABLE : HOST_UNKNOWN;
}

static bool is_host(enum side side)
{
	return side >= SIDE_HOST;
}

static struct way between(enum side from, enum side to)
{
	if (from == SIDE_UNKNOWN || to == SIDE_UNKNOWN)
		return (struct way){ DIRECTION_UNKNOWN, HOST_UNKNOWN };
	if (is_host(from) && is_host(to))
		return (struct way){ DIRECTION_HTOH, host_of(from < to ? from : to) };
	if (is_host(from))
		return (struct way){ DIRECTION_HTOD, host_of(from) };
	if (is_host(to))
		return (struct way){ DIRECTION_DTOH, host_of(to) };
	return (struct way){ DIRECTION_DTOD, HOST_NONE };
}

static struct way from_host(const void *host)
{
	return (struct way){ DIRECTION_HTOD, host_of(side_of((uint64_t)host)) };
}

static struct way to_host(const void *host)
{
	return (struct way){ DIRECTION_DTOH, host_of(side_of((uint64_t)host)) };
}

static struct way anywhere(CUdeviceptr to, CUdeviceptr from)
{
	return between(side_of(from), side_of(to));
}

#define ON_DEVICE(direction) ((struct way){ direction, HOST_NONE })
#define SET ON_DEVICE(DIRECTION_SET)
#define NOT_KNOWN ((struct way){ DIRECTION_UNKNOWN, HOST_UNKNOWN })

/* One end of a box: its descriptor says what it is. */
static enum side box_side(CUmemorytype type, const void *host, uint64_t device)
{
	enum side side;

	switch (type) {
	case CU_MEMORYTYPE_HOST:
		side = side_of((uint64_t)host);
		return is_host(side) ? side : SIDE_HOST;
	case CU_MEMORYTYPE_UNIFIED:
		return side_of(device);
	default:
		return SIDE_DEVICE;
	}
}

#define BOX_WAY(box) \
	between(box_side((box)->srcMemoryType, (box)->srcHost, (box)->srcDevice), \
		box_side((box)->dstMemoryType, (box)->dstHost, (box)->dstDevice))

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
		struct copy cw_copy = { NOT_KNOWN, 0 }; \
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

COPY(cuMemcpy, anywhere(dst, src), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpy2D, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DAsync, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, false))
COPY(cuMemcpy2DAsync_v2, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, false))
COPY(cuMemcpy2DAsync_v2_ptsz, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(hStream, true))
COPY(cuMemcpy2DUnaligned, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DUnaligned_v2, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2DUnaligned_v2_ptds, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, true))
COPY(cuMemcpy2D_v2, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, false))
COPY(cuMemcpy2D_v2_ptds, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, 1), traced_stream(NULL, true))
COPY(cuMemcpy3D, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3DAsync, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DAsync_v2, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DAsync_v2_ptsz, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, true))
COPY(cuMemcpy3DBatchAsync, NOT_KNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, false))
COPY(cuMemcpy3DBatchAsync_ptsz, NOT_KNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, true))
COPY(cuMemcpy3DBatchAsync_v2, NOT_KNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, false))
COPY(cuMemcpy3DBatchAsync_v2_ptsz, NOT_KNOWN,
	batch_volume(opList, numOps), traced_stream(hStream, true))
#ifdef PARAMS_cuMemcpy3DWithAttributesAsync
COPY(cuMemcpy3DWithAttributesAsync, NOT_KNOWN,
	batch_volume(op, 1), traced_stream(hStream, false))
COPY(cuMemcpy3DWithAttributesAsync_ptsz, NOT_KNOWN,
	batch_volume(op, 1), traced_stream(hStream, true))
COPY(cuMemcpyWithAttributesAsync, anywhere(dst, src), size, traced_stream(hStream, false))
COPY(cuMemcpyWithAttributesAsync_ptsz, anywhere(dst, src), size, traced_stream(hStream, true))
#endif
COPY(cuMemcpy3DPeer, ON_DEVICE(DIRECTION_PEER),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3DPeerAsync, ON_DEVICE(DIRECTION_PEER),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, false))
COPY(cuMemcpy3DPeerAsync_ptsz, ON_DEVICE(DIRECTION_PEER),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(hStream, true))
COPY(cuMemcpy3DPeer_ptds, ON_DEVICE(DIRECTION_PEER),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, true))
COPY(cuMemcpy3D_v2, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, false))
COPY(cuMemcpy3D_v2_ptds, BOX_WAY(pCopy),
	area(pCopy->WidthInBytes, pCopy->Height, pCopy->Depth), traced_stream(NULL, true))
COPY(cuMemcpyAsync, anywhere(dst, src), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAsync_ptsz, anywhere(dst, src), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyAtoA, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoA_v2, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoA_v2_ptds, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyAtoD, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoD_v2, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoD_v2_ptds, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyAtoH, to_host(dstHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoHAsync, to_host(dstHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAtoHAsync_v2, to_host(dstHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyAtoHAsync_v2_ptsz, to_host(dstHost), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyAtoH_v2, to_host(dstHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyAtoH_v2_ptds, to_host(dstHost), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyBatchAsync, NOT_KNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, false))
COPY(cuMemcpyBatchAsync_ptsz, NOT_KNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, true))
COPY(cuMemcpyBatchAsync_v2, NOT_KNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, false))
COPY(cuMemcpyBatchAsync_v2_ptsz, NOT_KNOWN,
	batch_bytes(sizes, count), traced_stream(hStream, true))
COPY(cuMemcpyDtoA, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoA_v2, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoA_v2_ptds, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyDtoD, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoDAsync, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoDAsync_v2, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoDAsync_v2_ptsz, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyDtoD_v2, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoD_v2_ptds, ON_DEVICE(DIRECTION_DTOD), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyDtoH, to_host(dstHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoHAsync, to_host(dstHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoHAsync_v2, to_host(dstHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyDtoHAsync_v2_ptsz, to_host(dstHost), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyDtoH_v2, to_host(dstHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyDtoH_v2_ptds, to_host(dstHost), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyHtoA, from_host(srcHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoAAsync, from_host(srcHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoAAsync_v2, from_host(srcHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoAAsync_v2_ptsz, from_host(srcHost), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyHtoA_v2, from_host(srcHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoA_v2_ptds, from_host(srcHost), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyHtoD, from_host(srcHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoDAsync, from_host(srcHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoDAsync_v2, from_host(srcHost), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyHtoDAsync_v2_ptsz, from_host(srcHost), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyHtoD_v2, from_host(srcHost), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyHtoD_v2_ptds, from_host(srcHost), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpyPeer, ON_DEVICE(DIRECTION_PEER), ByteCount, traced_stream(NULL, false))
COPY(cuMemcpyPeerAsync, ON_DEVICE(DIRECTION_PEER), ByteCount, traced_stream(hStream, false))
COPY(cuMemcpyPeerAsync_ptsz, ON_DEVICE(DIRECTION_PEER), ByteCount, traced_stream(hStream, true))
COPY(cuMemcpyPeer_ptds, ON_DEVICE(DIRECTION_PEER), ByteCount, traced_stream(NULL, true))
COPY(cuMemcpy_ptds, anywhere(dst, src), ByteCount, traced_stream(NULL, true))
COPY(cuMemsetD16, SET, area(N, 2, 1), traced_stream(NULL, false))
COPY(cuMemsetD16Async, SET, area(N, 2, 1), traced_stream(hStream, false))
COPY(cuMemsetD16Async_ptsz, SET, area(N, 2, 1), traced_stream(hStream, true))
COPY(cuMemsetD16_v2, SET, area(N, 2, 1), traced_stream(NULL, false))
COPY(cuMemsetD16_v2_ptds, SET, area(N, 2, 1), traced_stream(NULL, true))
COPY(cuMemsetD2D16, SET, area(Width, Height, 2), traced_stream(NULL, false))
COPY(cuMemsetD2D16Async, SET, area(Width, Height, 2), traced_stream(hStream, false))
COPY(cuMemsetD2D16Async_ptsz, SET, area(Width, Height, 2), traced_stream(hStream, true))
COPY(cuMemsetD2D16_v2, SET, area(Width, Height, 2), traced_stream(NULL, false))
COPY(cuMemsetD2D16_v2_ptds, SET, area(Width, Height, 2), traced_stream(NULL, true))
COPY(cuMemsetD2D32, SET, area(Width, Height, 4), traced_stream(NULL, false))
COPY(cuMemsetD2D32Async, SET, area(Width, Height, 4), traced_stream(hStream, false))
COPY(cuMemsetD2D32Async_ptsz, SET, area(Width, Height, 4), traced_stream(hStream, true))
COPY(cuMemsetD2D32_v2, SET, area(Width, Height, 4), traced_stream(NULL, false))
COPY(cuMemsetD2D32_v2_ptds, SET, area(Width, Height, 4), traced_stream(NULL, true))
COPY(cuMemsetD2D8, SET, area(Width, Height, 1), traced_stream(NULL, false))
COPY(cuMemsetD2D8Async, SET, area(Width, Height, 1), traced_stream(hStream, false))
COPY(cuMemsetD2D8Async_ptsz, SET, area(Width, Height, 1), traced_stream(hStream, true))
COPY(cuMemsetD2D8_v2, SET, area(Width, Height, 1), traced_stream(NULL, false))
COPY(cuMemsetD2D8_v2_ptds, SET, area(Width, Height, 1), traced_stream(NULL, true))
COPY(cuMemsetD32, SET, area(N, 4, 1), traced_stream(NULL, false))
COPY(cuMemsetD32Async, SET, area(N, 4, 1), traced_stream(hStream, false))
COPY(cuMemsetD32Async_ptsz, SET, area(N, 4, 1), traced_stream(hStream, true))
COPY(cuMemsetD32_v2, SET, area(N, 4, 1), traced_stream(NULL, false))
COPY(cuMemsetD32_v2_ptds, SET, area(N, 4, 1), traced_stream(NULL, true))
COPY(cuMemsetD8, SET, area(N, 1, 1), traced_stream(NULL, false))
COPY(cuMemsetD8Async, SET, area(N, 1, 1), traced_stream(hStream, false))
COPY(cuMemsetD8Async_ptsz, SET, area(N, 1, 1), traced_stream(hStream, true))
COPY(cuMemsetD8_v2, SET, area(N, 1, 1), traced_stream(NULL, false))
COPY(cuMemsetD8_v2_ptds, SET, area(N, 1, 1), traced_stream(NULL, true))
