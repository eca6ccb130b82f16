/*
 * ctf_packet.c - a file of packets: where they are, what their heads say, a window on their bytes.
 *
 * Bytes are copied into a window by pread instead of being mapped: a file that gets shorter while
 * it is read ends the reading, and not the program, and memory stays small whatever its size. A
 * packet whose head makes no sense is passed over: the next one begins with the same magic number.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctf_private.h"
#include "format.h"
#include "need.h"

#define PACKET_MAGIC 0xc1fc1fc1u
#define WINDOW_STEP 512 /* alignment counts from the packet, and is at most 4096 bits */
#define WINDOW_BYTES_MIN 8192u
#define WINDOW_BYTES_MAX 131072u
#define WINDOWS_BYTES (16u << 20) /* of all streams together */
#define CAPACITY_MAX (16u << 20)
#define COMPLAINTS_MAX 5
#define FILES_KEPT 200

/* ---- complaints ---- */

void ctf_complain(struct ctf_stream *stream, const char *format, ...)
{
	char what[300];
	va_list arguments;

	stream->ctf->source.facts.damaged = true;
	if (stream->complaints++ >= COMPLAINTS_MAX)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	event_source_say(&stream->ctf->source, "%s: %s%s", stream->path, what,
		stream->complaints == COMPLAINTS_MAX ? "; more of it is not told" : "");
}

/* ---- the window ---- */

