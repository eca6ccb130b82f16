/*
 * ctf.c - all streams of all traces, merged by time.
 */
#include "ctf.h"

#include <dirent.h>
#include <inttypes.h>
#include <time.h>

#include "ctf_private.h"
#include "format.h"
#include "need.h"

/* A call that began before the end of the range may end behind it, but not so much later. */
#define LONG_CALL_NS 60000000000ull

/* ---- by time ---- */

static bool earlier(const struct ctf_stream *a, const struct ctf_stream *b)
{
	return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->rank < b->rank);
}

static void sift_down(struct ctf *ctf, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct ctf_stream *stream = ctf->heap[at];

		if (child >= ctf->heap_count)
			return;
		if (child + 1 < ctf->heap_count && earlier(ctf->heap[child + 1], ctf->heap[child]))
			child++;
		if (!earlier(ctf->heap[child], stream))
			return;
		ctf->heap[at] = ctf->heap[child];
		ctf->heap[child] = stream;
		at = child;
	}
}

/* The first stream of the heap has stepped on, or must do so. */
static void settle(struct ctf *ctf)
{
	struct ctf_stream *stream = ctf->heap[0];

	if (!ctf_advance(stream)) {
		ctf_stream_end(stream);
		ctf->heap[0] = ctf->heap[--ctf->heap_count];
	}
	sift_down(ctf, 0);
}

/*
 * The stream with the earliest event, standing behind its header; NULL: no more. A stream waits
 * unopened until its first packet is due: a trace of many rotations has more files than may be open.
 */
static struct ctf_stream *earliest(struct ctf *ctf)
{
	while (ctf->heap_count && !ctf->heap[0]->window)
		settle(ctf);
	return ctf->heap_count ? ctf->heap[0] : NULL;
}

/* ---- as a source ---- */

static void finish(struct ctf *ctf)
{
	for (size_t i = 0; i < ctf->stream_count; i++) {
		struct ctf_stream *stream = ctf->streams[i];

		stream->loss.stream = stream->path;
		trace_facts_lose(&ctf->source.facts, &stream->loss);
		stream->loss = (struct trace_loss){ 0 };
	}
	ctf->source.facts.copies += ctf->duplicates;
	ctf->duplicates = 0;
}

static uint64_t moment(uint64_t ns, bool is_absolute, uint64_t first_ns)
{
	return is_absolute || ns > UINT64_MAX - first_ns ? ns : first_ns + ns;
}

/* The range counts from the first event, which is known now. */
static void set_skips(struct ctf *ctf, const struct event *first)
{
	uint64_t first_ns = first->time_ns - event_duration(first);
	const struct event_range *range = &ctf->range;
	uint64_t to_ns = moment(range->to_ns, range->to_is_absolute, first_ns);

	ctf->skip_before_ns = moment(range->from_ns, range->from_is_absolute, first_ns);
	ctf->skip_after_ns = to_ns > UINT64_MAX - LONG_CALL_NS ? to_ns : to_ns + LONG_CALL_NS;
}

static bool ctf_next(struct event_source *source, struct event *event)
{
	struct ctf *ctf = (struct ctf *)source;
	struct ctf_stream *stream;

	/* The strings of an event lie in the window, so the stream steps on only now. */
	if (ctf->handed_out)
		settle(ctf);
	while ((stream = earliest(ctf))) {
		ctf->handed_out = ctf_take(stream, event);
		if (ctf->handed_out) {
			if (!source->facts.events++ && ctf->range.to_ns)
				set_skips(ctf, event);
			return true;
		}
		settle(ctf);
	}
	ctf->handed_out = false;
	finish(ctf);
	return false;
}

static void ctf_progress(struct event_source *source, uint64_t *read_bytes, uint64_t *all_bytes)
{
	const struct ctf *ctf = (struct ctf *)source;

	*read_bytes = ctf->read_bytes;
	*all_bytes = ctf->all_bytes;
}

static void ctf_close(struct event_source *source)
{
	struct ctf *ctf = (struct ctf *)source;

	for (size_t i = 0; i < ctf->stream_count; i++)
		ctf_stream_close(ctf->streams[i]);
	for (size_t i = 0; i < ctf->trace_count; i++)
		ctf_trace_close(ctf->traces[i]);
	trace_facts_free(&source->facts);
	map_free(&ctf->packets);
	free(ctf->streams);
	free(ctf->traces);
	free(ctf->heap);
	free(ctf);
}

/* ---- opening ---- */

static void add_stream(struct ctf *ctf, struct ctf_trace *trace, const char *name)
{
	struct ctf_stream *stream = ctf_stream_open(ctf, trace, name);

	if (!stream)
		return;
	stream->number = ctf->stream_count;
	ctf->all_bytes += stream->bytes;
	ctf->streams = need_room(ctf->streams, ctf->stream_count, &ctf->stream_capacity,
		sizeof(*ctf->streams));
	ctf->streams[ctf->stream_count++] = stream;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "metadata") != 0;
}

