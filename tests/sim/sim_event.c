/*
 * sim_event.c - events: the moment a stream gets somewhere.
 */
#include "sim_graph.h"
#include "sim_knobs.h"
#include "sim_pool.h"
#include "sim_stream.h"

static bool complete(const struct event *event)
{
	if (!event->recorded)
		return true;
	return event->when <= sim_now() && event->stream->hosts_done >= event->hosts;
}

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct context *context;
	struct event *event;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || Flags & ~7u ||
		(Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = object_new(KIND_event, context);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->flags = Flags;
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent)
{
	struct event *event = object_get(KIND_event, hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	object_delete(event);
	return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy(CUevent hEvent)
{
	return sim_cuEventDestroy_v2(hEvent);
}

static CUresult record(struct event *event, struct stream *stream)
{
	uint64_t when;

	if (stream->capture)
		return capture_record(stream, event);
	if (event->object.context != stream->object.context)
		return CUDA_ERROR_INVALID_HANDLE;
	when = stream_append(stream, 0);
	event->capture = NULL;
	event->stream = stream;
	event->hosts = stream->hosts_submitted;
	event->when = when ? when : sim_now();
	event->recorded = true;
	return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct event *event = object_get(KIND_event, hEvent);
	struct stream *stream;
	CUresult result = event ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_HANDLE;

	return result == CUDA_SUCCESS ? record(event, stream) : result;
}

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	return flags & ~1u ? CUDA_ERROR_INVALID_VALUE : sim_cuEventRecord(hEvent, hStream);
}

CUresult sim_cuEventQuery(CUevent hEvent)
{
	struct event *event = object_get(KIND_event, hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	return complete(event) ? event->object.context->error : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent hEvent)
{
	struct event *event = object_get(KIND_event, hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (event->recorded && event->when > sim_now())
		sim_sleep_until(event->when);
	while (!complete(event))
		sim_sleep_until(sim_now() + 20000);
	count_one(&usage_process()->synchronised);
	pools_synchronised(event->object.context->device);
	return event->object.context->error;
}

CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start = object_get(KIND_event, hStart), *end = object_get(KIND_event, hEnd);

	if (!start || !end || !start->recorded || !end->recorded ||
		(start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (start->capture || end->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (!complete(start) || !complete(end))
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds = (float)((double)(int64_t)(end->when - start->when) / 1e6 *
				 (1 + (double)knobs.clock_ppm / 1e6));
	return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return sim_cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct event *event = object_get(KIND_event, hEvent);
	struct stream *stream;
	CUresult result = event ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_HANDLE;
	uint64_t seen;

	if (result != CUDA_SUCCESS)
		return result;
	if (Flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->capture || stream->capture)
		return capture_join(stream, event);
	if (!event->recorded || event->when <= sim_now())
		return CUDA_SUCCESS;
	seen = atomic_load(&stream->ready);
	while (seen < event->when &&
		!atomic_compare_exchange_weak(&stream->ready, &seen, event->when))
		;
	return CUDA_SUCCESS;
}
