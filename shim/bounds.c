/*
 * bounds.c - limits from the environment, from the administrator, and live from `cuward limit`.
 */
#include "bounds.h"

#include <stdio.h>
#include <string.h>

#include "admin.h"
#include "admin_dir.h"
#include "lease.h"
#include "limit.h"
#include "log.h"
#include "neighbours.h"
#include "settings.h"
#include "share.h"
#include "turns.h"

/* What was asked for and allowed at the start; later changes are laid over it. */
static struct {
	uint32_t lock;
	uint64_t process[SLOT_DEVICES];
	uint64_t job[SLOT_DEVICES];
	uint64_t inner[SLOT_DEVICES]; /* of a run within the job */
	struct admin admin;
} WHOLE_PAGES bounds;

static void visible_devices(struct limit_device devices[SLOT_DEVICES])
{
	for (uint32_t i = 0; i < guest.device_count; i++) {
		memcpy(devices[i].uuid, guest.devices[i].ledger->uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = guest.devices[i].ledger->total_bytes;
	}
}

/* What is said of all of them would not bind the last ones. */
static bool too_many(const char *source)
{
	snprintf(guest.header->refusal, sizeof(guest.header->refusal),
		"%s: more than %d GPUs are visible, and a limit cannot be kept on all of them", source,
		SLOT_DEVICES);
	return false;
}

/* What one setting says of each device. False: `refusal` says what is wrong with it. */
static bool resolve(enum setting setting, uint64_t bytes[SLOT_DEVICES])
{
	static struct limit limit; /* not every stack has room, and one thread attaches */
	struct limit_device devices[SLOT_DEVICES];
	char why[200] = "";
	char unused[200];

	visible_devices(devices);
	if (!limit_parse(&limit, settings_get(setting), why, sizeof(why)) ||
	    !limit_resolve(&limit, devices, guest.device_count, bytes, why, sizeof(why))) {
		snprintf(guest.header->refusal, sizeof(guest.header->refusal), "%s: %s",
			settings_variable(setting), why);
		return false;
	}
	if (limit_unused(&limit, devices, guest.device_count, unused, sizeof(unused))) {
		if (guest.more_devices)
			return too_many(settings_variable(setting));
		guest_find(FINDING_LIMIT_UNUSED);
		log_line(LOG_WARN, "%s names a GPU that is not visible: %s", settings_variable(setting),
			unused);
	}
	return true;
}

static bool ask_administrator(void)
{
	struct limit_device devices[SLOT_DEVICES];
	bool understood;

	visible_devices(devices);
	understood = admin_read(&bounds.admin, devices, guest.device_count, guest.header->who.uid,
		guest.header->refusal, sizeof(guest.header->refusal));
	if (understood && bounds.admin.warning[0])
		log_line(LOG_WARN, "%s", bounds.admin.warning);
	return understood;
}

/* ---- which one wins ---- */

/* `live` says nothing when 0. The text of the winner goes to source, 48 bytes. */
static uint64_t win(uint64_t asked, const char *variable, uint64_t live, const struct admin_limit *max,
	char *source)
{
	uint64_t bytes = live ? live : asked;
	const char *from = bytes == BYTES_NONE ? "" : live ? "cuward limit" : variable;

	if (max->bytes < bytes) {
		bytes = max->bytes;
		from = max->source;
	}
	strncpy(source, from, 47);
	return bytes;
}

static uint64_t live_limit(const uint64_t *overrides, uint32_t slot_device)
{
	return overrides ? __atomic_load_n(&overrides[slot_device], __ATOMIC_RELAXED) : 0;
}

/* The text of a source where there is a limit; none where there is not. */
static void tell_limit(uint64_t *bytes, char *source, const struct admin_limit *limit)
{
	*bytes = limit->bytes;
	memcpy(source, limit->source, sizeof(limit->source));
}

/* Limits that no variable sets. */
static void settle_common(struct guest_device *device, uint32_t index)
{
	const struct slot *slot = guest.slot;
	struct ledger_device *told = device->ledger;
	const struct admin *admin = &bounds.admin;
	struct admin_limit lowest = { .bytes = BYTES_NONE };

	for (unsigned i = 0; i < SLOT_GROUPS; i++) {
		uint64_t bytes = i < admin->group_count ? admin->groups[i].max[index].bytes : BYTES_NONE;

		__atomic_store_n(&device->group.group[i], bytes, __ATOMIC_RELAXED);
		if (bytes < lowest.bytes)
			lowest = admin->groups[i].max[index];
	}
	memset(told->user_limit_source, 0, sizeof(told->user_limit_source));
	told->user_limit_bytes = win(BYTES_NONE, "",
		live_limit(slot ? slot->user_limit_override : NULL, told->slot_device),
		&admin->max[ADMIN_USER][index], told->user_limit_source);
	__atomic_store_n(&device->group.user, told->user_limit_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&device->group.gpu, admin->max[ADMIN_GPU][index].bytes, __ATOMIC_RELAXED);
	tell_limit(&told->gpu_limit_bytes, told->gpu_limit_source, &admin->max[ADMIN_GPU][index]);
	tell_limit(&told->group_limit_bytes, told->group_limit_source, &lowest);
}

static void settle_grouped(uint32_t index)
{
	struct guest_device *device = &guest.devices[index];

	__atomic_store_n(&device->grouped, group_least(&device->group) != BYTES_NONE || turns_wait_on(index),
		__ATOMIC_RELAXED);
}

void bounds_note_waiting(int device)
{
	lock_take(&bounds.lock);
	settle_grouped(device);
	lock_give_back(&bounds.lock);
}

static void settle_device(uint32_t index)
{
	struct guest_device *device = &guest.devices[index];
	struct ledger_device *told = device->ledger;
	struct slot *slot = guest.slot;
	uint64_t process = win(bounds.process[index], "CUWARD_MEMORY",
		live_limit(slot ? slot->limit_override : NULL, told->slot_device),
		&bounds.admin.max[ADMIN_PROCESS][index], told->limit_source);
	uint64_t job = win(bounds.job[index], "CUWARD_JOB_MEMORY",
		live_limit(slot ? slot->job_limit_override : NULL, told->slot_device),
		&bounds.admin.max[ADMIN_JOB][index], told->job_limit_source);

	settle_common(device, index);
	__atomic_store_n(&device->limit, process, __ATOMIC_RELAXED);
	__atomic_store_n(&device->group.job, job, __ATOMIC_RELAXED);
	__atomic_store_n(&device->group.inner, bounds.inner[index], __ATOMIC_RELAXED);
	settle_grouped(index);
	told->limit_bytes = process;
	told->job_limit_bytes = job;
	told->inner_limit_bytes = bounds.inner[index];
	if (slot) {
		slot->process_limit[told->slot_device] = process;
		slot->job_limit[told->slot_device] = job;
		slot->inner_limit[told->slot_device] = bounds.inner[index];
	}
}

/* Who lost the variable on the way is bound as the others are, from when they are there on. */
static void inherit_job_limit(void)
{
	for (uint32_t i = 0; guest.slot && i < guest.device_count; i++)
		if (bounds.job[i] == BYTES_NONE)
			bounds.job[i] = members_job_limit(guest.devices[i].ledger->slot_device);
	for (uint32_t i = 0; guest.slot && i < guest.device_count; i++)
		guest.slot->job_asked[guest.devices[i].ledger->slot_device] = bounds.job[i];
}

/* The changes first: one that comes in between is seen next time. */
void bounds_reload(void)
{
	uint32_t changed;

	lock_take(&bounds.lock);
	changed = __atomic_load_n(guest.limits_changed, __ATOMIC_ACQUIRE);
	inherit_job_limit();
	for (uint32_t i = 0; i < guest.device_count; i++)
		settle_device(i);
	__atomic_store_n(&guest.limits_seen, changed, __ATOMIC_RELAXED);
	lock_give_back(&bounds.lock);
}

/* ---- the start ---- */

/*
 * The job that the job's limit is of: told by `cuward run`, else the outermost. One that we are no part
 * of would not count what we hold.
 */
static void find_group(void)
{
	char job[sizeof(guest.slot->who.job)];

	if (!guest.slot)
		return;
	snprintf(job, sizeof(job), "%s", settings_get(SETTING_job_of));
	if (!job[0] || !members_is_part(guest.slot->who.job, job)) {
		snprintf(job, sizeof(job), "%s", guest.slot->who.job);
		job[strcspn(job, "/")] = '\0';
	}
	members_open(job, guest.header->slot);
	guest.slot->group_length = strlen(job);
	snprintf(job, sizeof(job), "%s", settings_get(SETTING_inner_of));
	if (!job[0] || !members_is_part(guest.slot->who.job, job))
		snprintf(job, sizeof(job), "%s", guest.slot->who.job);
	members_open_inner(job);
	guest.slot->inner_length = strlen(job);
	members_inherit(guest.slot);
}

/* Those of our job that came before us may have lost the variable: they look again. */
static void tell_job(void)
{
	const struct slots_header *header = share_slots();
	struct slot *slots = (struct slot *)(header + 1);
	uint64_t limited = BYTES_NONE;

	for (uint32_t i = 0; i < guest.device_count; i++)
		limited &= guest.devices[i].group.job;
	if (!guest.slot || !guest.slot->who.job[0] || limited == BYTES_NONE)
		return;
	/* So many at once that what `cuward limit` writes meanwhile, one more, is another number. */
	for (uint32_t i = 0; i < header->slots_used && i < SLOT_COUNT; i++)
		if (slots[i].state == SLOT_TAKEN && &slots[i] != guest.slot && slots[i].who.job[0])
			__atomic_add_fetch(&slots[i].limits_changed, 1u << 16, __ATOMIC_RELEASE);
}

/* What is kept for others leaves us the rest of the GPU. */
static void count_reserves(void)
{
	struct admin *admin = &bounds.admin;

	for (unsigned r = 0; r < admin->reserve_count; r++) {
		for (uint32_t i = 0; i < guest.device_count; i++) {
			struct admin_limit *gpu = &admin->max[ADMIN_GPU][i];

			if (!admin->reserves[r].bytes[i] || gpu->bytes != BYTES_NONE)
				continue;
			gpu->bytes = guest.devices[i].ledger->total_bytes;
			memcpy(gpu->source, admin->reserves[r].source, sizeof(gpu->source));
		}
	}
}

static void find_user_groups(void)
{
	uint32_t gids[SLOT_GROUPS];

	for (unsigned i = 0; i < bounds.admin.group_count; i++)
		gids[i] = bounds.admin.groups[i].gid;
	if (guest.slot)
		members_join(gids, bounds.admin.group_count);
}

/* Limits of all users together need the slots of all of them. */
static bool others_can_be_seen(void)
{
	char why[200] = "the folder " CUWARD_RUNDIR "/slots of all users is not there or not root's; "
		"`cuward doctor` says how it is made";

	for (uint32_t i = 0; i < guest.device_count; i++) {
		const struct ledger_device *device = guest.devices[i].ledger;
		bool gpu = device->gpu_limit_bytes != BYTES_NONE;

		if (!gpu && device->group_limit_bytes == BYTES_NONE)
			continue;
		if (guest.slot && share_is_common() && lease_open(guest.slot, why, sizeof(why)) &&
			neighbours_open(&bounds.admin, why, sizeof(why)))
			return true;
		snprintf(guest.header->refusal, sizeof(guest.header->refusal), "%s: %s: %s",
			gpu ? device->gpu_limit_source : device->group_limit_source,
			"other users' processes cannot be seen", why);
		return false;
	}
	return true;
}

/* Without a slot nobody sees the others: then such a limit cannot be kept, and nothing may start. */
static bool can_be_kept(void)
{
	const struct guest_device *last = &guest.devices[guest.device_count ? guest.device_count - 1 : 0];

	if (guest.more_devices && (last->limit != BYTES_NONE || last->grouped))
		return too_many(last->ledger->limit_source[0] ? last->ledger->limit_source : "a limit");
	for (uint32_t i = 0; i < guest.device_count && !guest.slot; i++) {
		const struct ledger_device *device = guest.devices[i].ledger;
		bool of_job = (device->job_limit_bytes & device->inner_limit_bytes) != BYTES_NONE;

		if (!of_job && device->user_limit_bytes == BYTES_NONE)
			continue;
		snprintf(guest.header->refusal, sizeof(guest.header->refusal),
			"%s: the shared state cannot be used, so the %s's other processes cannot be "
			"seen; `cuward doctor` says why",
			of_job ? device->job_limit_source : device->user_limit_source,
			of_job ? "job" : "user");
		return false;
	}
	return true;
}

bool bounds_open(void)
{
	share_wipe_on_fork(&bounds, sizeof(bounds));
	guest.limits_changed = &guest.limits_seen; /* nobody can */
	turns_open(guest.slot);
	find_group();
	if (!resolve(SETTING_memory, bounds.process) || !resolve(SETTING_job_memory, bounds.job) ||
		!resolve(SETTING_inner_memory, bounds.inner) ||
	    !ask_administrator())
		return false;
	if (guest.slot)
		guest.limits_changed = &guest.slot->limits_changed;
	count_reserves();
	find_user_groups();
	if (guest.slot)
		guest.slot->priority = guest.policy.priority < bounds.admin.priority_max ?
			guest.policy.priority : bounds.admin.priority_max;
	bounds_reload();
	tell_job();
	return can_be_kept() && others_can_be_seen();
}

void bounds_forget(void)
{
	memset(&bounds, 0, sizeof(bounds));
}
