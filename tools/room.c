/*
 * room.c - sums over processes, promises and reserves; nothing wraps, and the unknown counts as much.
 */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin_name.h"
#include "limit.h"

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void bind_to(struct room *room, uint64_t bytes, const char *bound)
{
	if (bytes >= room->room_bytes)
		return;
	room->room_bytes = bytes;
	room->bound = bound;
}

static void never_more(struct room *room, uint64_t bytes)
{
	if (bytes < room->ever_bytes)
		room->ever_bytes = bytes;
}

/* ---- what processes hold ---- */

/* Which of them? What is NULL or 0 asks nothing. */
struct who {
	const uint32_t *uid;
	const uint32_t *gid;
	const struct reserve *of; /* those it is for */
	const char *job;
};

static bool is_meant(const struct who *who, const struct box_process *process)
{
	return (!who->uid || process->uid == *who->uid) &&
		(!who->gid || admin_is_member(process->uid, *who->gid)) &&
		(!who->of || !reserve_holds_back(who->of, process->uid)) &&
		(!who->job || box_in_job(process, who->job));
}

static uint64_t held_by(const struct box *box, const uint8_t uuid[16], const struct who *who)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];

		if (process->owner == OWNER_DEAD || !is_meant(who, process))
			continue;
		for (size_t j = 0; j < process->hold_count; j++)
			if (memcmp(box->gpus[process->holds[j].gpu].uuid, uuid, 16) == 0 &&
				process->holds[j].used_bytes != BYTES_UNKNOWN)
				sum = slots_add(sum, process->holds[j].used_bytes);
	}
	return sum;
}

/* ---- promises ---- */

/* Is a job this one, or within it? */
static bool is_within(const char *job, const char *around)
{
	size_t length = strlen(around);

	return strncmp(job, around, length) == 0 && (job[length] == '\0' || job[length] == '/');
}

bool room_is_ours(const struct room_view *view, const struct queue_place *place)
{
	if (view->mine && strcmp(place->name, view->mine) == 0)
		return true;
	return !place->problem[0] && place->uid == view->uid && is_within(view->job, place->job);
}

/* To others, or with a uid, gid or job to those alone; what they took of it is not promised any more. */
static uint64_t promised(const struct room_view *view, const struct room *room, const struct who *who)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < view->queue.count; i++) {
		const struct queue_place *place = &view->queue.places[i];
		const struct who run = { .uid = &place->uid, .job = place->job };
		const struct queue_ask *ask = queue_asks_for(place, room->uuid);

		if (!place->admitted || room_is_ours(view, place) || (who->uid && place->uid != *who->uid) ||
			(who->gid && !admin_is_member(place->uid, *who->gid)) ||
			(who->job && !is_within(place->job, who->job)))
			continue;
		if (place->problem[0])
			sum = slots_add(sum, room->total_bytes);
		else if (ask)
			sum = slots_add(sum, less(ask->bytes, held_by(&view->box, room->uuid, &run)));
	}
	return sum;
}

/* ---- reserves ---- */

static uint64_t kept_from_us(const struct room_view *view, struct room *room)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < view->reserves.count; i++) {
		const struct reserve *reserve = &view->reserves.all[i];
		const struct who they = { .of = reserve };
		uint64_t keeps = reserve_on(reserve, room->uuid);

		if (!keeps || !reserve_holds_back(reserve, view->uid))
			continue;
		sum = slots_add(sum, reserve->whose == FOR_NOBODY ? keeps :
			less(keeps, held_by(&view->box, room->uuid, &they)));
		if (reserve->policy)
			room->for_good_bytes = slots_add(room->for_good_bytes, keeps);
	}
	return sum;
}

/* ---- one GPU ---- */

static void find_use(struct room *room, const struct room_view *view, const struct gpu_fact *fact)
{
	const struct box *box = &view->box;
	uint64_t tracked = 0;

	for (size_t i = 0; i < box->gpu_count; i++)
		if (memcmp(box->gpus[i].uuid, fact->uuid, sizeof(fact->uuid)) == 0)
			tracked = slots_add(box->gpus[i].used_bytes, box->gpus[i].overhead_bytes);
	/* The driver knows of everybody; what is asked for and not given out yet, only we do. */
	room->used_bytes = fact->used_bytes > 0 && (uint64_t)fact->used_bytes > tracked ?
		(uint64_t)fact->used_bytes : tracked;
	room->room_bytes = less(room->total_bytes, room->used_bytes);
	room->bound = "memory";
	room->promised_bytes = promised(view, room, &(struct who){ 0 });
	bind_to(room, less(room->room_bytes, room->promised_bytes), "promised");
	room->reserved_bytes = kept_from_us(view, room);
	bind_to(room, less(room->room_bytes, room->reserved_bytes), "reserve");
}

/* A limit that is a sum over some: what they hold or were promised counts. */
static void apply_sum(struct room *room, const struct room_view *view, uint64_t limit,
	const struct who *who, const char *bound)
{
	if (limit == BYTES_NONE)
		return;
	bind_to(room, less(limit, slots_add(held_by(&view->box, room->uuid, who),
		promised(view, room, who))), bound);
	never_more(room, limit);
}

