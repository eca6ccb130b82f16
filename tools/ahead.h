/*
 * ahead.h - events in batches, read by a thread of its own while the ones before are looked at.
 */
#ifndef AHEAD_H
#define AHEAD_H

#include "event.h"

struct ahead;

/* The source is the thread's until ahead_close(). */
struct ahead *ahead_open(struct event_source *source);

struct ahead_batch {
	struct event *events; /* good until the next call */
	size_t count;         /* 0: no more */
	uint64_t read_bytes, all_bytes; /* of the source, when this was read */
};
const struct ahead_batch *ahead_next(struct ahead *ahead);
void ahead_close(struct ahead *ahead);

#endif
