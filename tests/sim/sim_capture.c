/*
 * sim_capture.c - streams whose work becomes a graph.
 */
#include "sim_graph.h"

#include <stdlib.h>

_Atomic int captures_active;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static cuuint64_t next_id = 1;

/* ---- what is forbidden meanwhile ---- */

static bool forbids(const struct capture *capture)
{
	bool own = capture->thread == sim_thread_id();

	if (sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (own)
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* Who calls something unsafe spoils the captures that forbid it. */
bool capture_refuses_slow(CUresult *result)
{
	struct capture *capture;
	bool refused = false;

	pthread_mutex_lock(&lock);
	for (capture = captures; capture; capture = capture->next) {
		if (!forbids(capture))
			continue;
		capture->invalidated = true;
		refused = true;
	}
	pthread_mutex_unlock(&lock);
	if (refused)
		*result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return refused;
}

void capture_invalidate(struct stream *stream)
{
	if (stream->capture)
		stream->capture->invalidated = true;
}

/* The legacy stream waits for blocking streams, which must not be capturing. */
static struct capture *implicit(const struct stream *stream)
{
	struct stream *other = NULL;

	if (stream != stream->object.context->legacy)
		return NULL;
	while ((other = object_next(KIND_stream, other)))
		if (other->object.context == stream->object.context && other->blocking &&
			other->capture)
			return other->capture;
	return NULL;
}

/* ---- nodes ---- */

bool capture_node_slow(
	struct stream *stream, CUgraphNodeType type, struct node **node, CUresult *result)
{
	struct capture *capture = stream->capture ? stream->capture : implicit(stream);

	if (!capture)
		return false;
	*node = NULL;
	pthread_mutex_lock(&lock);
	if (!stream->capture) {
		capture->invalidated = true;
		*result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else if (capture->invalidated) {
		*result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		*node = node_new(capture->graph, type, stream->tails.node, stream->tails.count);
		*result = *node && tails_set(&stream->tails, node, 1) ? CUDA_SUCCESS
								      : CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&lock);
	return true;
}

CUresult capture_record(struct stream *stream, struct event *event)
{
	if (stream->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	event->capture = stream->capture;
	event->recorded = false;
	return tails_set(&event->tails, stream->tails.node, stream->tails.count)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult spoil(struct capture *capture, CUresult result)
{
	capture->invalidated = true;
	return result;
}

/* The stream waits for the event: it joins the capture, or takes on what the event stands for. */
CUresult capture_join(struct stream *stream, struct event *event)
{
	size_t i;

	if (!event->capture)
		return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (event->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture && stream->capture != event->capture) {
		stream->capture->invalidated = true;
		return spoil(event->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (stream == stream->object.context->legacy)
		return spoil(event->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	stream->capture = event->capture;
	for (i = 0; i < event->tails.count; i++)
		if (!tails_add(&stream->tails, event->tails.node[i]))
			return CUDA_ERROR_OUT_OF_MEMORY;
	return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

static CUresult begin(struct stream *stream, CUstreamCaptureMode mode, struct graph *graph)
{
	struct capture *capture;

	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream == stream->object.context->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->borrowed = graph != NULL;
	capture->graph = graph ? graph : graph_new(false);
	capture->mode = mode;
	capture->thread = sim_thread_id();
	capture->origin = stream;
	pthread_mutex_lock(&lock);
	capture->id = next_id++;
	capture->next = captures;
	captures = capture;
	stream->capture = capture;
	captures_active++;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	return result == CUDA_SUCCESS ? begin(stream, mode, NULL) : result;
}

CUresult sim_cuStreamBeginCapture(CUstream hStream)
{
	return sim_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUstreamCaptureMode mode)
{
	struct graph *graph = object_get(KIND_graph, hGraph);
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);

	(void)dependencyData;
	if (result != CUDA_SUCCESS)
		return result;
	if (!graph || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	result = begin(stream, mode, graph);
	if (result == CUDA_SUCCESS)
		tails_set(&stream->tails, (struct node *const *)dependencies, numDependencies);
	return result;
}

/* Does a node lead up to these tails? */
static bool leads_to(const struct node *node, const struct tails *tails)
{
	size_t i;

	for (i = 0; i < tails->count; i++)
		if (tails->node[i] == node || leads_to(node, &tails->node[i]->needs))
			return true;
	return false;
}

static bool all_joined(const struct capture *capture)
{
	struct stream *stream = NULL;
	size_t i;

	while ((stream = object_next(KIND_stream, stream))) {
		if (stream->capture != capture || stream == capture->origin)
			continue;
		for (i = 0; i < stream->tails.count; i++)
			if (!leads_to(stream->tails.node[i], &capture->origin->tails))
				return false;
	}
	return true;
}

/* Streams and events of the capture are ordinary ones again. */
static void release(struct capture *capture)
{
	struct stream *stream = NULL;
	struct event *event = NULL;
	struct capture **place;

	while ((stream = object_next(KIND_stream, stream)))
		if (stream->capture == capture) {
			stream->capture = NULL;
			tails_drop(&stream->tails);
		}
	while ((event = object_next(KIND_event, event)))
		if (event->capture == capture) {
			event->capture = NULL;
			tails_drop(&event->tails);
		}
	pthread_mutex_lock(&lock);
	for (place = &captures; *place != capture; place = &(*place)->next)
		;
	*place = capture->next;
	captures_active--;
	pthread_mutex_unlock(&lock);
	free(capture);
}

/* The stream is destroyed: without its origin a capture can never end. */
void capture_abandon(struct stream *stream)
{
	struct capture *capture = stream->capture;

	if (!capture)
		return;
	capture->invalidated = true;
	if (capture->origin != stream)
		return;
	if (!capture->borrowed)
		graph_delete(capture->graph);
	release(capture);
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	struct capture *capture;
	struct stream *stream;
	CUresult result = phGraph ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	capture = stream->capture;
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream)
		return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_id())
		return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	if (capture->invalidated)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!all_joined(capture))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (result == CUDA_SUCCESS)
		object_give(capture->graph, GIVEN_graph);
	*phGraph = result == CUDA_SUCCESS ? (CUgraph)capture->graph : NULL;
	if (result != CUDA_SUCCESS && !capture->borrowed)
		graph_delete(capture->graph);
	release(capture);
	return result;
}

/* ---- questions ---- */

static CUstreamCaptureStatus status_of(const struct stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct stream *stream;
	CUresult result = captureStatus ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (captures_active && !stream->capture && implicit(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*captureStatus = status_of(stream);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
	cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out,
	size_t *numDependencies_out)
{
	struct stream *stream;
	CUresult result = sim_cuStreamIsCapturing(hStream, captureStatus_out);

	if (result != CUDA_SUCCESS || stream_of(hStream, &stream) != CUDA_SUCCESS)
		return result;
	if (*captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id_out)
		*id_out = stream->capture->id;
	if (graph_out)
		*graph_out = (CUgraph)stream->capture->graph;
	if (dependencies_out)
		*dependencies_out = (const CUgraphNode *)stream->tails.node;
	if (numDependencies_out)
		*numDependencies_out = stream->tails.count;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
	cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out,
	const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	if (edgeData_out)
		*edgeData_out = NULL;
	return sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out,
		dependencies_out, numDependencies_out);
}

CUresult sim_cuStreamGetCaptureInfo(
	CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
	return sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, NULL, NULL, NULL);
}

CUresult sim_cuStreamUpdateCaptureDependencies(
	CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags)
{
	struct stream *stream;
	CUresult result = stream_of(hStream, &stream);
	size_t i;

	if (result != CUDA_SUCCESS)
		return result;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		tails_drop(&stream->tails);
	for (i = 0; i < numDependencies; i++)
		if (!object_get(KIND_node, dependencies[i]) ||
			!tails_add(&stream->tails, (struct node *)dependencies[i]))
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
	const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
	(void)dependencyData;
	return sim_cuStreamUpdateCaptureDependencies(hStream, dependencies, numDependencies, flags);
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = sim_thread.capture_mode;

	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
