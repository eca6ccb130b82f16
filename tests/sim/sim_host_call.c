/*
 * sim_host_call.c - functions of the program that a stream calls, on a thread of the driver's own.
 *
 * The thread starts with the first such call. Calls are made in the order in which they fall due,
 * and those of one stream in the order in which they were given.
 */
#include "sim_graph.h"
#include "sim_stream.h"

#include <signal.h>
#include <stdlib.h>

struct host_item {
	struct host_item *next;
	uint64_t when;
	struct stream *stream;
	CUhostFn call; /* or */
	CUstreamCallback callback;
	CUstream handle;
	void *data;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct host_item *queue; /* by time, first come first */

static struct host_item *next_due(void)
{
	struct host_item *item;

	pthread_mutex_lock(&lock);
	while (!queue)
		pthread_cond_wait(&changed, &lock);
	item = queue;
	if (item->when <= sim_now())
		queue = item->next;
	else
		item = NULL;
	pthread_mutex_unlock(&lock);
	return item;
}

static void *work(void *unused)
{
	struct host_item *item;

	for (;;) {
		item = next_due();
		if (!item) {
			sim_sleep_until(sim_now() + 50000);
			continue;
		}
		if (item->call)
			item->call(item->data);
		else
			item->callback(
				item->handle, item->stream->object.context->error, item->data);
		atomic_fetch_add(&item->stream->hosts_done, 1);
		free(item);
	}
	return unused;
}

/* Signals are for the program's own threads. */
static bool start(void)
{
	static bool started;
	sigset_t all, before;
	pthread_t thread;

	if (started)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = !pthread_create(&thread, NULL, work, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started)
		pthread_detach(thread);
	return started;
}

static CUresult submit(struct host_item *item)
{
	struct host_item **place;
	bool started;

	pthread_mutex_lock(&lock);
	started = start();
	if (started) {
		item->when = stream_append(item->stream, 0);
		atomic_fetch_add(&item->stream->hosts_submitted, 1);
		for (place = &queue; *place && (*place)->when <= item->when;
			place = &(*place)->next)
			;
		item->next = *place;
		*place = item;
		pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (!started)
		free(item);
	return started ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult host_call(struct stream *stream, CUhostFn call, void *data)
{
	struct host_item *item = calloc(1, sizeof(*item));

	if (!item)
		return CUDA_ERROR_OUT_OF_MEMORY;
	item->stream = stream;
	item->call = call;
	item->data = data;
	return submit(item);
}

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct stream *stream;
	struct node *node;
	CUresult result = fn ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (!capture_node(stream, CU_GRAPH_NODE_TYPE_HOST, &node, &result))
		return host_call(stream, fn, userData);
	if (node)
		node->is.host = (CUDA_HOST_NODE_PARAMS){ .fn = fn, .userData = userData };
	return result;
}

CUresult sim_cuStreamAddCallback(
	CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	struct host_item *item;
	struct stream *stream;
	CUresult result =
		callback && !flags ? stream_of(hStream, &stream) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (stream->capture) {
		capture_invalidate(stream);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	item = calloc(1, sizeof(*item));
	if (!item)
		return CUDA_ERROR_OUT_OF_MEMORY;
	item->stream = stream;
	item->callback = callback;
	item->handle = hStream;
	item->data = userData;
	return submit(item);
}
