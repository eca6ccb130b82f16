/*
 * sim_stream.c - streams: clocks that are read only where simulated time matters.
 */
#include "sim_stream.h"
#include "sim_graph.h"
#include "sim_pool.h"

#include <string.h>

static _Atomic unsigned long long next_id = 3; /* 1 and 2 are handles of default streams */

/* ---- which stream ---- */

static struct stream *find_own(struct context *context)
{
	struct stream *stream = NULL;

	while ((stream = object_next(KIND_stream, stream)))
		if (stream->object.context == context && stream->thread == sim_thread_id())
			return stream;
	stream = stream_open(context, CU_STREAM_DEFAULT, 0);
	if (stream)
		stream->thread = sim_thread_id();
	return stream;
}

/* The calling thread's default stream in this context. */
static struct stream *own_stream(struct context *context)
{
	struct stream *stream = sim_thread.own_stream;

	if (!stream || !stream->object.alive || stream->object.context != context ||
		stream->thread != sim_thread_id())
		stream = sim_thread.own_stream = find_own(context);
	return stream;
}

CUresult stream_of(CUstream handle, struct stream **stream)
{
	struct context *context;
	CUresult result;

	if ((uintptr_t)handle > 2) {
		*stream = object_get(KIND_stream, handle);
		if (!*stream)
			return CUDA_ERROR_INVALID_HANDLE;
		/* Streams survive a green context, of no use. */
		return (*stream)->object.context->active ? CUDA_SUCCESS
							 : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	result = context_current(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (handle == CU_STREAM_PER_THREAD || (!handle && sim_thread.per_thread))
		*stream = own_stream(context);
	else
		*stream = context->legacy;
	return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct stream *stream_open(struct context *context, unsigned flags, int priority)
{
	struct stream *stream = object_new(KIND_stream, context);

	if (!stream)
		return NULL;
	stream->flags = flags;
	stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	stream->priority = priority;
	stream->id = next_id++;
	return stream;
}

static void raise_to(sim_count *clock, uint64_t when)
{
	uint64_t seen = atomic_load(clock);

	while (seen < when && !atomic_compare_exchange_weak(clock, &seen, when))
		;
}

/* Work that is under way goes on; only the handle is gone. */
void stream_close(struct stream *stream)
{
	raise_to(&stream->object.context->gone_ready, atomic_load(&stream->ready));
	capture_abandon(stream);
	tails_drop(&stream->tails);
	object_delete(stream);
}

/* ---- time ---- */

/* Work given to the stream now starts when its own work is done and, by the rules of the legacy
 * stream, that of others. */
static uint64_t busy_until(const struct stream *stream)
{
	struct context *context = stream->object.context;
	uint64_t ready = atomic_load_explicit(&stream->ready, memory_order_relaxed);

	if (stream == context->legacy)
		return larger(ready, context->blocking_ready);
	return stream->blocking && context->legacy ? larger(ready, context->legacy->ready) : ready;
}

uint64_t stream_append(struct stream *stream, uint64_t ns)
{
	uint64_t after = busy_until(stream), now, seen, end;

	if (!ns && !after)
		return 0;
	now = sim_now();
	seen = atomic_load(&stream->ready);
	do {
		end = larger(larger(after, seen), now);
		end = ns > SIM_NEVER - end ? SIM_NEVER : end + ns;
	} while (seen < end && !atomic_compare_exchange_weak(&stream->ready, &seen, end));
	if (stream->blocking)
		raise_to(&stream->object.context->blocking_ready, end);
	return end;
}

bool stream_idle(struct stream *stream)
{
	uint64_t until = busy_until(stream);

	return stream->hosts_done >= stream->hosts_submitted && (!until || until <= sim_now());
}

/* Callbacks end in their own time, so look at them after the clock. */
void stream_wait(struct stream *stream)
{
	uint64_t until = busy_until(stream), hosts = stream->hosts_submitted;

	if (until && until > sim_now())
		sim_sleep_until(until);
	while (stream->hosts_done < hosts)
		sim_sleep_until(sim_now() + 20000);
}

/* ---- calls ---- */

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct context *context;
	struct stream *stream;
	CUresult result = context_current(&context);

	if (!phStream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	stream = stream_open(context, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object_give(stream, GIVEN_stream);
	*phStream = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream hStream)
{
	struct stream *stream = object_get(KIND_stream, hStream);

	if (!stream || stream == stream->object.context->legacy || stream->thread)
		return CUDA_ERROR_INVALID_HANDLE;
	stream_close(stream);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy(CUstream hStream)
{
	return sim_cuStreamDestroy_v2(hStream);
}

CUresult sim_cuStreamSynchronize(CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (stream->capture) {
		capture_invalidate(stream);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (capture_refuses(&result))
		return result;
	stream_wait(stream);
	count_one(&usage_process()->synchronised);
	pools_synchronised(stream->object.context->device);
	return stream->object.context->error;
}

CUresult sim_cuStreamQuery(CUstream hStream)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (stream->capture) {
		capture_invalidate(stream);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (stream->object.context->error)
		return stream->object.context->error;
	return stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct stream *stream;
	CUresult result = pctx ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*pctx = (CUcontext)stream->object.context;
	return result;
}

CUresult sim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUresult result = sim_cuStreamGetCtx(hStream, pCtx);

	if (result == CUDA_SUCCESS && pGreenCtx)
		*pGreenCtx = NULL;
	return result;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct stream *stream;
	CUresult result = device ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*device = stream->object.context->device->ordinal;
	return result;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct stream *stream;
	CUresult result = flags ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*flags = stream->flags;
	return result;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct stream *stream;
	CUresult result = priority ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*priority = stream->priority;
	return result;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct stream *stream;
	CUresult result = streamId ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*streamId = stream->id;
	return result;
}

CUresult sim_cuStreamAttachMemAsync(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct stream *stream;
	struct found found;

	(void)length, (void)flags;
	if (!memory_find(dptr, &found) || found.heap->family != FAMILY_managed)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_of(hStream, &stream);
}

CUresult sim_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct stream *to, *from;
	CUresult result = stream_of(dst, &to);

	if (result == CUDA_SUCCESS)
		result = stream_of(src, &from);
	if (result == CUDA_SUCCESS) {
		to->window = from->window;
		to->policy = from->policy;
	}
	return result;
}

static CUstreamAttrValue *attribute(struct stream *stream, CUstreamAttrID attr)
{
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		return &stream->window;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		return &stream->policy;
	default:
		return NULL;
	}
}

CUresult sim_cuStreamGetAttribute(
	CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value_out || !attribute(stream, attr))
		return CUDA_ERROR_INVALID_VALUE;
	*value_out = *attribute(stream, attr);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamSetAttribute(
	CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !attribute(stream, attr))
		return CUDA_ERROR_INVALID_VALUE;
	*attribute(stream, attr) = *value;
	return CUDA_SUCCESS;
}
