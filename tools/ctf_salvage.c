/*
 * ctf_salvage.c - metadata for streams that have none, as a killed session daemon leaves them.
 *
 * What LTTng-UST writes around events is always the same, and so are ours; only which number means
 * which event differs from session to session. So numbers are tried out until whole packets make
 * sense with them: an event that is read as another one goes wrong within a few bytes. What cannot
 * be known is the clock's offset, for which the date of the files stands in, and the host.
 */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctf_private.h"
#include "need.h"

#define PACKET_MAGIC 0xc1fc1fc1u
#define IDS_MAX 32
#define STREAMS_MAX 16
#define BYTES_MAX (8u << 20) /* of a stream, to learn from */
#define TEXT_MAX 65536

struct head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t instance, begin, end, content, packet, sequence, discarded;
	uint32_t cpu;
} __attribute__((packed));

/* What the files of one stream class have: their bytes, and what was learned from them. */
struct guess {
	uint32_t stream_id;
	uint8_t *bytes;
	size_t used, capacity;
	bool solved;
	uint32_t event_of[IDS_MAX]; /* EVENT_COUNT: unknown */
	uint32_t taken;             /* bits of events */
	unsigned tries;
};

struct salvage {
	uint8_t uuid[16];
	bool has_uuid;
	struct guess guesses[STREAMS_MAX];
	size_t count;
	uint64_t end_ticks, end_ns; /* of the last packet, and the date of its file */
};

#define TRIES_MAX 200000

/* ---- does an event make sense? ---- */

static bool text_is_sound(const char *text)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' && text[i] != '\n' && text[i] != '\t')
			return false;
	return length < TEXT_MAX;
}

static bool field_is_sound(const char *name, uint64_t value)
{
	static const struct { const char *name; uint64_t most; } bounds[] = {
		{ "kind", KIND_COUNT - 1 }, { "direction", DIRECTION_COUNT - 1 }, { "what", OBJECT_PRESENT },
		{ "scope", SCOPE_COUNT - 1 }, { "how", END_COUNT - 1 }, { "verdict", VERDICT_COUNT - 1 },
		{ "api", UINT16_MAX }, { "reason", UNTIMED_COUNT - 1 }, { "tid", 1u << 22 }, { "pid", 1u << 22 },
		{ "result", 2000 }, { "pointer", 1ull << 57 }, { "bytes", 1ull << 50 },
		{ "live_bytes", 1ull << 50 }, { "duration_ns", 1ull << 52 }, { "block_z", 64 },
		{ "grid_y", 65535 }, { "block_x", 1024 }, { "count", 1ull << 40 }, { "image", 1u << 20 },
	};

	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++)
		if (strcmp(bounds[i].name, name) == 0)
			return value <= bounds[i].most;
	return true;
}

/* The names of kernels and of call sites have the same fields: a site says where in which file. */
static bool is_place(const char *text)
{
	return strstr(text, "+0x") || strchr(text, ':');
}

static bool event_is_sound(const struct event *event, enum cuward_event type)
{
	const struct event_schema *schema = event_schema(type);

	if ((type == EVENT_function && is_place(event->function.name)) ||
	    (type == EVENT_site && !is_place(event->site.frames)))
		return false;

	for (unsigned i = 0; i < schema->count; i++) {
		const struct event_field *field = &schema->fields[i];

		if (field->type == FIELD_str ? !text_is_sound(event_string(event, field))
			: !field_is_sound(field->name, event_number(event, field)))
			return false;
	}
	return type != EVENT_gpu || event->gpu.begin_ns <= event->gpu.end_ns;
}

/* ---- trying ---- */

static bool walk(struct guess *guess, size_t packet, size_t at, uint64_t clock);

static const uint8_t *read_as(enum cuward_event type, const uint8_t *at, const uint8_t *end)
{
	struct event event = { .type = type };
	const uint8_t *next = ctf_read_ours(type, at, end, &event);

	return next && event_is_sound(&event, type) ? next : NULL;
}

/* The events of a session are in three channels: those of one stream are of one of them. */
static unsigned channel_of(enum cuward_event type)
{
	switch (type) {
	case EVENT_launch: case EVENT_copy: case EVENT_sync: case EVENT_gpu: case EVENT_call:
	case EVENT_untimed: case EVENT_launched:
		return 1;
	case EVENT_alloc: case EVENT_free: case EVENT_denied: case EVENT_context: case EVENT_stream:
	case EVENT_held:
		return 2;
	default:
		return 3;
	}
}

