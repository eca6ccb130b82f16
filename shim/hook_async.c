/*
 * hook_async.c - stream-ordered memory and pools.
 *
 * The device is the stream's, or the pool's, whatever context is current. On a capturing stream the
 * call makes a node of a graph and no memory: it passes through.
 */
#include "grant.h"
#include "traced.h"

static bool is_capturing(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (likely(__atomic_load_n(&guest.captures, __ATOMIC_RELAXED) == 0))
		return false;
	if (per_thread)
		real.cuStreamIsCapturing_ptsz(stream, &status);
	else
		real.cuStreamIsCapturing(stream, &status);
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Handles up to 2 stand for default streams: of the current context. */
static int stream_device(CUstream stream)
{
	struct ledger_record record;
	CUcontext context;

	if ((uint64_t)stream > 2 && grant_object_find(OBJECT_STREAM, (uint64_t)stream, &record) &&
	    record.device != UINT8_MAX)
		return record.device;
	return guest_current_device(guest_thread(), &context);
}

/* A pool nobody created is some device's default one, whatever the stream; -1 for none. */
static int default_pool_device(CUmemoryPool pool)
{
	for (uint32_t i = 0; i < guest.device_count; i++) {
		CUmemoryPool its = NULL;

		if (real.cuDeviceGetDefaultMemPool(&its, guest.devices[i].handle) == CUDA_SUCCESS &&
		    its == pool)
			return i;
	}
	return -1;
}

static CUresult open_async(struct grant *grant, size_t bytes, CUstream stream, bool per_thread,
	CUmemoryPool pool)
{
	struct ledger_record record;
	struct grant_request request = {
		.kind = KIND_POOL, .class = CLASS_MEMORY, .bytes = bytes, .charged = true,
		.stream = traced_stream(stream, per_thread),
	};

	if (unlikely(!guest.attached))
		guest_attach();
	if (pool && grant_object_find(OBJECT_MEM_POOL, (uint64_t)pool, &record)) {
		request.device = record.device == UINT8_MAX ? -1 : record.device;
		/* A pool of host memory: no GPU pays. */
		if (request.device < 0) {
			request.kind = KIND_PINNED;
			request.charged = false;
		}
	} else {
		request.device = pool ? default_pool_device(pool) : -1;
		if (request.device < 0)
			request.device = stream_device(stream);
	}
	return grant_open_for(grant, &request);
}

#define ALLOC_ASYNC(name, memory_pool, per_thread) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result; \
\
		if (is_capturing(hStream, per_thread)) \
			return real.name ARGS_##name; \
		cw_result = open_async(&cw_grant, bytesize, hStream, per_thread, memory_pool); \
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		return grant_close(&cw_grant, cw_result, cw_result == CUDA_SUCCESS ? *dptr : 0); \
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
		if (is_capturing(hStream, per_thread)) \
			return real.name ARGS_##name; \
		release_open(&cw_release, CLASS_MEMORY, dptr); \
		return release_close(&cw_release, real.name ARGS_##name); \
	}

FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)

CUresult on_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemPoolCreate(pool, poolProps);

	if (result == CUDA_SUCCESS) {
		int device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
			guest_device_index(poolProps->location.id) : -1;

		grant_object_created(OBJECT_MEM_POOL, (uint64_t)*pool, device, NULL);
	}
	return traced_end(CALL_cuMemPoolCreate, result, began_ns);
}

CUresult on_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct release release;

	grant_object_open(&release, OBJECT_MEM_POOL, (uint64_t)pool);
	return release_close(&release, real.cuMemPoolDestroy(pool));
}
