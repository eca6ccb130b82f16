/*
 * view_perfetto.c - tracks and slices for Perfetto: a process has a track a thread for its calls,
 * one a stream for its work on the GPU, and a counter a device for its memory.
 *
 * Slices of a track must not overlap, so one that would goes to a sibling. Perfetto knows processes
 * and threads by their number alone: a number that means another one here is replaced, and the true
 * one stands in the name. Times are ns; what is of the same time keeps the order it is written in.
 */
#include "view_perfetto.h"

#include <inttypes.h>

#include "need.h"
#include "protobuf.h"

/* ---- numbers of Perfetto's messages ---- */

enum { TRACE_PACKET = 1 };
enum { PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_EVENT = 11, PACKET_INTERNED = 12,
	PACKET_FLAGS = 13, PACKET_TRACK = 60 };
enum { FLAG_CLEARED = 1, FLAG_NEEDED = 2 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5,
	TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum { EVENT_NOTE = 4, EVENT_TYPE = 9, EVENT_NAME_ID = 10, EVENT_TRACK = 11, EVENT_COUNT_VALUE = 30,
	EVENT_FLOW = 47 };
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { INTERNED_NAMES = 2, NAME_ID = 1, NAME_TEXT = 2 };
enum { NOTE_UINT = 3, NOTE_INT = 4, NOTE_NAME = 10 };

#define SYNTHETIC_ID 0x40000000u

/* ---- what was told already ---- */

struct track {
	uint64_t uuid;
	uint64_t end_ns; /* of the last slice */
	struct track *sibling;
};

struct perfetto {
	struct model_observer observer;
	FILE *out;
	const uint32_t *only_pid;
	struct protobuf packet, inside, deeper;
	uint64_t uuids;
	struct map track_of; /* what it is for -> index */
	struct track **tracks;
	size_t track_count, track_capacity;
	struct map id_of;    /* hash of a name -> its number */
	char **names;
	size_t name_count, name_capacity;
	struct map pids, tids; /* numbers in use -> process number */
	uint32_t synthetic;
};

static void write_packet(struct perfetto *perfetto)
{
	struct protobuf *trace = &perfetto->deeper;

	protobuf_number(&perfetto->packet, PACKET_SEQUENCE, 1);
	protobuf_message(trace, TRACE_PACKET, &perfetto->packet);
	fwrite(trace->bytes, 1, trace->used, perfetto->out);
	trace->used = 0;
}

/* ---- names ---- */

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

/* A number for a name, told at its first use. */
static uint64_t name_id(struct perfetto *perfetto, const char *name)
{
	uint64_t hash = hash_of(name);
	uint32_t at;

	while ((at = map_get(&perfetto->id_of, hash)) != MAP_NONE && strcmp(perfetto->names[at], name))
		hash++;
	if (at != MAP_NONE)
		return at + 1;
	at = (uint32_t)perfetto->name_count;
	perfetto->names = need_room(perfetto->names, perfetto->name_count, &perfetto->name_capacity,
		sizeof(*perfetto->names));
	perfetto->names[perfetto->name_count++] = need_copy(name);
	map_set(&perfetto->id_of, hash, at);
	protobuf_number(&perfetto->deeper, NAME_ID, at + 1);
	protobuf_text(&perfetto->deeper, NAME_TEXT, name);
	protobuf_message(&perfetto->inside, INTERNED_NAMES, &perfetto->deeper);
	protobuf_message(&perfetto->packet, PACKET_INTERNED, &perfetto->inside);
	protobuf_number(&perfetto->packet, PACKET_FLAGS, FLAG_NEEDED);
	write_packet(perfetto);
	return at + 1;
}

/* ---- tracks ---- */

enum track_kind { FOR_PROCESS, FOR_THREAD, FOR_DEVICE, FOR_STREAM, FOR_MEMORY, FOR_LIMIT,
	FOR_REFUSALS };

static uint64_t track_key(enum track_kind kind, const struct model_process *process, uint64_t what)
{
	return map_mix(map_mix(what + 1) + process->number) * 8 + kind;
}

static struct track *find_track(const struct perfetto *perfetto, uint64_t key)
{
	uint32_t at = map_get(&perfetto->track_of, key);

	return at == MAP_NONE ? NULL : perfetto->tracks[at];
}

static struct track *new_track(struct perfetto *perfetto)
{
	struct track *track = need_zeroed(1, sizeof(*track));

