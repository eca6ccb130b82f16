/*
 * ctf_event.c - events out of packets. Ours are read by code that is made from their schema, as
 * long as the metadata says that they look like that; whatever else, value by value.
 */
#include <endian.h>

#include "ctf_private.h"
#include "format.h"
#include "need.h"

/* How far behind the end of its packet, or before the event before it, no event is. */
#define TIME_SLACK_NS 10000000000ull

/* ---- ours: one function an event, without a loop over its fields ---- */

#define TAKE(bytes, to) \
	do { \
		if (end - at < (ptrdiff_t)(bytes)) \
			return NULL; \
		memcpy(to, at, bytes); \
		at += (bytes); \
	} while (0)
#define TAKE_u8(name) TAKE(1, &e->name);
#define TAKE_u16(name) TAKE(2, &e->name); e->name = le16toh(e->name);
#define TAKE_u32(name) TAKE(4, &e->name); e->name = le32toh(e->name);
#define TAKE_u64(name) TAKE(8, &e->name); e->name = le64toh(e->name);
#define TAKE_i32(name) TAKE(4, &e->name); e->name = (int32_t)le32toh((uint32_t)e->name);
#define TAKE_x64(name) TAKE_u64(name)
#define TAKE_str(name) \
	do { \
		const uint8_t *zero = memchr(at, 0, (size_t)(end - at)); \
		if (!zero) \
			return NULL; \
		e->name = (const char *)at; \
		at = zero + 1; \
	} while (0);