/* By name, so that what is the same stream is read in the same order each time. */
static void add_streams(struct ctf *ctf, struct ctf_trace *trace)
{
	struct dirent **entries;
	int count = scandir(trace->path, &entries, is_visible, alphasort);

	for (int i = 0; i < count; i++) {
		add_stream(ctf, trace, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

/* A trace that was found twice, or in pieces, is one: the same keys mean the same. */
static void unite(const struct ctf *ctf, struct ctf_trace *trace)
{
	for (size_t i = 0; i < ctf->trace_count && trace->tsdl->has_uuid; i++) {
		const struct ctf_trace *other = ctf->traces[i];

		if (other->tsdl->has_uuid &&
			memcmp(other->tsdl->uuid, trace->tsdl->uuid, sizeof(trace->tsdl->uuid)) == 0) {
			trace->source = other->source;
			return;
		}
	}
}

static void add_trace(struct ctf *ctf, const struct ctf_dir *dir)
{
	struct ctf_trace *trace;

	trace = ctf_trace_open(ctf, dir);
	if (!trace) {
		ctf->source.facts.damaged = true;
		return;
	}
	unite(ctf, trace);
	ctf->traces = need_room(ctf->traces, ctf->trace_count, &ctf->trace_capacity,
		sizeof(*ctf->traces));
	ctf->traces[ctf->trace_count++] = trace;
	add_streams(ctf, trace);
}

/* ---- packets that lie in several files ---- */

struct seen_packet {
	struct ctf_packet packet;
	struct ctf_stream *stream;
};

struct seen_packets {
	struct seen_packet *items;
	size_t count, capacity;
};

static int compare_packets(const void *left, const void *right)
{
	const struct ctf_packet *a = &((const struct seen_packet *)left)->packet;
	const struct ctf_packet *b = &((const struct seen_packet *)right)->packet;

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Give each packet of a stream's file to the first file that has it. */
static void claim_packets(struct ctf *ctf, struct ctf_stream *stream, struct seen_packets *seen)
{
	while (ctf_peek_packet(stream)) {
		uint64_t hash = ctf_packet_hash(stream, &stream->packet);

		if (map_get(&ctf->packets, hash) != MAP_NONE)
			continue;
		map_set(&ctf->packets, hash, (uint32_t)stream->number);
		seen->items = need_room(seen->items, seen->count, &seen->capacity, sizeof(*seen->items));
		seen->items[seen->count++] = (struct seen_packet){ stream->packet, stream };
	}
	stream->next_packet = 0;
	ctf_stream_end(stream);
}

/* All files of one stream, as the number of their first makes them a group. */
static void join_group(struct ctf *ctf, uint32_t group)
{
	struct seen_packets seen = { 0 };

	for (size_t i = group; i < ctf->stream_count; i++)
		if (ctf->streams[i]->group == group)
			claim_packets(ctf, ctf->streams[i], &seen);
	if (seen.count)
		qsort(seen.items, seen.count, sizeof(*seen.items), compare_packets);
	for (size_t i = 0; i < seen.count; i++)
		ctf_note_losses(ctf->streams[group], &seen.items[i].packet);
	free(seen.items);
}

static uint64_t stream_hash(const struct ctf_stream *stream)
{
	struct ctf_packet identity = { .class = stream->packet.class,
		.instance = stream->packet.instance, .cpu = stream->packet.cpu };

	return ctf_packet_hash(stream, &identity);
}

/* Of streams whose first packet was looked at. */
static int compare_streams(const void *left, const void *right)
{
	const struct ctf_stream *a = *(struct ctf_stream *const *)left;
	const struct ctf_stream *b = *(struct ctf_stream *const *)right;
	int by_trace = memcmp(a->trace->tsdl->uuid, b->trace->tsdl->uuid, sizeof(a->trace->tsdl->uuid));
	uint64_t class_a = a->packet.class ? a->packet.class->tsdl->id : UINT64_MAX;
	uint64_t class_b = b->packet.class ? b->packet.class->tsdl->id : UINT64_MAX;

	if (by_trace)
		return by_trace;
	if (class_a != class_b)
		return class_a < class_b ? -1 : 1;
	if (a->packet.instance != b->packet.instance)
		return a->packet.instance < b->packet.instance ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

/* Events of the same time have the order that babeltrace2 gives them: by trace, channel and stream. */
static void rank_streams(struct ctf *ctf)
{
	ctf->heap = need_zeroed(ctf->stream_count, sizeof(*ctf->heap));
	for (size_t i = 0; i < ctf->stream_count; i++)
		ctf->heap[i] = ctf->streams[i];
	if (ctf->stream_count)
		qsort(ctf->heap, ctf->stream_count, sizeof(*ctf->heap), compare_streams);
	for (size_t i = 0; i < ctf->stream_count; i++)
		ctf->heap[i]->rank = i;
	ctf->heap_count = ctf->stream_count;
}

/* Look at the first packet of each file: when it begins, and whose it is. */
static void look_ahead(struct ctf *ctf)
{
	struct map first_of = { 0 };

	for (size_t i = 0; i < ctf->stream_count; i++) {
		struct ctf_stream *stream = ctf->streams[i];
		uint32_t first;

		if (ctf_peek_packet(stream)) {
			stream->time_ns = ctf_ticks_to_ns(stream->packet.class, stream->packet.begin);
			first = map_get(&first_of, stream_hash(stream));
			if (first == MAP_NONE)
				map_set(&first_of, stream_hash(stream), (uint32_t)i);
			else if (stream->trace->tsdl->has_uuid)
				stream->group = ctf->streams[first]->group = first;
		}
		stream->next_packet = 0;
		ctf_stream_end(stream);
	}
	map_free(&first_of);
	rank_streams(ctf);
	for (size_t i = 0; i < ctf->stream_count; i++)
		if (ctf->streams[i]->group == i)
			join_group(ctf, (uint32_t)i);
}

static struct ctf *open_all(const struct ctf_dirs *dirs, const struct event_range *range,
	const struct trace_log *log)
{
	struct ctf *ctf = need_zeroed(1, sizeof(*ctf));

	ctf->source = (struct event_source){ .next = ctf_next, .close = ctf_close,
		.progress = ctf_progress, .log = log };
	ctf->skip_after_ns = UINT64_MAX;
	if (range)
		ctf->range = *range;
	for (size_t i = 0; i < dirs->count; i++)
		add_trace(ctf, &dirs->items[i]);
	ctf->source.facts.streamless = dirs->count && !ctf->stream_count;
	look_ahead(ctf);
	for (size_t i = ctf->heap_count / 2; i-- > 0;)
		sift_down(ctf, i);
	return ctf;
}

struct event_source *ctf_open(const struct ctf_dirs *dirs, const struct event_range *range,
	const struct trace_log *log)
{
	return &open_all(dirs, range, log)->source;
}

/* ---- as text ---- */

static void write_time(FILE *out, uint64_t time_ns, uint64_t last_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm tm;
	char text[16] = "";
	uint64_t delta = time_ns - last_ns;

	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(out, "[%s.%09" PRIu64 "] ", text, time_ns % 1000000000);
	if (last_ns)
		fprintf(out, "(+%" PRIu64 ".%09" PRIu64 ") ", delta / 1000000000, delta % 1000000000);
	else
		fprintf(out, "(+?.%.9s) ", "?" "?" "?" "?" "?" "?" "?" "?" "?");
}

static bool is_head(const char *name)
{
	static const char *const names[] = { "timestamp_begin", "timestamp_end", "content_size",
		"packet_size", "packet_seq_num", "events_discarded" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool is_all_head(const struct ctf_value *value)
{
	for (uint64_t i = 0; i < value->list.count; i++)
		if (!is_head(value->list.items[i].name))
			return false;
	return true;
}

/* One part in braces; of the head of a packet what is not about packets, if there is anything. */
static void write_part(FILE *out, const struct ctf_value *value, bool is_packet, bool *any)
{
	bool written = false;

	if (!value || (is_packet && is_all_head(value)))
		return;
	if (*any)
		fputs(", ", out);
	*any = true;
	fputs("{", out);
	for (uint64_t i = 0; i < value->list.count; i++) {
		if (is_packet && is_head(value->list.items[i].name))
			continue;
		fputs(written ? ", " : " ", out);
		written = true;
		ctf_print_member(out, &value->list.items[i]);
	}
	fputs(" }", out);
}

static void write_event(FILE *out, const struct ctf_stream *stream,
	struct ctf_value *const parts[CTF_PARTS], uint64_t last_ns)
{
	bool any = false;

	if (stream->packet.class->clock)
		write_time(out, stream->time_ns, last_ns);
	fprintf(out, "%s%s: ", stream->trace->prefix, stream->class->tsdl->name);
	write_part(out, parts[CTF_PACKET_CONTEXT], true, &any);
	write_part(out, parts[CTF_STREAM_EVENT_CONTEXT], false, &any);
	write_part(out, parts[CTF_EVENT_CONTEXT], false, &any);
	write_part(out, parts[CTF_EVENT_FIELDS], false, &any);
	fputc('\n', out);
}

void ctf_write_text(const struct ctf_dirs *dirs, const struct trace_log *log, FILE *out,
	struct trace_facts *facts)
{
	struct ctf *ctf = open_all(dirs, NULL, log);
	struct ctf_stream *stream;
	struct ctf_value *parts[CTF_PARTS];
	uint64_t last_ns = 0;

	ctf->every = true;
	for (; (stream = earliest(ctf)); settle(ctf)) {
		if (!ctf_take_values(stream, parts))
			continue;
		ctf->source.facts.events++;
		write_event(out, stream, parts, last_ns);
		last_ns = stream->time_ns;
	}
	finish(ctf);
	trace_facts_add(facts, &ctf->source.facts);
	ctf_close(&ctf->source);
}