	track->uuid = ++perfetto->uuids;
	perfetto->tracks = need_room(perfetto->tracks, perfetto->track_count, &perfetto->track_capacity,
		sizeof(*perfetto->tracks));
	perfetto->tracks[perfetto->track_count++] = track;
	return track;
}

static struct track *add_track(struct perfetto *perfetto, uint64_t key)
{
	map_set(&perfetto->track_of, key, (uint32_t)perfetto->track_count);
	return new_track(perfetto);
}

static void write_track(struct perfetto *perfetto)
{
	protobuf_message(&perfetto->packet, PACKET_TRACK, &perfetto->inside);
	write_packet(perfetto);
}

/* A plain track below another. */
static void tell_track(struct perfetto *perfetto, const struct track *track, uint64_t parent,
	const char *name)
{
	protobuf_number(&perfetto->inside, TRACK_UUID, track->uuid);
	protobuf_number(&perfetto->inside, TRACK_PARENT, parent);
	protobuf_text(&perfetto->inside, TRACK_NAME, name);
	write_track(perfetto);
}

/* The number itself, unless it means somebody else already. */
static uint32_t unique(struct perfetto *perfetto, struct map *used, uint32_t number, uint32_t owner)
{
	uint32_t known = map_get(used, number);

	if (number && number < SYNTHETIC_ID && (known == MAP_NONE || known == owner)) {
		map_set(used, number, owner);
		return number;
	}
	return SYNTHETIC_ID + perfetto->synthetic++;
}

static void tell_process(struct perfetto *perfetto, const struct track *track,
	const struct model_process *process, uint32_t pid)
{
	char name[300];

	if (process->defined)
		snprintf(name, sizeof(name), "%.200s (pid %" PRIu32 " on %.60s)", process->command,
			process->pid, process->host);
	else
		snprintf(name, sizeof(name), "(not defined)");
	protobuf_number(&perfetto->deeper, PROCESS_PID, pid);
	protobuf_text(&perfetto->deeper, PROCESS_NAME, name);
	protobuf_number(&perfetto->inside, TRACK_UUID, track->uuid);
	protobuf_message(&perfetto->inside, TRACK_PROCESS, &perfetto->deeper);
	write_track(perfetto);
}

/* end_ns of a process's track, which has no slices, is the number it has here. */
static const struct track *process_track(struct perfetto *perfetto,
	const struct model_process *process)
{
	uint64_t key = track_key(FOR_PROCESS, process, 0);
	struct track *track = find_track(perfetto, key);

	if (track)
		return track;
	track = add_track(perfetto, key);
	track->end_ns = unique(perfetto, &perfetto->pids, process->pid, (uint32_t)process->number);
	tell_process(perfetto, track, process, (uint32_t)track->end_ns);
	return track;
}

static void thread_name(const struct model_slice *slice, char *name, size_t bytes)
{
	bool named = slice->thread && *slice->thread;

	snprintf(name, bytes, "%.40s%s%" PRIu32, named ? slice->thread : "thread", named ? ", " : " ",
		slice->tid);
}

static struct track *thread_track(struct perfetto *perfetto, const struct model_slice *slice)
{
	const struct model_process *process = slice->process;
	uint64_t key = track_key(FOR_THREAD, process, slice->tid);
	struct track *track = find_track(perfetto, key);
	uint32_t pid, number;
	char name[64];