#define F(type, name) TAKE_##type(name)
#define X(event_name, fields) \
	static const uint8_t *read_##event_name(const uint8_t *at, const uint8_t *end, \
		struct event *event) \
	{ \
		struct event_##event_name *e = &event->event_name; \
		fields \
		return at; \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

static ctf_reader *const readers[] = {
#define F(type, name)
#define X(event_name, fields) [EVENT_##event_name] = read_##event_name,
	CUWARD_EVENTS(X, F)
#undef X
#undef F
};

const uint8_t *ctf_read_ours(enum cuward_event type, const uint8_t *at, const uint8_t *end,
	struct event *event)
{
	return readers[type](at, end, event);
}

/* ---- do they look like that? ---- */

static unsigned bits_of(enum field_type type)
{
	static const unsigned bits[] = { [FIELD_u8] = 8, [FIELD_u16] = 16, [FIELD_u32] = 32,
		[FIELD_u64] = 64, [FIELD_i32] = 32, [FIELD_x64] = 64, [FIELD_str] = 8 };

	return bits[type];
}

static bool is_bytes(const struct tsdl_type *type)
{
	return type->kind == TSDL_INTEGER && type->size % 8 == 0 && type->align <= 8 &&
		!type->big_endian;
}

static bool looks_alike(const struct tsdl_type *fields, const struct event_schema *schema)
{
	if (!fields || fields->member_count != schema->count || fields->align > 8)
		return false;
	for (unsigned i = 0; i < schema->count; i++) {
		const struct tsdl_type *type = fields->members[i].type;
		bool is_string = schema->fields[i].type == FIELD_str;

		if (strcmp(fields->members[i].name, schema->fields[i].name) != 0)
			return false;
		if (is_string ? type->kind != TSDL_STRING
			: !is_bytes(type) || type->size != bits_of(schema->fields[i].type))
			return false;
	}
	return true;
}

/* Add the bytes of a struct that always has the same; false: it has not. */
static bool add_fixed(const struct tsdl_type *type, uint64_t *bytes)
{
	for (size_t i = 0; type && i < type->member_count; i++) {
		const struct tsdl_type *member = type->members[i].type;
		bool number = member->kind == TSDL_INTEGER || member->kind == TSDL_ENUM ||
			member->kind == TSDL_FLOAT;

		if (!number || member->size % 8 || member->align > 8)
			return false;
		*bytes += member->size / 8;
	}
	return !type || type->align <= 8;
}

void ctf_prepare_class(struct ctf_class *class, const struct ctf_stream_class *stream)
{
	const struct tsdl_event *tsdl = class->tsdl;
	const struct event_schema *schema = NULL;
	bool fixed = add_fixed(stream->tsdl->event_context, &class->skip_bytes) &&
		add_fixed(tsdl->context, &class->skip_bytes);

	class->fixed_bytes = class->skip_bytes;
	if (!fixed || !add_fixed(tsdl->fields, &class->fixed_bytes))
		class->fixed_bytes = 0;
	if (strncmp(tsdl->name, "cuward:", 7) == 0)
		schema = event_schema_named(tsdl->name + 7, &class->type);
	class->ours = schema != NULL;
	if (schema && fixed && looks_alike(tsdl->fields, schema))
		class->reader = readers[class->type];
}

/* ---- headers ---- */

static bool is_time(const struct tsdl_type *type, unsigned size)
{
	return type->kind == TSDL_INTEGER && type->size == size && type->clock && !type->big_endian;
}

static bool has_label(const struct tsdl_type *id, unsigned at, const char *name, uint64_t from,
	uint64_t to)
{
	return strcmp(id->labels[at].name, name) == 0 && id->labels[at].from == from &&
		id->labels[at].to == to;
}

/* LTTng's headers: an id of so many bits, whose highest value says that a longer header follows. */
static bool is_lttng(const struct tsdl_type *header, unsigned id_bits, unsigned time_bits)
{
	const struct tsdl_type *id, *rest, *compact, *extended;
	uint64_t highest = (1ull << id_bits) - 1;

	if (!header || header->member_count != 2 || header->align < 8)
		return false;
	id = header->members[0].type;
	rest = header->members[1].type;
	if (id->kind != TSDL_ENUM || id->size != id_bits || id->big_endian || id->label_count != 2 ||
		!has_label(id, 0, "compact", 0, highest - 1) ||
		!has_label(id, 1, "extended", highest, highest) ||
		rest->kind != TSDL_VARIANT || rest->member_count != 2)
		return false;
	compact = rest->members[0].type;
	extended = rest->members[1].type;
	return compact->kind == TSDL_STRUCT && compact->member_count == 1 &&
		is_time(compact->members[0].type, time_bits) &&
		compact->members[0].type->align <= (id_bits % 8 ? 1 : 8) &&
		extended->kind == TSDL_STRUCT && extended->member_count == 2 && extended->align == 8 &&
		is_bytes(extended->members[0].type) && extended->members[0].type->size == 32 &&
		is_time(extended->members[1].type, 64) && extended->members[1].type->align <= 8;
}

static bool is_flat(struct ctf_stream_class *class, const struct tsdl_type *header)
{
	unsigned offset = 0;

	if (!header || header->member_count != 2 || header->align != 8)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct tsdl_member *member = &header->members[i];
		bool is_id = strcmp(member->name, "id") == 0;

		if (!is_bytes(member->type) || is_id == (member->type->clock != NULL) ||
			(!is_id && strcmp(member->name, "timestamp") != 0))
			return false;
		*(is_id ? &class->id_offset : &class->time_offset) = offset;
		*(is_id ? &class->id_bytes : &class->time_bytes) = member->type->size / 8;
		offset += member->type->size / 8;
	}
	return class->id_bytes && class->time_bytes;
}

void ctf_prepare_header(struct ctf_stream_class *class)
{
	const struct tsdl_type *header = class->tsdl->event_header;

	class->header = is_lttng(header, 5, 27) ? CTF_HEADER_COMPACT
		: is_lttng(header, 16, 32) ? CTF_HEADER_LARGE
		: is_flat(class, header) ? CTF_HEADER_FLAT : CTF_HEADER_OTHER;
}

static inline uint64_t read_bytes(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return le64toh(value);
}

static inline uint16_t read_16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static inline uint32_t read_32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static inline uint64_t read_64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static bool compact_header(struct ctf_stream *stream, uint64_t *id)
{
	const uint8_t *at = stream->at;
	size_t have = (size_t)(stream->limit - at);
	uint32_t word;

	if (have < 4)
		return false;
	word = read_32(at);
	*id = word & 31;
	if (*id != 31) {
		stream->clock = ctf_clock_forward(stream->clock, word >> 5, 27);
		stream->at = at + 4;
		return true;
	}
	if (have < 13)
		return false;
	*id = read_32(at + 1);
	stream->clock = read_64(at + 5);
	stream->at = at + 13;
	return true;
}

