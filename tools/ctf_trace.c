/*
 * ctf_trace.c - the folder of a trace: its metadata, and what follows from it for reading.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctf_private.h"
#include "need.h"

#define METADATA_MAGIC 0x75d11d57u
#define METADATA_BYTES_MAX (256u << 20)

/* What stands before each piece of the text of LTTng's metadata; sizes in bits. */
struct metadata_header {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t checksum;
	uint32_t content_size, packet_size;
	uint8_t compression, encryption, checksum_scheme;
	uint8_t major, minor;
} __attribute__((packed));

/* ---- the text ---- */

static char *read_file(const char *path, size_t *bytes)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;
	char *text;
	size_t used = 0;
	ssize_t got;

	if (file < 0)
		return NULL;
	if (fstat(file, &about) != 0 || about.st_size > METADATA_BYTES_MAX) {
		close(file);
		errno = EFBIG;
		return NULL;
	}
	text = need_zeroed((size_t)about.st_size + 1, 1);
	while (used < (size_t)about.st_size &&
		(got = read(file, text + used, (size_t)about.st_size - used)) > 0)
		used += (size_t)got;
	close(file);
	*bytes = used;
	return text;
}

/* Join the pieces in place; returns how long the text is. */
static size_t unpack(char *bytes, size_t length, bool *cut)
{
	struct metadata_header header;
	size_t at = 0, used = 0;

	while (length - at >= sizeof(header)) {
		uint64_t content, packet;
		bool swap;

		memcpy(&header, bytes + at, sizeof(header));
		swap = header.magic == __builtin_bswap32(METADATA_MAGIC);
		if (header.magic != METADATA_MAGIC && !swap)
			break;
		content = (swap ? __builtin_bswap32(header.content_size) : header.content_size) / 8;
		packet = (swap ? __builtin_bswap32(header.packet_size) : header.packet_size) / 8;
		if (content < sizeof(header) || packet < content || header.compression ||
			header.encryption)
			break;
		*cut |= packet > length - at;
		if (content > length - at)
			content = length - at;
		memmove(bytes + used, bytes + at + sizeof(header), (size_t)content - sizeof(header));
		used += (size_t)content - sizeof(header);
		at += packet < length - at ? (size_t)packet : length - at;
	}
	*cut |= at < length;
	return used;
}

/* Without declarations there is nothing to lose by guessing them. */
static struct tsdl *guess(struct ctf *ctf, const char *folder)
{
	size_t length;
	char *text = ctf_guess_metadata(folder, &length);
	struct tsdl *tsdl = NULL;

	ctf->source.facts.damaged = true;
	if (text)
		tsdl = tsdl_parse(text, length);
	free(text);
	event_source_say(&ctf->source, tsdl ? "%s: there are streams of a trace, but its metadata is"
		" missing; it was guessed from them, and their times from the date of the files"
		: "%s: there are streams of a trace, but its metadata is missing; without it nothing can"
		" be read", folder);
	return tsdl;
}

static struct tsdl *read_metadata(struct ctf *ctf, const struct ctf_dir *dir)
{
	char file[4096], *text;
	uint32_t magic = 0;
	size_t length;
	struct tsdl *tsdl;
	bool cut = false;

	if (dir->orphan)
		return guess(ctf, dir->path);
	snprintf(file, sizeof(file), "%s/metadata", dir->path);
	text = read_file(file, &length);
	if (!text) {
		event_source_say(&ctf->source, "%s: %s", file, strerror(errno));
		return NULL;
	}
	memcpy(&magic, text, length < sizeof(magic) ? 0 : sizeof(magic));
	if (magic == METADATA_MAGIC || magic == __builtin_bswap32(METADATA_MAGIC))
		length = unpack(text, length, &cut);
	tsdl = tsdl_parse(text, length);
	free(text);
	if (!*tsdl->error && cut)
		snprintf(tsdl->error, sizeof(tsdl->error), "it is cut off");
	if (*tsdl->error) {
		event_source_say(&ctf->source, "%s: the trace's metadata may be incomplete, as after a"
			" killed session daemon: %s", file, tsdl->error);
		ctf->source.facts.damaged = true;
	}
	return tsdl;
}

/* As of a session daemon that was killed: an empty file, or one that ends too early. */
static struct tsdl *metadata_of(struct ctf *ctf, const struct ctf_dir *dir)
{
	struct tsdl *tsdl = read_metadata(ctf, dir), *guessed;

	if (!tsdl || tsdl->events || dir->has_streams == false)
		return tsdl;
	guessed = guess(ctf, dir->path);
	if (!guessed)
		return tsdl;
	tsdl_free(tsdl);
	return guessed;
}

/* ---- clocks ---- */

/* The clock of the first number that is a time. */
static const char *clock_in(const struct tsdl_type *type, unsigned depth)
{
	const char *name = type ? type->clock : NULL;

	if (!type || depth == 0)
		return NULL;
	for (size_t i = 0; i < type->member_count && !name; i++)
		name = clock_in(type->members[i].type, depth - 1);
	return name;
}

static const struct tsdl_clock *clock_of(const struct tsdl *tsdl, const struct tsdl_stream *stream)
{
	const char *name = clock_in(stream->event_header, 8);

	if (!name)
		name = clock_in(stream->packet_context, 8);
	return name ? tsdl_clock_named(tsdl, name) : NULL;
}

