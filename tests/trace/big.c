/*
 * big.c FOLDER EVENTS [PROCESSES [CPUS]] - write a trace of so many events, laid out as LTTng-UST
 * does it: a stream a CPU and channel, large event headers, packets of 128 KiB.
 *
 * For measuring the reader: what the processes do is a loop of launches, calls, copies, waits,
 * allocations and frees, the CPUs in turn.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuward/events.h"

#ifndef PACKET_BYTES
#define PACKET_BYTES 131072
#endif
#define PACKET_HEAD 84
#ifndef CPUS_MAX
#define CPUS_MAX 16
#endif

enum channel { CALLS, MEMORY, PROCESS, CHANNELS };

static const char *const channel_names[] = { "calls", "memory", "process" };
static const uint8_t uuid[16] = { 0xc0, 0xff, 0xee, 3 };
static uint64_t events_written;

struct stream {
	FILE *file;
	uint8_t packet[PACKET_BYTES];
	size_t used;
	uint64_t begin, last, sequence;
	unsigned channel, cpu;
};

static struct stream streams[CHANNELS][CPUS_MAX];

static enum channel channel_of(enum cuward_event event)
{
	switch (event) {
	case EVENT_launch: case EVENT_copy: case EVENT_sync: case EVENT_call: case EVENT_gpu:
	case EVENT_untimed: case EVENT_launched:
		return CALLS;
	case EVENT_alloc: case EVENT_free: case EVENT_denied: case EVENT_context: case EVENT_stream:
	case EVENT_held:
		return MEMORY;
	default:
		return PROCESS;
	}
}

/* ---- metadata ---- */

#define INTEGER(size, is_signed, base, name) \
	fprintf(out, "\t\tinteger { size = %d; align = 8; signed = %d; encoding = none; base = %d; } _%s;\n", \
		size, is_signed, base, name)
#define TSDL_u8(name) INTEGER(8, 0, 10, #name);
#define TSDL_u16(name) INTEGER(16, 0, 10, #name);
#define TSDL_u32(name) INTEGER(32, 0, 10, #name);
#define TSDL_u64(name) INTEGER(64, 0, 10, #name);
#define TSDL_i32(name) INTEGER(32, 1, 10, #name);
#define TSDL_x64(name) INTEGER(64, 0, 16, #name);
#define TSDL_str(name) fprintf(out, "\t\tstring _%s;\n", #name);

