/*
 * replay.c - tells a trace that begins late what it missed: who we are, and all that is live.
 *
 * Names of calls, threads and call sites need no replay: each is told before the first event that
 * uses it, and a new trace begins with all of them untold. Kernels have names_replay().
 */
#include "attend.h"

#include <string.h>

#include "grant.h"
#include "quota.h"
#include "traced.h"

/* Live allocations that are told one by one; the rest are sums. */
#define HELD_MAX 16384u

/* ---- who ---- */

static void uuid_text(char text[48], const uint8_t uuid[16])
{
	static const char digits[] = "0123456789abcdef";
	char *at = stpcpy(text, "GPU-");

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[uuid[i] >> 4];
		*at++ = digits[uuid[i] & 15];
	}
	*at = '\0';
}

void replay_who(void)
{
	const struct process_identity *who = &guest.header->who;
	struct event_process event = {
		.process = guest.key, .pid = who->pid, .ppid = who->ppid, .uid = who->uid,
		.pid_ns = who->pid_ns, .image = who->image, .start_ticks = who->start_ticks,
		.start_realtime_ns = who->start_realtime_ns, .command = who->command, .job = who->job,
		.labels = who->labels, .version = CUWARD_VERSION,
	};

	trace_process(&event);
	for (uint32_t i = 0; i < guest.device_count; i++) {
		const struct ledger_device *device = guest.devices[i].ledger;
		char uuid[48];
		struct event_device seen = {
			.process = guest.key, .device = i, .uuid = uuid, .name = device->name,
			.total_bytes = device->total_bytes, .limit_bytes = device->limit_bytes,
		};

		uuid_text(uuid, device->uuid);
		trace_device(&seen);
	}
}

/* ---- what is live ---- */

struct sum {
	uint64_t bytes;
	uint64_t count;
};

struct replay {
	uint32_t told;
	struct sum rest[SLOT_DEVICES + 1][KIND_COUNT]; /* the last: of no device */
};

static uint64_t level_of(uint8_t device)
{
	return device < guest.device_count ? quota_used(guest.devices[device].word) : 0;
}

static void tell_object(const struct ledger_record *record)
{
	uint64_t handle = grant_object_key(record->kind, record->handle); /* and back */
	uint32_t thread = guest_trace_key(guest_thread());

	if (record->kind == OBJECT_CONTEXT)
		trace_context(&(struct event_context){ .thread = thread, .what = OBJECT_PRESENT,
			.device = record->device, .context = handle });
	else if (record->kind == OBJECT_STREAM)
		trace_stream(&(struct event_stream){ .thread = thread, .what = OBJECT_PRESENT,
			.device = record->device, .stream = handle, .context = record->context });
}

static void tell_memory(struct replay *replay, const struct ledger_record *record)
{
	struct event_held event = {
		.process = guest.key, .api = record->api, .kind = record->kind, .device = record->device,
		.site = record->site, .pointer = record->handle, .bytes = record->bytes, .count = 1,
		.live_bytes = level_of(record->device),
	};

	replay->told++;
	trace_held(&event);
}

/* One of too many: a moment's sum, taken without a lock, for the call that we are in waits for us. */
static void add_up(struct replay *replay, const struct ledger_record *record)
{
	uint8_t device = record->device < SLOT_DEVICES ? record->device : SLOT_DEVICES;
	uint8_t kind = record->kind;

	if (kind >= KIND_COUNT)
		return;
	replay->rest[device][kind].bytes += __atomic_load_n(&record->bytes, __ATOMIC_RELAXED);
	replay->rest[device][kind].count++;
}

static bool is_live(const struct ledger_record *record)
{
	return __atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == RECORD_LIVE;
}

/*
 * Under the lock of its place in the index: whoever frees it takes it out there first, so that its
 * `free` comes after this. Whoever just made it may tell it a second time.
 */
static void tell_record(struct replay *replay, uint32_t number)
{
	struct ledger_record *record = ledger_record(number);
	struct index_shard *shard;
	uint64_t key;
	uint32_t tag;

	if (!is_live(record))
		return;
	if (record->class != CLASS_OBJECT && replay->told >= HELD_MAX) {
		add_up(replay, record);
		return;
	}
	if (record->class != CLASS_OBJECT) {
		trace_define_api(guest.key, record->api);
		traced_define_site(record->site);
	}
	key = index_key_of(record);
	tag = index_tag(key);
	shard = index_shard(tag);
	lock_take(&shard->lock);
	if (shard->table[index_probe(shard, tag, key)].record == number + 1 && is_live(record)) {
		if (record->class == CLASS_OBJECT)
			tell_object(record);
		else
			tell_memory(replay, record);
	}
	lock_give_back(&shard->lock);
}

/* At least one a device: what is held there beyond all allocations is part of the level. */
static void tell_sums(const struct replay *replay, uint8_t device)
{
	uint8_t index = device < SLOT_DEVICES ? device : SLOT_DEVICES;
	struct event_held event = { .process = guest.key, .device = device };

	for (uint8_t kind = 0; kind < KIND_COUNT; kind++) {
		const struct sum *sum = &replay->rest[index][kind];

		if (!sum->count && (kind != KIND_DEVICE || index == SLOT_DEVICES))
			continue;
		event.kind = kind;
		event.bytes = sum->bytes;
		event.count = sum->count;
		event.live_bytes = level_of(device);
		trace_held(&event);
	}
}

void replay_live(void)
{
	struct replay replay = { .told = 0 };
	uint32_t count = __atomic_load_n(&guest.header->record_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		tell_record(&replay, i);
	for (uint32_t i = 0; i < __atomic_load_n(&ledger.private_count, __ATOMIC_ACQUIRE); i++)
		tell_record(&replay, LEDGER_PRIVATE_FIRST + i);
	for (uint32_t i = 0; i < guest.device_count; i++)
		tell_sums(&replay, i);
	tell_sums(&replay, UINT8_MAX);
}
