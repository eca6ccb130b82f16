/*
 * event.h - one trace event in memory, whatever it was read from, and where events come from.
 *
 * Readers (ctf.c, events_text.c) make struct event, model.c eats it; neither knows the other.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/events.h"

struct event {
	enum cuward_event type;
	uint32_t source;  /* keys of threads and processes are unique within one source */
	uint64_t time_ns; /* since 1970, on the clock of the trace */
	const char *host; /* where it was recorded; strings live until the next event is read */
	union {
#define F(type, name)
#define X(event, fields) struct event_##event event;
		CUWARD_EVENTS(X, F)
#undef X
#undef F
	};
};

/* What a field is; the names are those of the schema. */
enum field_type { FIELD_u8, FIELD_u16, FIELD_u32, FIELD_u64, FIELD_i32, FIELD_x64, FIELD_str };

struct event_field {
	const char *name;
	enum field_type type;
	unsigned offset; /* in struct event */
};

#define EVENT_FIELDS_MAX 20

struct event_schema {
	const char *name;
	unsigned count;
	struct event_field fields[EVENT_FIELDS_MAX];
};

/* The schema of an event; by name NULL if it is none of ours. */
const struct event_schema *event_schema(enum cuward_event type);
const struct event_schema *event_schema_named(const char *name, enum cuward_event *type);

/* A number into and out of a field that is not a string; set says false if it does not fit. */
bool event_set_number(struct event *event, const struct event_field *field, uint64_t value);
uint64_t event_number(const struct event *event, const struct event_field *field);
void event_set_string(struct event *event, const struct event_field *field, const char *value);
const char *event_string(const struct event *event, const struct event_field *field);

/* How long the call took that an event is about; 0 for other events. */
static inline uint64_t event_duration(const struct event *event)
{
	switch (event->type) {
	case EVENT_alloc:
		return event->alloc.duration_ns;
	case EVENT_free:
		return event->free.duration_ns;
	case EVENT_launch:
		return event->launch.duration_ns;
	case EVENT_launched:
		return event->launched.duration_ns;
	case EVENT_copy:
		return event->copy.duration_ns;
	case EVENT_sync:
		return event->sync.duration_ns;
	case EVENT_call:
		return event->call.duration_ns;
	default:
		return 0;
	}
}

/* A part of time: what is known to lie outside of it need not be read. */
struct event_range {
	uint64_t from_ns, to_ns;
	bool from_is_absolute, to_is_absolute; /* else counted from the first event */
};

/* What the tracer dropped of one stream. */
struct trace_loss {
	char *stream; /* its file */
	uint64_t events, packets;
};

/* What reading found beside events; sums over all inputs. */
struct trace_facts {
	uint64_t events;       /* ours */
	uint64_t foreign;      /* of other providers */
	uint64_t discarded;    /* events that the tracer dropped, as far as it counted them */
	uint64_t lost_packets; /* whole packets of events dropped or overwritten */
	bool discarded_unknown; /* some were dropped and nobody knows how many */
	struct trace_loss *losses; /* by stream, where they are known; trace_facts_free() */
	size_t loss_count, loss_capacity;
	uint64_t copies; /* packets that lie in several files, and were read once */
	unsigned warnings;
	bool streamless; /* metadata and not one stream: its buffers never were */
	bool damaged; /* the input ended before its end, or could not be read in part */
};

/* Sentences about the input as it is read: where and what. */
struct trace_log {
	void (*say)(void *user, const char *sentence);
	void *user;
};

/* A stream of events in time order. */
struct event_source {
	bool (*next)(struct event_source *, struct event *event); /* false: no more */
	void (*close)(struct event_source *);
	/* How much was read of how much; NULL: nobody knows. */
	void (*progress)(struct event_source *, uint64_t *read_bytes, uint64_t *all_bytes);
	struct trace_facts facts;
	const struct trace_log *log;
};

/* Note what a stream lost; nothing if it lost nothing. */
void trace_facts_lose(struct trace_facts *facts, const struct trace_loss *loss);
/* Add one to sum, and leave it empty. */
void trace_facts_add(struct trace_facts *sum, struct trace_facts *one);
void trace_facts_free(struct trace_facts *facts);

/* printf to the log of a source. */
void event_source_say(struct event_source *source, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
