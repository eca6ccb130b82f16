/*
 * event.c - the schema of the events as data, made from the one list in cuward/events.h.
 */
#include "event.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "need.h"

static struct event_schema schemas[EVENT_COUNT];

static void add_field(struct event_schema *schema, const char *name, enum field_type type,
	size_t offset)
{
	schema->fields[schema->count++] = (struct event_field){ name, type, (unsigned)offset };
}

#define F(type, name) \
	add_field(schema, #name, FIELD_##type, \
		offsetof(struct event, process) + offsetof(fields_of, name));
#define X(event, fields) \
	static void describe_##event(struct event_schema *schema) \
	{ \
		typedef struct event_##event fields_of; \
		schema->name = #event; \
		fields \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

static void __attribute__((constructor)) describe_all(void)
{
#define F(type, name)
#define X(event, fields) describe_##event(&schemas[EVENT_##event]);
	CUWARD_EVENTS(X, F)
#undef X
#undef F
}

const struct event_schema *event_schema(enum cuward_event type)
{
	return &schemas[type];
}

const struct event_schema *event_schema_named(const char *name, enum cuward_event *type)
{
	for (unsigned i = 0; i < EVENT_COUNT; i++) {
		if (strcmp(schemas[i].name, name) == 0) {
			*type = (enum cuward_event)i;
			return &schemas[i];
		}
	}
	return NULL;
}

bool event_set_number(struct event *event, const struct event_field *field, uint64_t value)
{
	void *at = (char *)event + field->offset;

	switch (field->type) {
	case FIELD_u8:
		return (*(uint8_t *)at = (uint8_t)value) == value;
	case FIELD_u16:
		return (*(uint16_t *)at = (uint16_t)value) == value;
	case FIELD_u32:
		return (*(uint32_t *)at = (uint32_t)value) == value;
	case FIELD_i32:
		*(int32_t *)at = (int32_t)value;
		return (uint64_t)(int64_t)(int32_t)value == value;
	case FIELD_u64:
	case FIELD_x64:
		*(uint64_t *)at = value;
		return true;
	case FIELD_str:
		break;
	}
	return false;
}

uint64_t event_number(const struct event *event, const struct event_field *field)
{
	const void *at = (const char *)event + field->offset;

	switch (field->type) {
	case FIELD_u8:
		return *(const uint8_t *)at;
	case FIELD_u16:
		return *(const uint16_t *)at;
	case FIELD_u32:
		return *(const uint32_t *)at;
	case FIELD_i32:
		return (uint64_t)(int64_t)*(const int32_t *)at;
	case FIELD_u64:
	case FIELD_x64:
		return *(const uint64_t *)at;
	case FIELD_str:
		break;
	}
	return 0;
}

void event_set_string(struct event *event, const struct event_field *field, const char *value)
{
	*(const char **)((char *)event + field->offset) = value;
}

const char *event_string(const struct event *event, const struct event_field *field)
{
	const char *text = *(const char *const *)((const char *)event + field->offset);

	return text ? text : "";
}

void trace_facts_lose(struct trace_facts *facts, const struct trace_loss *loss)
{
	if (!loss->events && !loss->packets)
		return;
	facts->discarded += loss->events;
	facts->lost_packets += loss->packets;
	facts->losses =
		need_room(facts->losses, facts->loss_count, &facts->loss_capacity, sizeof(*facts->losses));
	facts->losses[facts->loss_count++] =
		(struct trace_loss){ need_copy(loss->stream), loss->events, loss->packets };
}

void trace_facts_add(struct trace_facts *sum, struct trace_facts *one)
{
	uint64_t named_events = 0, named_packets = 0;

	for (size_t i = 0; i < one->loss_count; i++) {
		trace_facts_lose(sum, &one->losses[i]);
		named_events += one->losses[i].events;
		named_packets += one->losses[i].packets;
	}
	sum->events += one->events;
	sum->foreign += one->foreign;
	sum->discarded += one->discarded - named_events;
	sum->lost_packets += one->lost_packets - named_packets;
	sum->copies += one->copies;
	sum->warnings += one->warnings;
	sum->discarded_unknown |= one->discarded_unknown;
	sum->streamless |= one->streamless;
	sum->damaged |= one->damaged;
	trace_facts_free(one);
}

void trace_facts_free(struct trace_facts *facts)
{
	for (size_t i = 0; i < facts->loss_count; i++)
		free(facts->losses[i].stream);
	free(facts->losses);
	*facts = (struct trace_facts){ 0 };
}

void event_source_say(struct event_source *source, const char *format, ...)
{
	char sentence[1024];
	va_list arguments;

	source->facts.warnings++;
	if (!source->log)
		return;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	source->log->say(source->log->user, sentence);
}
