/*
 * sim_event.c - events: the moment a stream gets somewhere.
 */
#include "sim_graph.h"
#include "sim_knobs.h"
#include "sim_pool.h"
#include "sim_green.h"
#include "sim_stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Another process may have recorded it. */
static void refresh(struct event *event)
{
	if (!event->shared || !event->shared->recorded)
		return;
	event->recorded = true;
	event->when = event->shared->when;
}

static bool complete(struct event *event)
{
	refresh(event);
	if (!event->recorded)
		return true;
	return event->when <= sim_now() &&
	       (!event->stream || event->stream->hosts_done >= event->hosts);
}

void event_close(struct event *event)
{
	if (event->shared) {
		munmap(event->shared, sizeof(*event->shared));
		close(event->shared_fd);
	}
	object_delete(event);
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
	object_give(event, GIVEN_event);
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent)
{
	struct event *event = object_get(KIND_event, hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	event_close(event);
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
	if (event->shared) {
		event->shared->when = event->when;
		event->shared->recorded = 1;
	}
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
	refresh(event);
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
				 (1 + (double)(int64_t)knobs.clock_ppm / 1e6));
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
	refresh(event);
	if (!event->recorded || event->when <= sim_now())
		return CUDA_SUCCESS;
	seen = atomic_load(&stream->ready);
	while (seen < event->when &&
		!atomic_compare_exchange_weak(&stream->ready, &seen, event->when))
		;
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

#define MAGIC 0x746e7665u

struct ipc_event {
	uint32_t magic;
	int32_t pid, fd;
};

static bool share(struct event *event, int fd)
{
	void *place = MAP_FAILED;

	if (fd >= 0)
		place = mmap(NULL, sizeof(struct shared_event), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			0);
	if (place == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	event->shared = place;
	event->shared_fd = fd;
	return true;
}

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent handle)
{
	struct event *event = object_get(KIND_event, handle);
	struct ipc_event ipc = { .magic = MAGIC, .pid = (int32_t)getpid() };
	int fd;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pHandle || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_VALUE;
	if (!event->shared) {
		fd = memfd_create("sim-event", MFD_CLOEXEC);
		if (fd >= 0 && ftruncate(fd, sizeof(struct shared_event))) {
			close(fd);
			fd = -1;
		}
		if (!share(event, fd))
			return CUDA_ERROR_OPERATING_SYSTEM;
		event->shared->when = event->when;
		event->shared->recorded = event->recorded;
	}
	ipc.fd = event->shared_fd;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ipc_event ipc;
	struct event *event;
	char path[64];
	CUevent made;
	CUresult result;

	memcpy(&ipc, &handle, sizeof(ipc));
	if (!phEvent || ipc.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (ipc.pid == (int32_t)getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* not in the process it came from */
	result = sim_cuEventCreate(&made, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	event = (struct event *)made;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc.pid, ipc.fd);
	if (!share(event, open(path, O_RDWR | O_CLOEXEC))) {
		object_delete(event);
		return CUDA_ERROR_MAP_FAILED;
	}
	*phEvent = made;
	return CUDA_SUCCESS;
}

/* ---- of all the streams of a context ---- */

static CUresult record_all(struct context *context, CUevent handle)
{
	struct event *event = object_get(KIND_event, handle);
	struct stream *stream = NULL;
	uint64_t last = 0;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	while ((stream = object_next(KIND_stream, stream)))
		if (stream->object.context == context) {
			if (stream->capture)
				return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
			last = larger(last, stream_append(stream, 0));
		}
	event->capture = NULL;
	event->stream = NULL;
	event->when = last ? last : sim_now();
	event->recorded = true;
	return CUDA_SUCCESS;
}

static CUresult wait_all(const struct context *context, CUevent handle)
{
	struct stream *stream = NULL;
	CUresult result = object_get(KIND_event, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;

	while (result == CUDA_SUCCESS && (stream = object_next(KIND_stream, stream)))
		if (stream->object.context == context && stream != context->legacy)
			result = sim_cuStreamWaitEvent((CUstream)stream, handle, 0);
	return result;
}

CUresult sim_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct context *context = hCtx ? context_get(hCtx) : sim_thread.current;

	return context && context->active ? record_all(context, hEvent) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct context *context = hCtx ? context_get(hCtx) : sim_thread.current;

	return context && context->active ? wait_all(context, hEvent) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct green *green = object_get(KIND_green, hCtx);

	return green ? record_all(green->face, hEvent) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct green *green = object_get(KIND_green, hCtx);

	return green ? wait_all(green->face, hEvent) : CUDA_ERROR_INVALID_HANDLE;
}
