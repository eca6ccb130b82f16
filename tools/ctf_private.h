/*
 * ctf_private.h - what the files of the reader share: ctf_trace.c knows what is in a folder,
 * ctf_packet.c reads packets, ctf_event.c events, ctf.c merges them by time.
 */
#ifndef CTF_PRIVATE_H
#define CTF_PRIVATE_H

#include "ctf.h"
#include "ctf_value.h"
#include "map.h"
#include "tsdl.h"

/* ---- classes: what the metadata says, ready for use ---- */

/* Read the fields of an event of ours that looks as in this very version; NULL: too short. */
typedef const uint8_t *ctf_reader(const uint8_t *at, const uint8_t *end, struct event *event);

struct ctf_class {
	const struct tsdl_event *tsdl;
	bool ours;
	enum cuward_event type;
	ctf_reader *reader;  /* NULL: field by field */
	uint64_t skip_bytes; /* contexts before the fields, where reader is set */
	uint64_t fixed_bytes; /* of an event that always takes so many, else 0 */
};

/* How the header of an event is laid out. */
enum ctf_header {
	CTF_HEADER_COMPACT, /* LTTng: 5 bits of id and 27 of time; or 31, id, time */
	CTF_HEADER_LARGE,   /* LTTng: 16 bits of id and 32 of time; or 65535, id, time */
	CTF_HEADER_FLAT,    /* an id and a time of whole bytes */
	CTF_HEADER_OTHER,
};

struct ctf_stream_class {
	const struct tsdl_stream *tsdl;
	enum ctf_header header;
	unsigned id_bytes, time_bytes, id_offset, time_offset; /* of a flat one */
	const struct tsdl_clock *clock; /* NULL none */
	uint64_t clock_base_ns; /* what is to be added to a clock that counts ns */
	bool clock_counts_ns;
	bool bulk; /* only events that define nothing, and so can be left out */
	struct ctf_class *classes;
	uint32_t class_count;
	struct map class_of; /* id -> index */
	uint32_t *direct;    /* the same for ids below CTF_DIRECT_IDS */
};

#define CTF_DIRECT_IDS 256u

struct ctf_trace {
	char *path;
	char *host;
	char *prefix; /* "host:process:pid " as others print it */
	uint32_t source;
	struct tsdl *tsdl;
	struct ctf_stream_class *stream_classes;
	size_t stream_class_count;
};

/* ---- streams ---- */

struct ctf_packet {
	uint64_t at, bytes;   /* in the file */
	uint64_t content_end; /* in the file, in bits from `at` */
	uint64_t first_event; /* bits from `at` */
	uint64_t begin, end;  /* ticks; 0 unknown */
	uint64_t sequence, discarded, instance, cpu;
	bool has_times, has_sequence, has_discarded;
	bool cut; /* the file ends before it */
	const struct ctf_stream_class *class;
	struct ctf_value *header, *context;
};

/* A file of packets. */
struct ctf_stream {
	struct ctf *ctf;
	struct ctf_trace *trace;
	char *path;
	size_t number;
	size_t rank; /* of those with events of the same time */
	int file; /* -1: not open */
	uint64_t bytes; /* of the file */
	uint64_t next_packet;
	struct ctf_packet packet;
	struct arena packet_arena, event_arena;
	uint32_t group; /* MAP_NONE: the only file of its stream */

	/* a window on the file, from a multiple of WINDOW_STEP bytes of its packet */
	uint8_t *window;
	size_t window_bytes, capacity;
	uint64_t window_at; /* in the file */

	/* the next event; pointers into the window */
	const uint8_t *base;  /* from here alignment counts */
	const uint8_t *start; /* where its header begins */
	const uint8_t *at;    /* behind its header */
	const uint8_t *limit; /* of what may be read in the window */
	unsigned at_bit, start_bit; /* where events do not begin and end with bytes */
	uint64_t clock, start_clock; /* ticks, behind and before its header */
	const struct ctf_class *class;
	uint64_t time_ns;
	uint64_t last_ns; /* of the one before */
	bool started;

