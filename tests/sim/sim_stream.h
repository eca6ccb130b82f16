/*
 * sim_stream.h - streams and events: a stream is a clock that says when its last work will end.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim_context.h"

struct capture;
struct node;

/* The nodes a capturing stream would depend on next. */
struct tails {
	struct node **node;
	size_t count;
};

struct stream {
	struct object object;
	unsigned flags;
	int priority;
	unsigned long long id;
	bool blocking;   /* waits for the legacy stream and is waited for by it */
	uint64_t thread; /* of a per-thread default stream */
	sim_count ready; /* 0 or in the past: idle */
	sim_count queued; /* kernels since it was idle, where the queue has an end */
	sim_count hosts_submitted, hosts_done; /* host callbacks */
	struct capture *capture;
	struct tails tails;
	CUstreamAttrValue window, policy; /* attributes, kept for whoever asks */
};

struct event {
	struct object object;
	unsigned flags;
	bool recorded;
	uint64_t when; /* it is complete from then on, if also ... */
	struct stream *stream;
	uint64_t hosts;          /* ... so many of the stream's callbacks are done */
	struct shared_event *shared; /* with other processes */
	int shared_fd;
	struct capture *capture; /* recorded by it, after ... */
	struct tails tails;
};

/* The state of an event of several processes. All have the same clock. */
struct shared_event {
	sim_count recorded, when;
};
void event_close(struct event *event);

/* A stream handle as a call got it: 0, 1 and 2 are default streams of the current context. */
CUresult stream_of(CUstream handle, struct stream **stream);

/* Append work that takes this long; the answer is when it will be done (0: it is). */
uint64_t stream_append(struct stream *stream, uint64_t ns);
bool stream_idle(struct stream *stream);
void stream_wait(struct stream *stream);
void stream_close(struct stream *stream);
struct stream *stream_open(struct context *context, unsigned flags, int priority);

/* ---- sim_host_call.c ---- */

CUresult host_call(struct stream *stream, CUhostFn call, void *data);

/* ---- sim_capture.c ---- */

extern _Atomic int captures_active;
CUresult capture_record(struct stream *stream, struct event *event);
CUresult capture_join(struct stream *stream, struct event *event);
bool capture_refuses_slow(CUresult *result);
void capture_invalidate(struct stream *stream);
void capture_abandon(struct stream *stream);

/* Is an unsafe call forbidden now, because a capture is going on? */
static inline bool capture_refuses(CUresult *result)
{
	return unlikely(captures_active) && capture_refuses_slow(result);
}

#endif