static bool large_header(struct ctf_stream *stream, uint64_t *id)
{
	const uint8_t *at = stream->at;
	size_t have = (size_t)(stream->limit - at);

	if (have < 6)
		return false;
	*id = read_16(at);
	if (*id != 65535) {
		stream->clock = ctf_clock_forward(stream->clock, read_32(at + 2), 32);
		stream->at = at + 6;
		return true;
	}
	if (have < 14)
		return false;
	*id = read_32(at + 2);
	stream->clock = read_64(at + 6);
	stream->at = at + 14;
	return true;
}

static bool flat_header(struct ctf_stream *stream, uint64_t *id)
{
	const struct ctf_stream_class *class = stream->packet.class;
	const uint8_t *at = stream->at;

	if ((size_t)(stream->limit - at) < class->id_bytes + class->time_bytes)
		return false;
	*id = read_bytes(at + class->id_offset, class->id_bytes);
	stream->clock = ctf_clock_forward(stream->clock,
		read_bytes(at + class->time_offset, class->time_bytes), 8 * class->time_bytes);
	stream->at = at + class->id_bytes + class->time_bytes;
	return true;
}

/* ---- value by value ---- */

static struct ctf_decoder decoder_at(struct ctf_stream *stream, const uint8_t *at, unsigned bit)
{
	uint64_t offset = (uint64_t)(stream->base - stream->window) + stream->window_at -
		stream->packet.at;
	uint64_t have = 8 * (uint64_t)(stream->window + stream->window_bytes - stream->base);
	uint64_t content = stream->packet.content_end - 8 * offset;

	return (struct ctf_decoder){ .bytes = stream->base,
		.at = 8 * (uint64_t)(at - stream->base) + bit, .end = have < content ? have : content,
		.clock = stream->clock, .arena = &stream->event_arena, .budget = CTF_VALUES_MAX,
		.parts = { stream->packet.header, stream->packet.context } };
}

static void stand_at(struct ctf_stream *stream, const struct ctf_decoder *decoder)
{
	stream->at = stream->base + decoder->at / 8;
	stream->at_bit = decoder->at % 8;
}

static const struct ctf_value *id_in(const struct ctf_value *header)
{
	const struct ctf_value *id = ctf_member(header, "id"), *rest = ctf_member(header, "v");
	const struct ctf_value *longer = rest && rest->type->kind == TSDL_VARIANT &&
		rest->list.count && rest->list.items[0].type->kind == TSDL_STRUCT
		? ctf_member(&rest->list.items[0], "id") : NULL;

	return longer ? longer : id;
}

static enum ctf_outcome other_header(struct ctf_stream *stream, uint64_t *id)
{
	struct ctf_decoder decoder = decoder_at(stream, stream->at, stream->at_bit);
	const struct ctf_stream_class *class = stream->packet.class;
	struct ctf_value *header;
	const struct ctf_value *value;
	enum ctf_outcome outcome;

	arena_reset(&stream->event_arena);
	outcome = ctf_decode(&decoder, CTF_EVENT_HEADER, class->tsdl->event_header, &header);
	if (outcome != CTF_FINE)
		return outcome;
	value = header ? id_in(header) : NULL;
	*id = value ? value->number : class->class_count ? class->classes[0].tsdl->id : 0;
	stream->clock = decoder.clock;
	stand_at(stream, &decoder);
	return CTF_FINE;
}

/* Contexts and fields, whatever they are; the header again, since tags may be in it. */
static enum ctf_outcome decode_event(struct ctf_stream *stream,
	struct ctf_value *parts[CTF_PARTS])
{
	const struct tsdl_stream *tsdl = stream->packet.class->tsdl;
	const struct tsdl_type *const types[] = { [CTF_EVENT_HEADER] = tsdl->event_header,
		[CTF_STREAM_EVENT_CONTEXT] = tsdl->event_context,
		[CTF_EVENT_CONTEXT] = stream->class->tsdl->context,
		[CTF_EVENT_FIELDS] = stream->class->tsdl->fields };
	struct ctf_decoder decoder = decoder_at(stream, stream->start, stream->start_bit);
	enum ctf_outcome outcome = CTF_FINE;
	struct ctf_value *value;