	/* losses */
	bool seen;
	uint64_t last_sequence, last_discarded;
	struct trace_loss loss;
	unsigned complaints;
};

struct ctf {
	struct event_source source;
	struct ctf_trace **traces;
	size_t trace_count, trace_capacity;
	struct ctf_stream **streams;
	size_t stream_count, stream_capacity;
	struct ctf_stream **heap; /* streams with an event, earliest first */
	size_t heap_count;
	struct map packets; /* hash of a packet in several files -> stream that it is read from */
	bool every; /* also events of others */
	bool handed_out; /* the event of heap[0] */
	struct event_range range; /* that is of interest; to_ns 0: all */
	uint64_t skip_before_ns, skip_after_ns; /* packets of bulk outside are left out */
	uint64_t read_bytes, all_bytes;
	uint64_t duplicates; /* packets */
};

/* ---- ctf_trace.c ---- */

/* Read the metadata of a folder; NULL and a complaint if there is none that helps. */
struct ctf_trace *ctf_trace_open(struct ctf *ctf, const struct ctf_dir *dir);
void ctf_trace_close(struct ctf_trace *trace);
const struct ctf_stream_class *ctf_stream_class_of(const struct ctf_trace *trace, uint64_t id);

static inline const struct ctf_class *ctf_class_of(const struct ctf_stream_class *class,
	uint64_t id)
{
	uint32_t index = id < CTF_DIRECT_IDS ? class->direct[id] : map_get(&class->class_of, id);

	return index == MAP_NONE ? NULL : &class->classes[index];
}

uint64_t ctf_odd_ticks_to_ns(const struct tsdl_clock *clock, uint64_t ticks);

static inline uint64_t ctf_ticks_to_ns(const struct ctf_stream_class *class, uint64_t ticks)
{
	return class->clock_counts_ns ? ticks + class->clock_base_ns
		: class->clock ? ctf_odd_ticks_to_ns(class->clock, ticks) : 0;
}

/* ---- ctf_packet.c ---- */

struct ctf_stream *ctf_stream_open(struct ctf *ctf, struct ctf_trace *trace, const char *name);
void ctf_stream_close(struct ctf_stream *stream);
/* Give its file and its memory back; it holds no more events. */
void ctf_stream_end(struct ctf_stream *stream);
/* Go to the next packet that can be read; false: there is none. */
bool ctf_next_packet(struct ctf_stream *stream);
/* The same for its head alone, without complaint: what lies in the file. */
bool ctf_peek_packet(struct ctf_stream *stream);
/* Have more of the packet in the window; false: all of it is there. */
bool ctf_more(struct ctf_stream *stream);
/* What is wrong with the stream, and where; the rest counts. */
void ctf_complain(struct ctf_stream *stream, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ctf_note_losses(struct ctf_stream *stream, const struct ctf_packet *packet);
uint64_t ctf_packet_hash(const struct ctf_stream *stream, const struct ctf_packet *packet);

/* ---- ctf_salvage.c ---- */

/* Metadata for the streams of a folder that lacks it; NULL: none of ours, free() it. */
char *ctf_guess_metadata(const char *folder, size_t *length);

/* ---- ctf_event.c ---- */

/* The fields of an event of ours, as this version writes them; NULL: too short. */
const uint8_t *ctf_read_ours(enum cuward_event type, const uint8_t *at, const uint8_t *end,
	struct event *event);

void ctf_prepare_class(struct ctf_class *class, const struct ctf_stream_class *stream);
void ctf_prepare_header(struct ctf_stream_class *stream);
/* Step to the next event, its header read; false: there is none. */
bool ctf_advance(struct ctf_stream *stream);
/* Read the fields of that event, and stand behind it; false: damaged, the packet is left. */
bool ctf_take(struct ctf_stream *stream, struct event *event);
/* The same for an event of whatever kind. */
bool ctf_take_values(struct ctf_stream *stream, struct ctf_value *parts[CTF_PARTS]);

#endif