uint64_t ctf_odd_ticks_to_ns(const struct tsdl_clock *clock, uint64_t ticks)
{
	uint64_t sum = ticks + clock->offset;

	return (uint64_t)((unsigned __int128)sum * 1000000000 / clock->frequency) +
		(uint64_t)clock->offset_s * 1000000000;
}

static void set_clock(struct ctf_stream_class *class, const struct tsdl_clock *clock)
{
	class->clock = clock;
	class->clock_counts_ns = clock && clock->frequency == 1000000000;
	if (clock)
		class->clock_base_ns = clock->offset + (uint64_t)clock->offset_s * 1000000000;
}

/* ---- classes ---- */

/* Events that only add to counts: a part of time without them tells nothing wrong about the rest. */
static bool is_bulk(const struct ctf_class *class)
{
	return class->ours && (class->type == EVENT_launch || class->type == EVENT_copy ||
		class->type == EVENT_sync || class->type == EVENT_call || class->type == EVENT_gpu ||
		class->type == EVENT_untimed ||
		class->type == EVENT_launched);
}

static void add_classes(const struct tsdl *tsdl, struct ctf_stream_class *stream)
{
	size_t count = 0;

	for (const struct tsdl_event *event = tsdl->events; event; event = event->next)
		count += event->stream_id == stream->tsdl->id;
	stream->classes = need_zeroed(count, sizeof(*stream->classes));
	stream->direct = need_zeroed(CTF_DIRECT_IDS, sizeof(*stream->direct));
	memset(stream->direct, 0xff, CTF_DIRECT_IDS * sizeof(*stream->direct));
	stream->bulk = count > 0;
	for (const struct tsdl_event *event = tsdl->events; event; event = event->next) {
		struct ctf_class *class = &stream->classes[stream->class_count];

		if (event->stream_id != stream->tsdl->id ||
			map_get(&stream->class_of, event->id) != MAP_NONE)
			continue;
		class->tsdl = event;
		ctf_prepare_class(class, stream);
		stream->bulk &= is_bulk(class);
		map_set(&stream->class_of, event->id, stream->class_count);
		if (event->id < CTF_DIRECT_IDS)
			stream->direct[event->id] = stream->class_count;
		stream->class_count++;
	}
}

const struct ctf_stream_class *ctf_stream_class_of(const struct ctf_trace *trace, uint64_t id)
{
	for (size_t i = 0; i < trace->stream_class_count; i++)
		if (trace->stream_classes[i].tsdl->id == id)
			return &trace->stream_classes[i];
	return NULL;
}

static void prepare(struct ctf_trace *trace)
{
	const struct tsdl *tsdl = trace->tsdl;
	size_t count = 0;

	for (const struct tsdl_stream *stream = tsdl->streams; stream; stream = stream->next)
		count++;
	trace->stream_classes = need_zeroed(count, sizeof(*trace->stream_classes));
	for (const struct tsdl_stream *stream = tsdl->streams; stream; stream = stream->next) {
		struct ctf_stream_class *class = &trace->stream_classes[trace->stream_class_count++];

		class->tsdl = stream;
		set_clock(class, clock_of(tsdl, stream));
		ctf_prepare_header(class);
		add_classes(tsdl, class);
	}
}

/* ---- traces ---- */

/* "host:process:pid ", as far as it is known. */
static char *prefix_of(const struct tsdl *tsdl)
{
	const char *host = tsdl_env_text(tsdl, "hostname"), *name = tsdl_env_text(tsdl, "procname");
	const struct tsdl_env *pid = tsdl_env_named(tsdl, "vpid");
	char *prefix = NULL;
	size_t bytes;
	FILE *out = need(open_memstream(&prefix, &bytes));

	if (host)
		fputs(host, out);
	if (name)
		fprintf(out, "%s%s", host ? ":" : "", name);
	if (pid && !pid->text)
		fprintf(out, "%s(%lld)", host || name ? ":" : "", (long long)pid->number);
	if (ftell(out) > 0)
		fputc(' ', out);
	fclose(out);
	return need(prefix);
}

struct ctf_trace *ctf_trace_open(struct ctf *ctf, const struct ctf_dir *dir)
{
	struct tsdl *tsdl = metadata_of(ctf, dir);
	struct ctf_trace *trace;

	if (!tsdl)
		return NULL;
	trace = need_zeroed(1, sizeof(*trace));
	trace->tsdl = tsdl;
	trace->path = need_copy(dir->path);
	trace->host = need_copy(tsdl_env_text(tsdl, "hostname"));
	trace->prefix = prefix_of(tsdl);
	trace->source = dir->session << 16 | (dir->user & 0xffff);
	prepare(trace);
	return trace;
}

void ctf_trace_close(struct ctf_trace *trace)
{
	for (size_t i = 0; i < trace->stream_class_count; i++) {
		map_free(&trace->stream_classes[i].class_of);
		free(trace->stream_classes[i].classes);
		free(trace->stream_classes[i].direct);
	}
	free(trace->stream_classes);
	tsdl_free(trace->tsdl);
	free(trace->path);
	free(trace->host);
	free(trace->prefix);
	free(trace);
}