static void write_metadata(const char *folder)
{
	char path[4096];
	FILE *out;

	snprintf(path, sizeof(path), "%s/metadata", folder);
	out = fopen(path, "w");
	if (!out)
		exit(1);
	fprintf(out, "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le;\n"
		"uuid = \"c0ffee03-0000-0000-0000-000000000000\"; packet.header := struct {\n"
		"integer { size = 32; align = 8; } magic; integer { size = 8; align = 8; } uuid[16];\n"
		"integer { size = 32; align = 8; } stream_id;\n"
		"integer { size = 64; align = 8; } stream_instance_id; }; };\n"
		"env { domain = \"ust\"; hostname = \"big\"; };\n"
		"clock { name = \"monotonic\"; freq = 1000000000; offset = 1700000000000000000; };\n"
		"typealias integer { size = 16; align = 8; } := uint16_t;\n"
		"typealias integer { size = 32; align = 8; } := uint32_t;\n"
		"typealias integer { size = 32; align = 8; map = clock.monotonic.value; } := t32;\n"
		"typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := t64;\n"
		"typealias integer { size = 64; align = 8; } := uint64_t;\n"
		"struct packet_context { t64 timestamp_begin; t64 timestamp_end; uint64_t content_size;\n"
		"uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; };\n"
		"struct event_header_large { enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;\n"
		"variant <id> { struct { t32 timestamp; } compact;\n"
		"struct { uint32_t id; t64 timestamp; } extended; } v; } align(8);\n");
	for (unsigned i = 0; i < CHANNELS; i++)
		fprintf(out, "stream { id = %u; event.header := struct event_header_large;\n"
			"packet.context := struct packet_context; };\n", i);
#define F(type, name) TSDL_##type(name)
#define X(event, fields) \
	fprintf(out, "event { name = \"cuward:" #event "\"; id = %d; stream_id = %d; fields := struct {\n", \
		EVENT_##event, channel_of(EVENT_##event)); \
	fields \
	fprintf(out, "}; };\n");
	CUWARD_EVENTS(X, F)
#undef X
#undef F
	fclose(out);
}

/* ---- packets ---- */

static void flush(struct stream *stream)
{
	struct {
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t id;
		uint64_t instance, begin, end, content, packet, sequence, discarded;
		uint32_t cpu;
	} __attribute__((packed)) head = { 0xc1fc1fc1, { 0 }, stream->channel, stream->cpu,
		stream->begin, stream->last, 8 * stream->used, 8 * PACKET_BYTES, stream->sequence++, 0,
		stream->cpu };

	memcpy(head.uuid, uuid, sizeof(uuid));
	_Static_assert(sizeof(head) == PACKET_HEAD, "head");
	memcpy(stream->packet, &head, sizeof(head));
	memset(stream->packet + stream->used, 0, PACKET_BYTES - stream->used);
	if (fwrite(stream->packet, PACKET_BYTES, 1, stream->file) != 1)
		exit(1);
	stream->used = PACKET_HEAD;
}

static void add(struct stream *stream, const void *bytes, size_t count)
{
	memcpy(stream->packet + stream->used, bytes, count);
	stream->used += count;
}

static void begin(struct stream *stream, enum cuward_event event, uint64_t time)
{
	uint16_t id = (uint16_t)event;
	uint32_t low = (uint32_t)time;

	if (stream->used + 600 > PACKET_BYTES)
		flush(stream);
	if (stream->used == PACKET_HEAD)
		stream->begin = time;
	stream->last = time;
	add(stream, &id, sizeof(id));
	add(stream, &low, sizeof(low));
	events_written++;
}

#define WRITE_u8(name) add(stream, &e->name, 1);
#define WRITE_u16(name) add(stream, &e->name, 2);
#define WRITE_u32(name) add(stream, &e->name, 4);
#define WRITE_u64(name) add(stream, &e->name, 8);
#define WRITE_i32(name) add(stream, &e->name, 4);
#define WRITE_x64(name) add(stream, &e->name, 8);
#define WRITE_str(name) add(stream, e->name ? e->name : "", e->name ? strlen(e->name) + 1 : 1);
#define F(type, name) WRITE_##type(name)
#define X(event, fields) \
	static void emit_##event(unsigned cpu, uint64_t time, struct event_##event given) \
	{ \
		struct stream *stream = &streams[channel_of(EVENT_##event)][cpu]; \
		const struct event_##event *e = &given; \
		begin(stream, EVENT_##event, time); \
		fields \
	}
#pragma GCC diagnostic ignored "-Wunused-function"
CUWARD_EVENTS(X, F)
#undef X
#undef F

/* ---- the story ---- */

#define EMIT(name, ...) \
	emit_##name(cpu, time += 150 + (events_written * 7919 & 255), (struct event_##name){ __VA_ARGS__ })

static uint64_t time = 1000000;

static void define(unsigned cpu, uint32_t p)
{
	char name[32];

	snprintf(name, sizeof(name), "worker%u", p);
	EMIT(process, .process = p, .pid = 100 + p, .uid = 1000, .pid_ns = 1, .start_ticks = p,
		.command = name);
	EMIT(device, .process = p, .device = 0, .uuid = "GPU-1", .name = "H200",
		.total_bytes = 1ull << 37, .limit_bytes = 1ull << 33);
	EMIT(thread, .thread = p, .process = p, .tid = 100 + p, .name = name);
	for (uint32_t i = 1; i <= 8; i++) {
		snprintf(name, sizeof(name), "kernel_%u", i);
		EMIT(function, .process = p, .function = i, .name = name);
		snprintf(name, sizeof(name), "cuCall%u", i);
		EMIT(api, .process = p, .api = (uint16_t)i, .name = name);
	}
	for (uint32_t i = 0; i < 4; i++)
		EMIT(stream_number, .process = p, .number = 3 + i, .stream = 0x5000 + 16 * i);
}

static void work(unsigned cpu, uint32_t p, uint32_t round)
{
	uint64_t stream = 0x5000 + 16 * (round % 4), live = 1ull << 30;

	for (uint32_t i = 0; i < 4; i++) {
		EMIT(launched, .thread = p, .api = 1, .duration_ns = 120, .function = 1 + (round + i) % 8,
			.grid_x = 128, .grid_y = 1, .grid_z = 1, .block_x = 256, .block_y = 1, .block_z = 1,
			.number = 3 + round % 4, .correlation = 5 * round + i);
		EMIT(call, .thread = p, .api = 2, .duration_ns = 90);
	}
	EMIT(copy, .thread = p, .api = 3, .direction = round % 3, .duration_ns = 200, .bytes = 65536,
		.stream = stream, .correlation = 5 * round + 4);
	EMIT(alloc, .thread = p, .api = 4, .kind = KIND_DEVICE, .duration_ns = 180, .site = 1,
		.pointer = 0x7000000 + round % 64 * 4096, .bytes = 4096, .live_bytes = live + 4096 * (round % 64));
	EMIT(free, .thread = p, .api = 5, .kind = KIND_DEVICE, .duration_ns = 160,
		.pointer = 0x7000000 + round % 64 * 4096, .bytes = 4096, .live_bytes = live);
	EMIT(sync, .thread = p, .api = 6, .duration_ns = 100, .handle = stream);
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "big";
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000000;
	unsigned processes = argc > 3 ? (unsigned)atoi(argv[3]) : 4;
	unsigned cpus = argc > 4 ? (unsigned)atoi(argv[4]) : 2;
	char path[4096];

	mkdir(folder, 0755);
	write_metadata(folder);
	for (unsigned i = 0; i < CHANNELS; i++) {
		for (unsigned cpu = 0; cpu < cpus; cpu++) {
			snprintf(path, sizeof(path), "%s/%s_%u", folder, channel_names[i], cpu);
			streams[i][cpu].file = fopen(path, "w");
			if (!streams[i][cpu].file)
				return 1;
			streams[i][cpu].channel = i;
			streams[i][cpu].cpu = cpu;
			streams[i][cpu].used = PACKET_HEAD;
		}
	}
	for (uint32_t p = 1; p <= processes; p++)
		define(p % cpus, p);
	for (uint32_t round = 0; events_written + processes < count; round++)
		work(round / 50 % cpus, 1 + round / 50 % processes, round);
	for (uint32_t p = 1; p <= processes; p++)
		emit_process_end(p % cpus, time += 1000, (struct event_process_end){ .process = p,
			.how = END_EXIT });
	for (unsigned i = 0; i < CHANNELS; i++) {
		for (unsigned cpu = 0; cpu < cpus; cpu++) {
			if (streams[i][cpu].used > PACKET_HEAD)
				flush(&streams[i][cpu]);
			fclose(streams[i][cpu].file);
		}
	}
	return 0;
}