static bool may_be(const struct guess *guess, enum cuward_event type)
{
	if (guess->taken >> type & 1)
		return false;
	for (unsigned other = 0; other < EVENT_COUNT; other++)
		if (guess->taken >> other & 1 && channel_of(other) != channel_of(type))
			return false;
	return true;
}

static bool try_all(struct guess *guess, uint32_t id, size_t packet, size_t at, size_t end,
	uint64_t clock)
{
	for (unsigned type = 0; type < EVENT_COUNT; type++) {
		const uint8_t *next;

		if (!may_be(guess, type) || guess->tries++ > TRIES_MAX)
			continue;
		next = read_as(type, guess->bytes + at, guess->bytes + end);
		if (!next)
			continue;
		guess->event_of[id] = type;
		guess->taken |= 1u << type;
		if (walk(guess, packet, (size_t)(next - guess->bytes), clock))
			return true;
		guess->taken &= ~(1u << type);
		guess->event_of[id] = EVENT_COUNT;
	}
	return false;
}

/* The header of an event at `at`; 0: it makes no sense. */
static size_t read_header(const struct guess *guess, size_t at, size_t end, uint32_t *id,
	uint64_t *clock)
{
	uint16_t short_id;
	uint32_t low;
	uint64_t whole;

	if (end - at < 6)
		return 0;
	memcpy(&short_id, guess->bytes + at, 2);
	memcpy(&low, guess->bytes + at + 2, 4);
	*id = le16toh(short_id);
	if (*id != 65535) {
		*clock = ctf_clock_forward(*clock, le32toh(low), 32);
		return *id < IDS_MAX ? 6 : 0;
	}
	if (end - at < 14)
		return 0;
	memcpy(&whole, guess->bytes + at + 6, 8);
	*id = le32toh(low);
	*clock = le64toh(whole);
	return *id < IDS_MAX ? 14 : 0;
}

/* From an event in a packet to the end of all packets; at 0 is the first event. */
static bool walk(struct guess *guess, size_t packet, size_t at, uint64_t clock)
{
	while (guess->used - packet >= sizeof(struct head)) {
		const struct head *head = (const struct head *)(guess->bytes + packet);
		size_t end = packet + (size_t)(le64toh(head->content) / 8);

		if (!at) {
			at = packet + sizeof(*head);
			clock = le64toh(head->begin);
		}
		while (at < end) {
			uint32_t id = 0;
			size_t header = read_header(guess, at, end, &id, &clock);
			const uint8_t *next;

			if (!header || clock > le64toh(head->end))
				return false;
			at += header;
			if (guess->event_of[id] == EVENT_COUNT)
				return try_all(guess, id, packet, at, end, clock);
			next = read_as(guess->event_of[id], guess->bytes + at, guess->bytes + end);
			if (!next)
				return false;
			at = (size_t)(next - guess->bytes);
		}
		packet = end;
		at = 0;
	}
	return true;
}

/* ---- reading ---- */

static struct guess *guess_of(struct salvage *salvage, uint32_t stream_id)
{
	struct guess *guess;

	for (size_t i = 0; i < salvage->count; i++)
		if (salvage->guesses[i].stream_id == stream_id)
			return &salvage->guesses[i];
	if (salvage->count == STREAMS_MAX)
		return NULL;
	guess = &salvage->guesses[salvage->count++];
	*guess = (struct guess){ .stream_id = stream_id };
	for (unsigned i = 0; i < IDS_MAX; i++)
		guess->event_of[i] = EVENT_COUNT;
	return guess;
}

/* Keep the content of a packet, without what fills it up. */
static void keep(struct guess *guess, int file, uint64_t at, size_t bytes)
{
	if (!guess || guess->used + bytes > BYTES_MAX)
		return;
	while (guess->capacity - guess->used < bytes) {
		guess->capacity = guess->capacity ? 2 * guess->capacity : 65536;
		guess->bytes = need(realloc(guess->bytes, guess->capacity));
	}
	if (pread(file, guess->bytes + guess->used, bytes, (off_t)at) == (ssize_t)bytes)
		guess->used += bytes;
}

static bool head_is_sound(const struct head *head)
{
	uint64_t content = le64toh(head->content), packet = le64toh(head->packet);

	return le32toh(head->magic) == PACKET_MAGIC && content % 8 == 0 && packet % 8 == 0 &&
		content <= packet && content >= 8 * sizeof(*head) && packet < 1ull << 40 &&
		le64toh(head->begin) <= le64toh(head->end);
}