	arena_reset(&stream->event_arena);
	for (unsigned part = CTF_EVENT_HEADER; part < CTF_PARTS && outcome == CTF_FINE; part++)
		outcome = ctf_decode(&decoder, part, types[part], &value);
	if (outcome != CTF_FINE)
		return outcome;
	memcpy(parts, decoder.parts, sizeof(decoder.parts));
	stand_at(stream, &decoder);
	return CTF_FINE;
}

static void set_field(struct event *event, const struct event_field *field,
	const struct ctf_value *value)
{
	enum tsdl_kind kind = value->type->kind;
	bool is_text = kind == TSDL_STRING;

	if (field->type == FIELD_str && is_text)
		event_set_string(event, field, value->string.text);
	else if (field->type != FIELD_str && (kind == TSDL_INTEGER || kind == TSDL_ENUM))
		event_set_number(event, field, value->number);
}

static enum ctf_outcome take_ours(struct ctf_stream *stream, struct event *event)
{
	const struct event_schema *schema = event_schema(stream->class->type);
	struct ctf_value *parts[CTF_PARTS];
	enum ctf_outcome outcome = decode_event(stream, parts);

	memset(event, 0, sizeof(*event));
	for (unsigned i = 0; i < schema->count && outcome == CTF_FINE; i++) {
		const struct ctf_value *value =
			ctf_member(parts[CTF_EVENT_FIELDS], schema->fields[i].name);

		if (schema->fields[i].type == FIELD_str)
			event_set_string(event, &schema->fields[i], "");
		if (value)
			set_field(event, &schema->fields[i], value);
	}
	return outcome;
}

/* ---- one event after the other ---- */

static void leave_packet(struct ctf_stream *stream, const char *why)
{
	const char *far = stream->last_ns ? format_moment(stream->last_ns) : "its beginning";
	unsigned long long at = stream->window_at + (uint64_t)(stream->start - stream->window);

	if (stream->next_packet >= stream->bytes)
		ctf_complain(stream, "a stream breaks off after %s: %s, at byte %llu", far, why, at);
	else
		ctf_complain(stream, "%s, at byte %llu after %s; the rest of its packet is passed over",
			why, at, far);
	stream->at = stream->start = stream->limit;
	stream->at_bit = 0;
	/* What the window does not have of it must not be fetched either. */
	stream->packet.content_end = 0;
}

static bool packet_is_done(struct ctf_stream *stream)
{
	uint64_t at = stream->window_at + (uint64_t)(stream->at - stream->window) - stream->packet.at;

	return 8 * at + stream->at_bit >= stream->packet.content_end;
}

static enum ctf_outcome read_header(struct ctf_stream *stream, uint64_t *id)
{
	enum ctf_header header = stream->packet.class->header;

	if (header == CTF_HEADER_OTHER)
		return other_header(stream, id);
	if (stream->at_bit) {
		stream->at++;
		stream->at_bit = 0;
	}
	if (stream->at > stream->limit)
		return CTF_SHORT;
	if (header == CTF_HEADER_LARGE ? large_header(stream, id)
		: header == CTF_HEADER_COMPACT ? compact_header(stream, id) : flat_header(stream, id))
		return CTF_FINE;
	return CTF_SHORT;
}

/* A time that cannot be is a sign that these bytes are no event. */
static bool time_is_sound(const struct ctf_stream *stream)
{
	const struct ctf_packet *packet = &stream->packet;

	if (!packet->class->clock)
		return true;
	if (stream->clock < stream->start_clock)
		return false;
	return !packet->has_times || packet->end < packet->begin || stream->clock <= packet->end ||
		ctf_ticks_to_ns(packet->class, stream->clock) -
			ctf_ticks_to_ns(packet->class, packet->end) < TIME_SLACK_NS;
}