	if (track)
		return track;
	pid = (uint32_t)process_track(perfetto, process)->end_ns;
	track = add_track(perfetto, key);
	number = unique(perfetto, &perfetto->tids, slice->tid, (uint32_t)process->number);
	thread_name(slice, name, sizeof(name));
	protobuf_number(&perfetto->deeper, THREAD_PID, pid);
	protobuf_number(&perfetto->deeper, THREAD_TID, number);
	protobuf_text(&perfetto->deeper, THREAD_NAME, name);
	protobuf_number(&perfetto->inside, TRACK_UUID, track->uuid);
	protobuf_message(&perfetto->inside, TRACK_THREAD, &perfetto->deeper);
	write_track(perfetto);
	return track;
}

static const struct track *device_track(struct perfetto *perfetto,
	const struct model_process *process, unsigned device)
{
	uint64_t key = track_key(FOR_DEVICE, process, device);
	struct track *track = find_track(perfetto, key);
	uint64_t parent;
	char name[32];

	if (track)
		return track;
	parent = process_track(perfetto, process)->uuid;
	track = add_track(perfetto, key);
	snprintf(name, sizeof(name), model_is_no_device(process, device) ? "no GPU" : "GPU %u", device);
	tell_track(perfetto, track, parent, name);
	return track;
}

static void stream_name(const struct model_lane *lane, char *name, size_t bytes)
{
	if (lane->stream == 0)
		snprintf(name, bytes, "no stream");
	else if (lane->stream == 1)
		snprintf(name, bytes, "legacy stream");
	else if (lane->stream == 2)
		snprintf(name, bytes, "stream of thread %" PRIu32, lane->tid);
	else
		snprintf(name, bytes, "stream 0x%" PRIx64, lane->stream);
}

static struct track *stream_track(struct perfetto *perfetto, const struct model_process *process,
	uint32_t lane)
{
	uint64_t key = track_key(FOR_STREAM, process, lane);
	struct track *track = find_track(perfetto, key);
	uint64_t parent;
	char name[64];

	if (track)
		return track;
	parent = device_track(perfetto, process, process->lanes[lane].device)->uuid;
	track = add_track(perfetto, key);
	stream_name(&process->lanes[lane], name, sizeof(name));
	tell_track(perfetto, track, parent, name);
	return track;
}

static struct track *counter_track(struct perfetto *perfetto, enum track_kind kind,
	const struct model_process *process, unsigned device, const char *what)
{
	uint64_t key = track_key(kind, process, device), parent;
	struct track *track = find_track(perfetto, key);
	char name[64];

	if (track)
		return track;
	parent = process_track(perfetto, process)->uuid;
	track = add_track(perfetto, key);
	snprintf(name, sizeof(name), "GPU %u %s", device, what);
	protobuf_number(&perfetto->inside, TRACK_UUID, track->uuid);
	protobuf_number(&perfetto->inside, TRACK_PARENT, parent);
	protobuf_text(&perfetto->inside, TRACK_NAME, name);
	protobuf_number(&perfetto->deeper, COUNTER_UNIT, UNIT_BYTES);
	protobuf_message(&perfetto->inside, TRACK_COUNTER, &perfetto->deeper);
	write_track(perfetto);
	return track;
}

/* The first of a track and its siblings that is free at begin_ns. */
static struct track *free_one(struct perfetto *perfetto, struct track *track, uint64_t parent,
	const char *name, uint64_t begin_ns)
{
	char numbered[80];
	unsigned number = 1;

	while (track->end_ns > begin_ns && track->sibling) {
		track = track->sibling;
		number++;
	}
	if (track->end_ns <= begin_ns)
		return track;
	track->sibling = new_track(perfetto);
	snprintf(numbered, sizeof(numbered), "%s (%u)", name, number + 1);
	tell_track(perfetto, track->sibling, parent, numbered);
	return track->sibling;
}

/* ---- events ---- */

static void begin_event(struct perfetto *perfetto, uint64_t time_ns, unsigned type, uint64_t track)
{
	protobuf_number(&perfetto->packet, PACKET_TIMESTAMP, time_ns);
	protobuf_number(&perfetto->inside, EVENT_TYPE, type);
	protobuf_number(&perfetto->inside, EVENT_TRACK, track);
}

static void write_event(struct perfetto *perfetto)
{
	protobuf_message(&perfetto->packet, PACKET_EVENT, &perfetto->inside);
	protobuf_number(&perfetto->packet, PACKET_FLAGS, FLAG_NEEDED);
	write_packet(perfetto);
}

static void note(struct perfetto *perfetto, const char *name, unsigned field, uint64_t value)
{
	protobuf_text(&perfetto->deeper, NOTE_NAME, name);
	protobuf_number(&perfetto->deeper, field, value);
	protobuf_message(&perfetto->inside, EVENT_NOTE, &perfetto->deeper);
}

static bool is_hidden(const struct perfetto *perfetto, const struct model_process *process)
{
	return perfetto->only_pid && (!process->defined || process->pid != *perfetto->only_pid);
}

static const char *slice_name(const struct model_slice *slice, char *text, size_t bytes)
{
	if (slice->kind == SLICE_GPU)
		return !slice->name ? "copy" : *slice->name ? slice->name : "(kernel)";
	if (slice->call)
		return slice->call;
	snprintf(text, bytes, "call %u", slice->api);
	return text;
}

static struct track *slice_track(struct perfetto *perfetto, const struct model_slice *slice)
{
	const struct model_process *process = slice->process;
	struct track *track;
	uint64_t parent;
	char name[64];