/* Of many streams none keeps its file open: so many may not be open at a time. */
static bool open_again(struct ctf_stream *stream)
{
	if (stream->file < 0)
		stream->file = open(stream->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (stream->file < 0)
		ctf_complain(stream, "it cannot be opened: %s", strerror(errno));
	return stream->file >= 0;
}

static void close_if_many(struct ctf_stream *stream)
{
	if (stream->ctf->stream_count <= FILES_KEPT || stream->file < 0)
		return;
	close(stream->file);
	stream->file = -1;
}

/* Fill it from `from` on, a multiple of WINDOW_STEP from its packet. */
static bool fill(struct ctf_stream *stream, uint64_t from)
{
	uint64_t old_end = stream->window_at + stream->window_bytes;
	size_t kept = 0;

	if (!open_again(stream))
		return false;
	if (from >= stream->window_at && from < old_end) {
		kept = (size_t)(old_end - from);
		memmove(stream->window, stream->window + (from - stream->window_at), kept);
	}
	stream->window_at = from;
	stream->window_bytes = kept;
	while (stream->window_bytes < stream->capacity) {
		ssize_t got = pread(stream->file, stream->window + stream->window_bytes,
			stream->capacity - stream->window_bytes, (off_t)(from + stream->window_bytes));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			ctf_complain(stream, "it cannot be read: %s", strerror(errno));
		if (got <= 0)
			break;
		stream->window_bytes += (size_t)got;
	}
	close_if_many(stream);
	return stream->window_bytes > kept;
}

static void set_limit(struct ctf_stream *stream)
{
	uint64_t end = stream->packet.at + stream->packet.content_end / 8;
	uint64_t have = stream->window_at + stream->window_bytes;

	stream->limit = stream->window + (size_t)((end < have ? end : have) - stream->window_at);
}

/* False: no event and no head is as large as that. */
static bool widen(struct ctf_stream *stream)
{
	if (stream->capacity >= CAPACITY_MAX)
		return false;
	stream->capacity *= 2;
	stream->window = need(realloc(stream->window, stream->capacity));
	return true;
}

bool ctf_more(struct ctf_stream *stream)
{
	uint64_t content_end = stream->packet.at + stream->packet.content_end / 8;
	uint64_t start = stream->window_at + (uint64_t)(stream->start - stream->window);
	uint64_t at = stream->window_at + (uint64_t)(stream->at - stream->window);
	uint64_t from = start - (start - stream->packet.at) % WINDOW_STEP;
	bool more;

	if (stream->window_at + stream->window_bytes >= content_end)
		return false;
	if (from == stream->window_at && stream->window_bytes == stream->capacity && !widen(stream))
		return false;
	more = fill(stream, from);
	stream->base = stream->window;
	stream->start = stream->window + (start - from);
	stream->at = stream->window + (at - from);
	set_limit(stream);
	return more;
}

static bool open_file(struct ctf_stream *stream)
{
	size_t share = WINDOWS_BYTES / (stream->ctf->stream_count ? stream->ctf->stream_count : 1);

	if (stream->window)
		return true;
	if (!open_again(stream))
		return false;
	stream->capacity = WINDOW_BYTES_MIN;
	while (stream->capacity < WINDOW_BYTES_MAX && stream->capacity * 2 <= share)
		stream->capacity *= 2;
	stream->window = need(malloc(stream->capacity));
	stream->window_bytes = 0;
	close_if_many(stream);
	return true;
}

void ctf_stream_end(struct ctf_stream *stream)
{
	if (stream->file >= 0)
		close(stream->file);
	stream->file = -1;
	free(stream->window);
	stream->window = NULL;
	stream->window_bytes = 0;
	stream->start = stream->at = stream->limit = NULL;
	arena_free(&stream->packet_arena);
	arena_free(&stream->event_arena);
}

/* ---- the head of a packet ---- */

static bool number_of(const struct ctf_value *structure, const char *name, uint64_t *number)
{
	const struct ctf_value *value = ctf_member(structure, name);

	if (!value || (value->type->kind != TSDL_INTEGER && value->type->kind != TSDL_ENUM))
		return false;
	*number = value->number;
	return true;
}

static bool uuid_matches(const struct tsdl *tsdl, const struct ctf_value *header)
{
	const struct ctf_value *uuid = ctf_member(header, "uuid");
	bool same = true;

	if (!tsdl->has_uuid || !uuid || uuid->type->kind != TSDL_ARRAY || uuid->list.count != 16)
		return true;
	for (unsigned i = 0; i < 16 && uuid->type->element->kind == TSDL_INTEGER; i++)
		same &= uuid->list.items[i].number == tsdl->uuid[i];
	return same;
}

/* What the head says, against what can be; NULL: fine. */
static const char *check_head(struct ctf_stream *stream, struct ctf_packet *packet)
{
	uint64_t rest = (stream->bytes - packet->at) * 8, bits = rest, content;
	bool has_size = number_of(packet->context, "packet_size", &bits);

	content = bits;
	number_of(packet->context, "content_size", &content);
	if (bits % 8 || content > bits || content < packet->first_event)
		return "the sizes of a packet make no sense";
	packet->bytes = bits / 8;
	packet->cut = has_size && bits > rest;
	packet->content_end = content < rest ? content : rest;
	packet->has_times = number_of(packet->context, "timestamp_begin", &packet->begin);
	packet->has_times &= number_of(packet->context, "timestamp_end", &packet->end);
	packet->has_sequence = number_of(packet->context, "packet_seq_num", &packet->sequence);
	packet->has_discarded = number_of(packet->context, "events_discarded", &packet->discarded);
	number_of(packet->context, "cpu_id", &packet->cpu);
	number_of(packet->header, "stream_instance_id", &packet->instance);
	return NULL;
}

static const char *decode_head(struct ctf_stream *stream, enum ctf_outcome *outcome)
{
	struct ctf_packet *packet = &stream->packet;
	const struct tsdl *tsdl = stream->trace->tsdl;
	size_t offset = (size_t)(packet->at - stream->window_at);
	struct ctf_decoder decoder = { .bytes = stream->window + offset,
		.end = 8 * (stream->window_bytes - offset),
		.arena = &stream->packet_arena, .budget = CTF_VALUES_MAX };
	uint64_t number = 0;

	arena_reset(&stream->packet_arena);
	*outcome = ctf_decode(&decoder, CTF_PACKET_HEADER, tsdl->packet_header, &packet->header);
	if (*outcome != CTF_FINE)
		return "the head of a packet makes no sense";
	if (number_of(packet->header, "magic", &number) && number != PACKET_MAGIC)
		return "there is no packet where one should begin";
	if (!uuid_matches(tsdl, packet->header))
		return "a packet belongs to another trace";
	number = tsdl->streams && !tsdl->streams->next ? tsdl->streams->id : 0;
	number_of(packet->header, "stream_id", &number);
	packet->class = ctf_stream_class_of(stream->trace, number);
	if (!packet->class)
		return "the metadata does not explain a packet";
	*outcome = ctf_decode(&decoder, CTF_PACKET_CONTEXT, packet->class->tsdl->packet_context,
		&packet->context);
	packet->first_event = decoder.at;
	return *outcome == CTF_FINE ? check_head(stream, packet)
		: "the head of a packet makes no sense";
}

/* Read the head of the packet at `at`; NULL: fine, else what is wrong. */
static const char *read_head(struct ctf_stream *stream, uint64_t at)
{
	enum ctf_outcome outcome;
	const char *wrong;

	stream->packet = (struct ctf_packet){ .at = at };
	if (at < stream->window_at || at >= stream->window_at + stream->window_bytes)
		fill(stream, at);
	for (;;) {
		wrong = decode_head(stream, &outcome);
		if (outcome != CTF_SHORT)
			return wrong;
		if (stream->window_at != at)
			fill(stream, at);
		else if (stream->window_bytes < stream->capacity)
			return "the head of a packet is cut off";
		else if (!widen(stream) || !fill(stream, at))
			return wrong;
	}
}

/* ---- from packet to packet ---- */

/* Where the next packet may begin, from `from` on; the end of the file if nowhere. */
static uint64_t find_magic(struct ctf_stream *stream, uint64_t from)
{
	uint32_t magic = PACKET_MAGIC;

	if (stream->trace->tsdl->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
		magic = __builtin_bswap32(magic);
	while (from + sizeof(magic) <= stream->bytes) {
		const uint8_t *found;

		stream->window_bytes = 0;
		if (!fill(stream, from) || stream->window_bytes < sizeof(magic))
			break;
		found = memmem(stream->window, stream->window_bytes, &magic, sizeof(magic));
		if (found)
			return stream->window_at + (uint64_t)(found - stream->window);
		from += stream->window_bytes - sizeof(magic) + 1;
	}
	return stream->bytes;
}

uint64_t ctf_packet_hash(const struct ctf_stream *stream, const struct ctf_packet *packet)
{
	uint64_t parts[] = { packet->class->tsdl->id, packet->instance, packet->cpu, packet->sequence,
		packet->begin, packet->end, packet->content_end, packet->discarded };
	uint64_t hash = 0;

	for (unsigned i = 0; i < 16; i++)
		hash = hash * 257 + stream->trace->tsdl->uuid[i];
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		hash = map_mix(hash) + parts[i];
	return hash;
}

static bool is_copy(const struct ctf_stream *stream)
{
	uint32_t owner;

	if (stream->group == MAP_NONE)
		return false;
	owner = map_get(&stream->ctf->packets, ctf_packet_hash(stream, &stream->packet));
	return owner != MAP_NONE && owner != stream->number;
}

void ctf_note_losses(struct ctf_stream *stream, const struct ctf_packet *packet)
{
	struct trace_loss *loss = &stream->loss;
	/* A stream that begins later says nothing about what was before. */
	bool from_zero = !stream->seen && packet->has_sequence && packet->sequence == 0;

	if (packet->has_sequence && stream->seen && packet->sequence > stream->last_sequence + 1)
		loss->packets += packet->sequence - stream->last_sequence - 1;
	if (packet->has_discarded && from_zero)
		loss->events += packet->discarded;
	else if (packet->has_discarded && stream->seen && packet->discarded > stream->last_discarded)
		loss->events += packet->discarded - stream->last_discarded;
	stream->seen = true;
	stream->last_sequence = packet->sequence;
	stream->last_discarded = packet->discarded;
}

/* Left out: nothing in it but counts, and all of them outside of the time asked for. */
static bool is_outside(const struct ctf_stream *stream)
{
	const struct ctf_packet *packet = &stream->packet;
	const struct ctf *ctf = stream->ctf;
	bool is_last = packet->at + packet->bytes >= stream->bytes;

	if (!packet->class->bulk || !packet->has_times || !stream->started || is_last || ctf->every)
		return false;
	return ctf_ticks_to_ns(packet->class, packet->end) < ctf->skip_before_ns ||
		ctf_ticks_to_ns(packet->class, packet->begin) > ctf->skip_after_ns;
}

static void enter(struct ctf_stream *stream)
{
	struct ctf_packet *packet = &stream->packet;

	stream->base = stream->window + (packet->at - stream->window_at);
	stream->start = stream->at = stream->base + packet->first_event / 8;
	stream->at_bit = packet->first_event % 8;
	if (packet->has_times)
		stream->clock = packet->begin;
	set_limit(stream);
}

static void tell_gap(struct ctf_stream *stream, uint64_t at, const char *wrong)
{
	const char *far = stream->last_ns ? format_moment(stream->last_ns) : "its beginning";

	if (stream->next_packet < stream->bytes)
		ctf_complain(stream, "%s, at byte %llu after %s; %llu bytes are passed over", wrong,
			(unsigned long long)at, far, (unsigned long long)(stream->next_packet - at));
	else
		ctf_complain(stream, "a stream breaks off after %s: %s, at byte %llu", far, wrong,
			(unsigned long long)at);
}

static void tell_cut(struct ctf_stream *stream)
{
	ctf_complain(stream, "the stream is cut off at byte %llu, within a packet that should end at %llu;"
		" what was read of it counts", (unsigned long long)stream->bytes,
		(unsigned long long)(stream->packet.at + stream->packet.bytes));
}

bool ctf_peek_packet(struct ctf_stream *stream)
{
	if (!open_file(stream))
		return false;
	while (stream->next_packet < stream->bytes) {
		if (!read_head(stream, stream->next_packet)) {
			stream->next_packet = stream->packet.at + stream->packet.bytes;
			return true;
		}
		stream->next_packet = find_magic(stream, stream->next_packet + 1);
	}
	return false;
}

bool ctf_next_packet(struct ctf_stream *stream)
{
	if (!open_file(stream))
		return false;
	while (stream->next_packet < stream->bytes) {
		uint64_t at = stream->next_packet;
		const char *wrong = read_head(stream, at);

		if (wrong) {
			stream->next_packet = find_magic(stream, at + 1);
			tell_gap(stream, at, wrong);
			continue;
		}
		stream->next_packet = at + stream->packet.bytes;
		stream->ctf->read_bytes += stream->packet.bytes;
		if (is_copy(stream)) {
			stream->ctf->duplicates++;
			continue;
		}
		if (stream->group == MAP_NONE)
			ctf_note_losses(stream, &stream->packet);
		if (is_outside(stream))
			continue;
		if (stream->packet.cut)
			tell_cut(stream);
		enter(stream);
		return true;
	}
	return false;
}

/* ---- streams ---- */

/* Does it begin like one, or hold a packet further on? Empty ones are of no interest. */
static bool is_stream(struct ctf_stream *stream)
{
	const char *name = strrchr(stream->path, '/');
	uint64_t found;

	if (!open_file(stream))
		return false;
	found = find_magic(stream, 0);
	ctf_stream_end(stream);
	if (found < stream->bytes)
		return true;
	/* LTTng's streams have no dot in their name; reports and pictures do. */
	if (!strchr(name, '.'))
		ctf_complain(stream, "there is no packet in it");
	return false;
}

/* Many streams are empty because nothing happened there; LTTng's index tells of those that were not. */
#define INDEX_HEAD_BYTES 16

static void tell_emptied(struct ctf_stream *stream, const char *folder, const char *name)
{
	struct stat about;
	char *index;

	if (asprintf(&index, "%s/index/%s.idx", folder, name) < 0)
		need(NULL);
	if (stat(index, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > INDEX_HEAD_BYTES)
		ctf_complain(stream, "it is empty, and its index tells of packets in it: they are lost");
	free(index);
}

struct ctf_stream *ctf_stream_open(struct ctf *ctf, struct ctf_trace *trace, const char *name)
{
	struct ctf_stream *stream = need_zeroed(1, sizeof(*stream));
	struct stat about = { .st_size = -1 };

	stream->ctf = ctf;
	stream->trace = trace;
	stream->file = -1;
	stream->group = MAP_NONE;
	if (asprintf(&stream->path, "%s/%s", trace->path, name) < 0)
		need(NULL);
	if (stat(stream->path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0) {
		if (about.st_size == 0)
			tell_emptied(stream, trace->path, name);
		ctf_stream_close(stream);
		return NULL;
	}
	stream->bytes = (uint64_t)about.st_size;
	if (!trace->tsdl->packet_header || is_stream(stream))
		return stream;
	ctf_stream_close(stream);
	return NULL;
}

void ctf_stream_close(struct ctf_stream *stream)
{
	ctf_stream_end(stream);
	free(stream->path);
	free(stream);
}
