/*
 * sim_context_info.c - properties of contexts: limits, flags, versions, peers.
 */
#include "sim_context.h"
#include "sim_knobs.h"
#include "sim_pool.h"
#include "sim_stream.h"

/* Nearly every call here needs a current context and one pointer to answer through. */
#define CONTEXT_OR_RETURN(context, pointer) \
	struct context *context; \
	CUresult context##_result = context_current(&context); \
	if (context##_result != CUDA_SUCCESS) \
		return context##_result; \
	if (!(pointer)) \
	return CUDA_ERROR_INVALID_VALUE

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
	CONTEXT_OR_RETURN(context, flags);
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
	CONTEXT_OR_RETURN(context, !(flags & ~(unsigned)CU_CTX_FLAGS_MASK));
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct context *context = ctx ? context_get(ctx) : sim_thread.current;

	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ctxId = context->id;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct context *context = ctx ? context_get(ctx) : sim_thread.current;

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = context->api_version;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	CONTEXT_OR_RETURN(context, pvalue);
	if ((unsigned)limit >= CU_LIMIT_MAX || (unsigned)limit >= LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = context->limits[limit];
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
	size_t before;

	CONTEXT_OR_RETURN(context, context);
	if ((unsigned)limit >= CU_LIMIT_MAX || (unsigned)limit >= LIMITS)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	context = context->owner; /* memory of a green context is its primary's */
	before = context->limits[limit];
	if (value > context->device->memory && (limit == CU_LIMIT_MALLOC_HEAP_SIZE ||
						       limit == CU_LIMIT_PRINTF_FIFO_SIZE))
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->limits[limit] = value;
	if (context_grow(context))
		return CUDA_SUCCESS;
	context->limits[limit] = before;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	CONTEXT_OR_RETURN(context, pconfig);
	*pconfig = context->cache;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
	CONTEXT_OR_RETURN(context, config <= CU_FUNC_CACHE_PREFER_EQUAL);
	context->cache = config;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	CONTEXT_OR_RETURN(context, pConfig);
	*pConfig = context->shared ? context->shared : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	CONTEXT_OR_RETURN(context, config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
	context->shared = config;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	CONTEXT_OR_RETURN(context, context);
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
	CONTEXT_OR_RETURN(context, context);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	CONTEXT_OR_RETURN(context, pExecAffinity);
	(void)type;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

static CUresult synchronize(struct context *context)
{
	struct stream *stream = NULL;
	CUresult result;

	if (capture_refuses(&result))
		return result;
	while ((stream = object_next(KIND_stream, stream)))
		if (stream->object.context == context)
			stream_wait(stream);
	if (context->gone_ready > sim_now())
		sim_sleep_until(context->gone_ready);
	count_one(&usage_process()->synchronised);
	pools_synchronised(context->device);
	return context->error;
}

CUresult sim_cuCtxSynchronize(void)
{
	CONTEXT_OR_RETURN(context, context);
	return synchronize(context);
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct context *context = ctx ? context_get(ctx) : sim_thread.current;

	return context && context->active ? synchronize(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct context *peer = context_get(peerContext);

	CONTEXT_OR_RETURN(context, !Flags);
	if (!peer || !peer->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (peer->device == context->device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (context->peers >> peer->device->index & 1)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= (uint64_t)1 << peer->device->index;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct context *peer = context_get(peerContext);

	CONTEXT_OR_RETURN(context, context);
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(context->peers >> peer->device->index & 1))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->peers &= ~((uint64_t)1 << peer->device->index);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CONTEXT_OR_RETURN(context, free && total);
	*total = context->device->memory;
	*free = *total - device_physical(context->device);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t wide_free, wide_total;

	CONTEXT_OR_RETURN(context, free && total);
	if (sim_cuMemGetInfo_v2(&wide_free, &wide_total))
		return CUDA_ERROR_INVALID_CONTEXT;
	*free = wide_free > UINT32_MAX ? UINT32_MAX : (unsigned)wide_free;
	*total = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned)wide_total;
	return CUDA_SUCCESS;
}
