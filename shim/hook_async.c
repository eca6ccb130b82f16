/*
 * hook_async.c - stream-ordered memory and pools.
 *
 * The device is the stream's, or the pool's, whatever context is current. On a capturing stream the
 * call makes a node of a graph and no memory: graph_memory.h.
 */
#include "capture.h"
#include "grant.h"
#include "graph_memory.h"
#include "pool.h"
#include "traced.h"

/* A stream that nobody was seen to create: another library's, or one the driver keeps for itself. */
static __attribute__((noinline)) int unseen_stream_device(CUstream stream)
{
	struct ledger_record record;
	CUcontext context = NULL;
	CUdevice handle;

	if (real.cuStreamGetDevice(stream, &handle) == CUDA_SUCCESS)
		return guest_device_index(handle);
	if (real.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
	    grant_object_find(OBJECT_CONTEXT, (uint64_t)context, &record) &&
	    record.device != UINT8_MAX)
		return record.device;
	return guest_current_device(guest_thread(), &context);
}

/* Handles up to 2 stand for default streams: of the current context. */
static int stream_device(CUstream stream)
{
	struct ledger_record record;
	CUcontext context;

	if ((uint64_t)stream <= 2)
		return guest_current_device(guest_thread(), &context);
	if (grant_object_find(OBJECT_STREAM, (uint64_t)stream, &record) &&
	    record.device != UINT8_MAX)
		return record.device;
	return unseen_stream_device(stream);
}

static CUresult open_async(struct grant *grant, size_t bytes, CUstream stream, bool per_thread,
	CUmemoryPool pool)
{
	struct grant_request request = {
		.kind = KIND_POOL, .class = CLASS_MEMORY, .bytes = bytes, .charged = true, .device = -1,
		.stream = traced_stream(stream, per_thread),
	};

	if (attention_wanted())
		guest_look();
	if (pool)
		pool_describe(pool, &request);
	/* Managed memory of no preferred place is somewhere all the same: where it is used first. */
	if (request.device < 0 && request.kind != KIND_PINNED)
		request.device = stream_device(stream);
	request.pooled = request.kind == KIND_POOL && unlikely(guest.policy.pools_reserved);
	request.pool = (uint64_t)pool;
	return grant_open_for(grant, &request);
}

/* It becomes a node of the graph that the stream is captured into. */
static CUresult may_capture(size_t bytes, CUstream stream, CUmemoryPool pool)
{
	struct grant_request request = { .kind = KIND_POOL, .device = -1 };

	if (pool)
		pool_describe(pool, &request);
	return graph_memory_node(request.device < 0 ? stream_device(stream) : request.device, bytes);
}

static CUresult captured(CUresult result)
{
	if (result == CUDA_SUCCESS)
		graph_memory_made();
	return result;
}

#define ALLOC_ASYNC(name, memory_pool, per_thread) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result; \
\
		if (unlikely(capture_is_active(hStream, per_thread))) { \
			cw_result = may_capture(bytesize, hStream, memory_pool); \
			return cw_result == CUDA_SUCCESS ? captured(real.name ARGS_##name) : cw_result; \
		} \
		cw_result = open_async(&cw_grant, bytesize, hStream, per_thread, memory_pool); \
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		cw_result = grant_close(&cw_grant, cw_result, cw_result == CUDA_SUCCESS ? *dptr : 0); \
		if (unlikely(guest.policy.pools_reserved)) \
			pool_look(cw_grant.device); \
		return cw_result; \
	}

ALLOC_ASYNC(cuMemAllocAsync, NULL, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, NULL, true)
ALLOC_ASYNC(cuMemAllocFromPoolAsync, pool, false)
ALLOC_ASYNC(cuMemAllocFromPoolAsync_ptsz, pool, true)

#define FREE_ASYNC(name, per_thread) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct release cw_release; \
\
		if (unlikely(capture_is_active(hStream, per_thread))) \
			return real.name ARGS_##name; \
		release_open(&cw_release, CLASS_MEMORY, dptr); \
		return release_close(&cw_release, real.name ARGS_##name); \
	}

FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)