	if (slice->kind == SLICE_CALL) {
		parent = process_track(perfetto, process)->uuid;
		track = thread_track(perfetto, slice);
		thread_name(slice, name, sizeof(name));
	} else {
		parent = device_track(perfetto, process, process->lanes[slice->lane].device)->uuid;
		track = stream_track(perfetto, process, slice->lane);
		stream_name(&process->lanes[slice->lane], name, sizeof(name));
	}
	return free_one(perfetto, track, parent, name, slice->begin_ns);
}

static void on_slice(void *user, const struct model_slice *slice)
{
	struct perfetto *perfetto = user;
	struct track *track;
	char text[32];
	uint64_t name;

	if (is_hidden(perfetto, slice->process))
		return;
	track = slice_track(perfetto, slice);
	name = name_id(perfetto, slice_name(slice, text, sizeof(text)));
	track->end_ns = slice->end_ns;
	begin_event(perfetto, slice->begin_ns, TYPE_BEGIN, track->uuid);
	protobuf_number(&perfetto->inside, EVENT_NAME_ID, name);
	if (slice->has_bytes)
		note(perfetto, "bytes", NOTE_UINT, slice->bytes);
	if (slice->result)
		note(perfetto, "result", NOTE_INT, (uint64_t)(int64_t)slice->result);
	if (slice->has_correlation)
		protobuf_fixed(&perfetto->inside, EVENT_FLOW,
			((uint64_t)slice->process->number + 1) << 32 | slice->correlation);
	write_event(perfetto);
	begin_event(perfetto, slice->end_ns, TYPE_END, track->uuid);
	write_event(perfetto);
}

static void count(struct perfetto *perfetto, uint64_t track, uint64_t time_ns, uint64_t bytes)
{
	begin_event(perfetto, time_ns, TYPE_COUNTER, track);
	protobuf_number(&perfetto->inside, EVENT_COUNT_VALUE, bytes > INT64_MAX ? INT64_MAX : bytes);
	write_event(perfetto);
}

static void on_level(void *user, const struct model_process *process, unsigned device,
	uint64_t time_ns, uint64_t bytes)
{
	struct perfetto *perfetto = user;
	uint64_t limit = process->devices[device].limit_bytes;
	struct track *track;

	if (is_hidden(perfetto, process))
		return;
	if (limit && limit != UINT64_MAX) {
		track = counter_track(perfetto, FOR_LIMIT, process, device, "limit");
		if (!track->end_ns)
			count(perfetto, track->uuid, time_ns, limit);
		track->end_ns = 1;
	}
	track = counter_track(perfetto, FOR_MEMORY, process, device, "memory");
	count(perfetto, track->uuid, time_ns, bytes);
}

static void on_refusal(void *user, const struct model_process *process, unsigned device,
	uint64_t time_ns, uint64_t bytes)
{
	struct perfetto *perfetto = user;
	uint64_t key = track_key(FOR_REFUSALS, process, device), parent, name;
	struct track *track = find_track(perfetto, key);
	char text[32];

	if (is_hidden(perfetto, process))
		return;
	if (!track) {
		parent = process_track(perfetto, process)->uuid;
		track = add_track(perfetto, key);
		snprintf(text, sizeof(text), "GPU %u refused", device);
		tell_track(perfetto, track, parent, text);
	}
	name = name_id(perfetto, "refused");
	begin_event(perfetto, time_ns, TYPE_INSTANT, track->uuid);
	protobuf_number(&perfetto->inside, EVENT_NAME_ID, name);
	note(perfetto, "bytes", NOTE_UINT, bytes);
	write_event(perfetto);
}

/* ---- the file ---- */

struct perfetto *perfetto_open(FILE *out, const uint32_t *only_pid)
{
	struct perfetto *perfetto = need_zeroed(1, sizeof(*perfetto));

	perfetto->out = out;
	perfetto->only_pid = only_pid;
	perfetto->observer = (struct model_observer){ perfetto, on_slice, on_level, on_refusal };
	protobuf_number(&perfetto->packet, PACKET_FLAGS, FLAG_CLEARED);
	write_packet(perfetto);
	return perfetto;
}

const struct model_observer *perfetto_observer(struct perfetto *perfetto)
{
	return &perfetto->observer;
}

void perfetto_finish(struct perfetto *perfetto, const struct model *model)
{
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];
		const struct track *track = find_track(perfetto, track_key(FOR_PROCESS, process, 0));

		if (track)
			tell_process(perfetto, track, process, (uint32_t)track->end_ns);
	}
}

void perfetto_close(struct perfetto *perfetto)
{
	for (size_t i = 0; i < perfetto->track_count; i++)
		free(perfetto->tracks[i]);
	for (size_t i = 0; i < perfetto->name_count; i++)
		free(perfetto->names[i]);
	free(perfetto->tracks);
	free(perfetto->names);
	map_free(&perfetto->track_of);
	map_free(&perfetto->id_of);
	map_free(&perfetto->pids);
	map_free(&perfetto->tids);
	protobuf_free(&perfetto->packet);
	protobuf_free(&perfetto->inside);
	protobuf_free(&perfetto->deeper);
	free(perfetto);
}