/* What nobody may have, and what is kept for others: both are left free. */
static void apply_reserve(struct room *room, const struct room_view *view, uint64_t limit)
{
	const struct who all = { 0 };

	if (limit != BYTES_NONE)
		bind_to(room, less(limit, slots_add(slots_add(held_by(&view->box, room->uuid, &all),
			room->promised_bytes), room->reserved_bytes)), "reserve");
	never_more(room, less(limit < room->total_bytes ? limit : room->total_bytes,
		room->for_good_bytes));
}

/* What `cuward limit` made of it: those of the job tell, and who starts in it follows. */
static uint64_t job_limit_now(const struct box *box, const struct room *room, const struct room_job *job,
	uint64_t limit)
{
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];
		const struct slot *slot = &process->entry->slot;

		if (process->owner == OWNER_DEAD || slot->group_length != strlen(job->of) ||
			!box_in_job(process, job->of))
			continue;
		for (size_t j = 0; j < process->hold_count; j++) {
			uint64_t live = slot->job_limit_override[process->holds[j].word];

			if (live && memcmp(box->gpus[process->holds[j].gpu].uuid, room->uuid, 16) == 0)
				return live;
		}
	}
	return limit;
}

static void apply_job(struct room *room, const struct room_view *view, const struct room_job *job,
	unsigned i)
{
	const struct who they = { .job = job->of };
	uint64_t limit = job->bytes[i];

	if (!job->of[0]) {
		bind_to(room, limit, job->variable);
		never_more(room, limit);
		return;
	}
	/* Nobody can change that of a run within a run. */
	if (job == view->jobs)
		limit = job_limit_now(&view->box, room, job, limit);
	apply_sum(room, view, limit, &they, job->variable);
}

static void apply_limits(struct room *room, const struct room_view *view, unsigned i)
{
	const struct admin *admin = &view->admin;
	const struct who us = { .uid = &view->uid };

	bind_to(room, view->asked[i], "CUWARD_MEMORY");
	for (unsigned j = 0; j < sizeof(view->jobs) / sizeof(view->jobs[0]); j++)
		apply_job(room, view, &view->jobs[j], i);
	bind_to(room, admin->max[ADMIN_PROCESS][i].bytes, "process_max");
	bind_to(room, admin->max[ADMIN_JOB][i].bytes, "job_max");
	never_more(room, admin->max[ADMIN_PROCESS][i].bytes);
	never_more(room, admin->max[ADMIN_JOB][i].bytes);
	apply_sum(room, view, admin->max[ADMIN_USER][i].bytes, &us, "user_max");
	apply_reserve(room, view, admin->max[ADMIN_GPU][i].bytes);
	for (unsigned g = 0; g < admin->group_count; g++)
		apply_sum(room, view, admin->groups[g].max[i].bytes,
			&(struct who){ .gid = &admin->groups[g].gid }, "group_max");
}

void room_find(const struct room_view *view, struct room rooms[SLOT_DEVICES])
{
	for (unsigned i = 0; i < view->count; i++) {
		struct room *room = &rooms[i];

		*room = (struct room){ .index = i, .total_bytes = view->facts[i].total_bytes,
			.ever_bytes = view->facts[i].total_bytes };
		memcpy(room->uuid, view->facts[i].uuid, 16);
		queue_uuid_text(room->name, room->uuid);
		find_use(room, view, &view->facts[i]);
		apply_limits(room, view, i);
	}
}

/* ---- looking ---- */

static bool read_job(struct room_view *view, struct room_job *job, const char *variable, const char *of,
	const struct limit_device *devices, char *why, size_t why_bytes)
{
	const char *text = getenv(variable), *whose = getenv(of);
	struct limit limit;

	*job = (struct room_job){ .variable = variable,
		.of = whose && *whose && is_within(view->job, whose) ? whose : "" };
	return limit_parse(&limit, text ? text : "none", why, why_bytes) &&
		limit_resolve(&limit, devices, view->count, job->bytes, why, why_bytes);
}

bool room_view_open(struct room_view *view, char *why, size_t why_bytes)
{
	struct limit_device devices[SLOT_DEVICES];

	view->box = (struct box){ 0 };
	view->queue = (struct queue){ 0 };
	view->reserves = (struct reserve_list){ 0 };
	for (unsigned i = 0; i < view->count; i++) {
		memcpy(devices[i].uuid, view->facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = view->facts[i].total_bytes;
	}
	box_open(&view->box, false);
	return read_job(view, &view->jobs[0], "CUWARD_JOB_MEMORY", "CUWARD_JOB_OF", devices, why,
			why_bytes) &&
		read_job(view, &view->jobs[1], "CUWARD_INNER_MEMORY", "CUWARD_INNER_OF", devices, why,
			why_bytes) &&
		admin_read(&view->admin, devices, view->count, view->uid, why, why_bytes) &&
		queue_folder(&view->queue, why, why_bytes) && queue_look(&view->queue, why, why_bytes) &&
		reserve_list_open(&view->reserves, &view->admin, why, why_bytes);
}

void room_view_close(struct room_view *view)
{
	box_close(&view->box);
	queue_forget(&view->queue);
	reserve_list_close(&view->reserves);
}