static void read_stream(struct salvage *salvage, const char *folder, const char *name)
{
	char path[4096];
	struct stat about;
	struct head head;
	int file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
		about.st_size = 0;
	for (uint64_t at = 0; at + sizeof(head) <= (uint64_t)about.st_size &&
		pread(file, &head, sizeof(head), (off_t)at) == (ssize_t)sizeof(head) &&
		head_is_sound(&head); at += le64toh(head.packet) / 8) {
		uint64_t content = le64toh(head.content) / 8;

		memcpy(salvage->uuid, head.uuid, sizeof(head.uuid));
		salvage->has_uuid = true;
		/* The last one may be cut off. */
		if (at + content <= (uint64_t)about.st_size)
			keep(guess_of(salvage, le32toh(head.stream_id)), file, at, (size_t)content);
		if (le64toh(head.end) > salvage->end_ticks) {
			salvage->end_ticks = le64toh(head.end);
			salvage->end_ns =
				(uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec;
		}
	}
	if (file >= 0)
		close(file);
}

/* ---- the text ---- */

static void write_field(FILE *out, const struct event_field *field)
{
	static const unsigned bits[] = { [FIELD_u8] = 8, [FIELD_u16] = 16, [FIELD_u32] = 32,
		[FIELD_u64] = 64, [FIELD_i32] = 32, [FIELD_x64] = 64 };

	if (field->type == FIELD_str)
		fprintf(out, "string _%s; ", field->name);
	else
		fprintf(out, "integer { size = %u; align = 8; signed = %d; base = %d; } _%s; ",
			bits[field->type], field->type == FIELD_i32, field->type == FIELD_x64 ? 16 : 10,
			field->name);
}

static void write_stream(FILE *out, const struct guess *guess)
{
	fprintf(out, "stream { id = %" PRIu32 "; event.header := struct event_header_large;\n"
		"packet.context := struct packet_context; };\n", guess->stream_id);
	for (unsigned id = 0; id < IDS_MAX; id++) {
		const struct event_schema *schema;

		if (guess->event_of[id] == EVENT_COUNT)
			continue;
		schema = event_schema(guess->event_of[id]);
		fprintf(out, "event { name = \"cuward:%s\"; id = %u; stream_id = %" PRIu32
			"; fields := struct { ", schema->name, id, guess->stream_id);
		for (unsigned i = 0; i < schema->count; i++)
			write_field(out, &schema->fields[i]);
		fputs("}; };\n", out);
	}
}

static void write_preamble(FILE *out, const struct salvage *salvage)
{
	fputs("/* CTF 1.8 */\ntrace { major = 1; minor = 8; uuid = \"", out);
	for (unsigned i = 0; i < 16; i++)
		fprintf(out, "%02x", salvage->uuid[i]);
	fprintf(out, "\"; byte_order = le; packet.header := struct {\n"
		"integer { size = 32; align = 8; } magic; integer { size = 8; align = 8; } uuid[16];\n"
		"integer { size = 32; align = 8; } stream_id;\n"
		"integer { size = 64; align = 8; } stream_instance_id; }; };\n"
		"clock { name = monotonic; freq = 1000000000; offset = %" PRIu64 "; };\n"
		"typealias integer { size = 16; align = 8; } := uint16_t;\n"
		"typealias integer { size = 32; align = 8; } := uint32_t;\n"
		"typealias integer { size = 64; align = 8; } := uint64_t;\n"
		"typealias integer { size = 32; align = 8; map = clock.monotonic.value; } := time32;\n"
		"typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time64;\n"
		"struct packet_context { time64 timestamp_begin; time64 timestamp_end;\n"
		"uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;\n"
		"uint64_t events_discarded; uint32_t cpu_id; };\n"
		"struct event_header_large { enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;\n"
		"variant <id> { struct { time32 timestamp; } compact;\n"
		"struct { uint32_t id; time64 timestamp; } extended; } v; } align(8);\n",
		salvage->end_ns - salvage->end_ticks);
}

char *ctf_guess_metadata(const char *folder, size_t *length)
{
	struct salvage salvage = { .count = 0 };
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort);
	char *text = NULL;
	FILE *out = need(open_memstream(&text, length));
	bool any = false;

	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.' && strcmp(entries[i]->d_name, "metadata") != 0)
			read_stream(&salvage, folder, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	if (salvage.has_uuid)
		write_preamble(out, &salvage);
	for (size_t i = 0; i < salvage.count; i++) {
		struct guess *guess = &salvage.guesses[i];

		if (guess->used && walk(guess, 0, 0, 0) && guess->taken) {
			write_stream(out, guess);
			any = true;
		}
		free(guess->bytes);
	}
	fclose(out);
	if (any)
		return need(text);
	free(text);
	return NULL;
}