static const char *step(struct ctf_stream *stream)
{
	enum ctf_outcome outcome;
	uint64_t id = 0;

	do {
		stream->start = stream->at;
		stream->start_bit = stream->at_bit;
		stream->start_clock = stream->clock;
		outcome = read_header(stream, &id);
		if (outcome == CTF_SHORT) {
			stream->at = stream->start;
			stream->at_bit = stream->start_bit;
			stream->clock = stream->start_clock;
		}
	} while (outcome == CTF_SHORT && ctf_more(stream));
	if (outcome != CTF_FINE)
		return outcome == CTF_SHORT ? "an event is cut off" : "an event makes no sense";
	stream->class = ctf_class_of(stream->packet.class, id);
	if (!stream->class)
		return "an event is none that the metadata explains";
	return time_is_sound(stream) ? NULL : "the time of an event makes no sense";
}

/* Step over the fields of an event that nobody wants to know. */
static bool pass(struct ctf_stream *stream)
{
	struct ctf_value *parts[CTF_PARTS];

	stream->ctf->source.facts.foreign++;
	if (stream->class->fixed_bytes && !stream->at_bit &&
		(uint64_t)(stream->limit - stream->at) >= stream->class->fixed_bytes) {
		stream->at += stream->class->fixed_bytes;
		return true;
	}
	return ctf_take_values(stream, parts);
}

/* From packet to packet time may only go backwards where one of them is damaged. */
static void set_time(struct ctf_stream *stream)
{
	uint64_t time_ns = ctf_ticks_to_ns(stream->packet.class, stream->clock);

	if (stream->started && time_ns < stream->time_ns)
		ctf_complain(stream, "time goes backwards after %s, at byte %llu",
			format_moment(stream->time_ns), (unsigned long long)stream->packet.at);
	stream->time_ns = time_ns;
	stream->started = true;
}

bool ctf_advance(struct ctf_stream *stream)
{
	for (;;) {
		const char *wrong;

		while (!stream->window || packet_is_done(stream))
			if (!ctf_next_packet(stream))
				return false;
		wrong = step(stream);
		if (wrong) {
			leave_packet(stream, wrong);
			continue;
		}
		if (!stream->class->ours && !stream->ctf->every) {
			pass(stream);
			continue;
		}
		set_time(stream);
		return true;
	}
}

static enum ctf_outcome take_fast(struct ctf_stream *stream, struct event *event)
{
	const uint8_t *at = stream->at + stream->class->skip_bytes;

	if (stream->at_bit || (uint64_t)(stream->limit - stream->at) < stream->class->skip_bytes)
		return CTF_SHORT;
	at = stream->class->reader(at, stream->limit, event);
	if (!at)
		return CTF_SHORT;
	stream->at = at;
	return CTF_FINE;
}

bool ctf_take(struct ctf_stream *stream, struct event *event)
{
	enum ctf_outcome outcome;

	do
		outcome = stream->class->reader ? take_fast(stream, event) : take_ours(stream, event);
	while (outcome == CTF_SHORT && ctf_more(stream));
	if (outcome != CTF_FINE) {
		leave_packet(stream, outcome == CTF_SHORT ? "an event is cut off"
			: "an event makes no sense");
		return false;
	}
	event->type = stream->class->type;
	event->source = stream->trace->source;
	event->time_ns = stream->time_ns;
	/* Moments of the trace's own clock, as the guest read it. */
	if (event->type == EVENT_gpu && stream->packet.class->clock_counts_ns) {
		event->gpu.begin_ns += stream->packet.class->clock_base_ns;
		event->gpu.end_ns += stream->packet.class->clock_base_ns;
	}
	event->host = stream->trace->host;
	stream->last_ns = stream->time_ns;
	return true;
}

bool ctf_take_values(struct ctf_stream *stream, struct ctf_value *parts[CTF_PARTS])
{
	enum ctf_outcome outcome;

	do
		outcome = decode_event(stream, parts);
	while (outcome == CTF_SHORT && ctf_more(stream));
	if (outcome != CTF_FINE) {
		leave_packet(stream, outcome == CTF_SHORT ? "an event is cut off"
			: "an event makes no sense");
		return false;
	}
	stream->last_ns = stream->time_ns;
	return true;
}
