/*
 * room.h - how much more somebody could get on each GPU: what is free, less what is promised to those
 * who were let in and what is kept for others, under the limits that bind him.
 */
#ifndef ROOM_H
#define ROOM_H

#include "admin.h"
#include "box.h"
#include "gpus.h"
#include "queue.h"
#include "reserve.h"

/* One GPU, by its ordinal here. */
struct room {
	unsigned index;
	uint8_t uuid[16];
	char name[48]; /* the UUID as text */
	uint64_t total_bytes;
	uint64_t used_bytes;     /* by everybody: the driver's number, or what we see if that is more */
	uint64_t promised_bytes; /* to others, not taken yet */
	uint64_t reserved_bytes; /* kept from us, not taken yet */
	uint64_t for_good_bytes; /* kept from us by policy, taken or not */
	uint64_t room_bytes;
	const char *bound;       /* what leaves that little: "memory", "promised", whose limit */
	uint64_t ever_bytes;     /* there could be, if nobody else held anything */
};

/* A limit that a run around us has for all its processes, as the environment tells. */
struct room_job {
	const char *variable; /* that says it */
	const char *of;       /* whose: the id of the job; "" of one that begins here */
	uint64_t bytes[SLOT_DEVICES]; /* BYTES_NONE */
};

/* What is known of a machine at one moment, and who asks. */
struct room_view {
	struct gpu_fact facts[SLOT_DEVICES];
	unsigned count;
	uint64_t asked[SLOT_DEVICES]; /* the limit of the process that is asked for, BYTES_NONE */
	struct room_job jobs[2];
	struct admin admin;
	struct box box;
	struct queue queue;
	struct reserve_list reserves;
	uint32_t uid;
	const char *job;  /* what is promised to it, or to one around it, is ours; "" none */
	const char *mine; /* the file of our own promise, NULL none */
};

/*
 * Look at everything but the GPUs (facts, count) and the limit asked for, which the caller knows. False:
 * something that may be decisive cannot be read, and why.
 */
bool room_view_open(struct room_view *view, char *why, size_t why_bytes);
void room_view_close(struct room_view *view);

void room_find(const struct room_view *view, struct room rooms[SLOT_DEVICES]);

/* Was it promised to our run, or to one that ours is part of? */
bool room_is_ours(const struct room_view *view, const struct queue_place *place);

#endif
