/*
 * why_limits.c - each limit that binds a process on a GPU: what is used of it, by whom, and where it is
 * set. Summed as the processes do it that keep to it (shim/group.c): over those it counts.
 */
#include "why.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "admin_name.h"
#include "format.h"
#include "proc_state.h"

#define PROCESS_GROUPS 256

/* A process on a GPU that is being looked at. */
struct looking {
	const struct why_watch *watch;
	const struct box_process *process;
	const struct slot *now;
	const struct box_hold *hold;
	const struct ledger_device *ledger; /* NULL: it cannot be read */
	struct admin admin;
	uint32_t gids[PROCESS_GROUPS]; /* that it is in ... */
	unsigned gid_count; /* ... if they are known */
	struct why_limit *limits;
	unsigned count;
};

typedef bool counts(const struct box_process *of, const struct box_process *other, uint32_t gid);

/* ---- whom a limit counts ---- */

static bool is_itself(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	(void)gid;
	return of == other;
}

static bool is_of_job(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	uint32_t length = of->entry->slot.group_length;

	(void)gid;
	return of->file == other->file && length == other->entry->slot.group_length &&
		length < sizeof(of->who->job) && strncmp(of->who->job, other->who->job, length) == 0;
}

/* A run within a job that has a limit of its own. */
static bool is_of_inner(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	uint32_t length = of->entry->slot.inner_length;

	(void)gid;
	return of->file == other->file && length == other->entry->slot.inner_length &&
		length < sizeof(of->who->job) && strncmp(of->who->job, other->who->job, length) == 0;
}

static bool is_of_user(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	(void)gid;
	return of->file == other->file;
}

/* Where all users meet they see each other; a folder of one user's own is another world. */
static bool is_beside(const struct slots_file *file, const struct slots_file *other)
{
	size_t length = (size_t)(strrchr(file->path, '/') - file->path);

	return strncmp(file->path, other->path, length + 1) == 0 && !strchr(other->path + length + 1, '/');
}

static bool is_anybody(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	(void)gid;
	return is_beside(of->file, other->file);
}

static bool is_of_group(const struct box_process *of, const struct box_process *other, uint32_t gid)
{
	const struct slot *slot = &other->entry->slot;

	for (unsigned i = 0; i < SLOT_GROUPS; i++)
		if (slot->group_gids[i] == gid + 1)
			return is_beside(of->file, other->file);
	return false;
}

/* ---- sums ---- */

static uint64_t held(const struct why_watch *watch, const struct box_process *process, size_t gpu)
{
	const struct why_watched *of = &watch->of[process - watch->box->processes];
	uint64_t sum = 0;

	for (size_t i = 0; i < process->hold_count && !of->gone; i++)
		if (process->holds[i].gpu == gpu)
			sum = slots_add(sum, of->now.words[process->holds[i].word] & WORD_BYTES_MASK);
	return sum;
}

/* In his own file anybody may claim any number: it counts up to the whole GPU. */
static uint64_t believed(const struct looking *l, const struct slots_file *file, uint64_t bytes)
{
	uint64_t total = l->watch->box->gpus[l->hold->gpu].total_bytes;

	return file->own || bytes < total ? bytes : total;
}

static uint64_t held_by_file(const struct looking *l, const struct slots_file *file, counts *counted,
	uint32_t gid, unsigned *others)
{
	const struct box *box = l->watch->box;
	uint64_t sum = 0;

	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];
		uint64_t bytes;

		if (process->file != file || process->owner == OWNER_DEAD || !counted(l->process, process, gid))
			continue;
		bytes = held(l->watch, process, l->hold->gpu);
		*others += bytes && process != l->process;
		sum = slots_add(sum, bytes);
	}
	return believed(l, file, sum);
}

static uint64_t held_by_all(const struct looking *l, counts *counted, uint32_t gid, unsigned *others)
{
	const struct slots_list *slots = &l->watch->box->slots;
	uint64_t sum = 0;

	for (size_t i = 0; i < slots->count; i++)
		sum = slots_add(sum, held_by_file(l, &slots->files[i], counted, gid, others));
	return sum;
}

static bool has_reserve(const struct admin_reserve *reserve, uint32_t uid)
{
	return reserve->of_group ? admin_is_member(uid, reserve->id) : reserve->id == uid;
}

/* Of its own groups a process knows better than the files. */
static bool is_for_it(const struct looking *l, unsigned reserve)
{
	const struct admin_reserve *of = &l->admin.reserves[reserve];

	for (unsigned i = 0; of->of_group && i < l->gid_count; i++)
		if (l->gids[i] == of->id)
			return true;
	return (!of->of_group || !l->gid_count) && has_reserve(of, l->process->uid);
}

/* What somebody holds counts for the first of the reserves that is his and not ours. */
static bool takes_of(const struct looking *l, const struct slots_file *file, unsigned reserve)
{
	unsigned i = 0;

	if (file->uid == l->process->uid || !is_beside(l->process->file, file))
		return false;
	while (i < l->admin.reserve_count && (is_for_it(l, i) ||
		!has_reserve(&l->admin.reserves[i], file->uid)))
		i++;
	return i == reserve;
}

/* By policy, for others, who do not hold it yet. */
static uint64_t kept_for_others(const struct looking *l)
{
	const struct slots_list *slots = &l->watch->box->slots;
	uint64_t sum = 0;
	unsigned unused = 0;

	for (unsigned r = 0; r < l->admin.reserve_count; r++) {
		uint64_t bytes = l->admin.reserves[r].bytes[0], taken = 0;

		if (is_for_it(l, r))
			continue;
		for (size_t i = 0; i < slots->count; i++)
			if (takes_of(l, &slots->files[i], r))
				taken = slots_add(taken,
					held_by_file(l, &slots->files[i], is_anybody, 0, &unused));
		sum = slots_add(sum, bytes > taken ? bytes - taken : 0);
	}
	return sum;
}

/* ---- one limit ---- */

/* Where it is set its ledger says (told); else what gives the same: a live change, the administrator. */
struct limit_of {
	const char *scope, *whose;
	uint64_t bytes;
	counts *counted;
	uint32_t gid;
	const char *told; /* 48 bytes; NULL: its ledger does not say */
	uint64_t live;    /* 0: none */
	const struct admin_limit *admin;
};

static void copy_safe(char *to, size_t bytes, const char *text)
{
	char *safe = safe_text(text, (unsigned)bytes - 1);

	snprintf(to, bytes, "%s", safe);
	free(safe);
}

static const char *source(const struct limit_of *of)
{
	static char told[48];

	if (of->told) {
		snprintf(told, sizeof(told), "%.47s", of->told);
		return told;
	}
	return of->live && of->live == of->bytes ? "cuward limit" :
		of->admin->bytes == of->bytes ? of->admin->source : "";
}

static struct why_limit *add(struct looking *l, const struct limit_of *of)
{
	struct why_limit *limit = &l->limits[l->count];

	if (of->bytes == BYTES_NONE || !of->bytes)
		return NULL;
	*limit = (struct why_limit){ .scope = of->scope, .limit_bytes = of->bytes, .gpu = l->hold->gpu,
		.own_bytes = held(l->watch, l->process, l->hold->gpu) };
	limit->used_bytes = held_by_all(l, of->counted, of->gid, &limit->others);
	copy_safe(limit->whose, sizeof(limit->whose), of->whose);
	copy_safe(limit->source, sizeof(limit->source), source(of));
	l->count++;
	return limit;
}

static void add_process(struct looking *l)
{
	uint32_t word = l->hold->word;
	uint64_t bytes = box_with_live(l->now->process_limit[word], l->now->limit_override[word]);

	add(l, &(struct limit_of){ .scope = "process", .whose = "", .bytes = bytes, .counted = is_itself,
		.told = l->ledger && l->ledger->limit_bytes == bytes ? l->ledger->limit_source : NULL,
		.live = l->now->limit_override[word], .admin = &l->admin.max[ADMIN_PROCESS][0] });
}

static void add_job(struct looking *l)
{
	uint32_t word = l->hold->word;
	uint64_t bytes = box_with_live(l->now->job_limit[word] ? l->now->job_limit[word] : BYTES_NONE,
		l->now->job_limit_override[word]);
	char job[sizeof(l->process->who->job)];

	snprintf(job, sizeof(job), "%.*s", (int)l->now->group_length, l->process->who->job);
	add(l, &(struct limit_of){ .scope = "job", .whose = job, .bytes = bytes, .counted = is_of_job,
		.told = l->ledger && l->ledger->job_limit_bytes == bytes ? l->ledger->job_limit_source : NULL,
		.live = l->now->job_limit_override[word], .admin = &l->admin.max[ADMIN_JOB][0] });
}

static void add_inner(struct looking *l)
{
	char job[sizeof(l->process->who->job)];

	snprintf(job, sizeof(job), "%.*s", (int)l->now->inner_length, l->process->who->job);
	add(l, &(struct limit_of){ .scope = "job", .whose = job, .counted = is_of_inner,
		.bytes = l->now->inner_limit[l->hold->word] ? l->now->inner_limit[l->hold->word] : BYTES_NONE,
		.told = "CUWARD_INNER_MEMORY" });
}

static void add_user(struct looking *l)
{
	uint64_t live = l->now->user_limit_override[l->hold->word];
	const struct admin_limit *admin = &l->admin.max[ADMIN_USER][0];
	uint64_t bytes = box_with_live(l->ledger ? l->ledger->user_limit_bytes : admin->bytes, live);

	add(l, &(struct limit_of){ .scope = "user", .whose = l->process->user, .counted = is_of_user,
		.bytes = bytes,
		.told = l->ledger && l->ledger->user_limit_bytes == bytes ? l->ledger->user_limit_source : NULL,
		.live = live, .admin = admin });
}

/* The ledger tells the lowest of several only; each by itself the policy does, as it is now. */
static void add_group(struct looking *l, const struct admin_group *of, bool alone)
{
	const struct ledger_device *ledger = alone ? l->ledger : NULL;
	const struct group *group = getgrgid(of->gid);

	add(l, &(struct limit_of){ .scope = "group", .whose = group ? group->gr_name : format_count(of->gid),
		.bytes = ledger ? ledger->group_limit_bytes : of->max[0].bytes, .counted = is_of_group,
		.gid = of->gid, .told = ledger ? ledger->group_limit_source : NULL, .admin = &of->max[0] });
}

static void add_groups(struct looking *l)
{
	unsigned bound = 0;

	for (unsigned i = 0; i < SLOT_GROUPS; i++)
		bound += l->now->group_gids[i] != 0;
	for (unsigned i = 0; i < l->admin.group_count; i++)
		for (unsigned j = 0; j < SLOT_GROUPS; j++)
			if (l->now->group_gids[j] == l->admin.groups[i].gid + 1)
				add_group(l, &l->admin.groups[i], bound == 1);
}

/* What is kept for somebody binds whoever else allocates, as a limit of all users. */
static void add_gpu(struct looking *l)
{
	struct admin_limit admin = l->admin.max[ADMIN_GPU][0];
	struct why_limit *limit;

	for (unsigned i = 0; i < l->admin.reserve_count && admin.bytes == BYTES_NONE; i++) {
		if (!l->admin.reserves[i].bytes[0])
			continue;
		admin.bytes = l->watch->box->gpus[l->hold->gpu].total_bytes;
		memcpy(admin.source, l->admin.reserves[i].source, sizeof(admin.source));
	}
	limit = add(l, &(struct limit_of){ .scope = "gpu", .whose = "all users", .counted = is_anybody,
		.bytes = l->ledger ? l->ledger->gpu_limit_bytes : admin.bytes,
		.told = l->ledger ? l->ledger->gpu_limit_source : NULL, .admin = &admin });
	if (!limit)
		return;
	limit->kept_bytes = kept_for_others(l);
	limit->used_bytes = slots_add(limit->used_bytes, limit->kept_bytes);
}

/* ---- all of them ---- */

static uint64_t left_of(const struct why_limit *limit)
{
	return limit->used_bytes < limit->limit_bytes ? limit->limit_bytes - limit->used_bytes : 0;
}

static int by_left(const void *left, const void *right)
{
	uint64_t a = left_of(left), b = left_of(right);

	if (a != b)
		return a < b ? -1 : 1;
	return strcmp(((const struct why_limit *)left)->scope, ((const struct why_limit *)right)->scope);
}

static void read_policy(struct looking *l)
{
	const struct box_gpu *gpu = &l->watch->box->gpus[l->hold->gpu];
	struct limit_device device = { .total_bytes = gpu->total_bytes };
	char why[300];

	memcpy(device.uuid, gpu->uuid, sizeof(device.uuid));
	/* What cannot be understood lets nobody start, and says nothing of who runs. */
	l->gid_count = proc_groups(l->process->pid, l->gids, PROCESS_GROUPS);
	if (admin_read_as(&l->admin, &device, 1, l->process->uid, l->gids, l->gid_count, why, sizeof(why)))
		return;
	l->admin.group_count = l->admin.reserve_count = 0;
	for (unsigned i = 0; i < ADMIN_COUNT; i++)
		l->admin.max[i][0] = (struct admin_limit){ .bytes = BYTES_NONE };
}

unsigned why_limits(const struct why_watch *watch, size_t process, const struct box_hold *hold,
	struct why_limit limits[WHY_LIMITS])
{
	static struct looking l;

	l = (struct looking){ .watch = watch, .process = &watch->box->processes[process],
		.now = &watch->of[process].now, .hold = hold, .limits = limits };
	l.ledger = ledger_peek_device(&l.process->peek, hold->word);
	read_policy(&l);
	add_process(&l);
	add_job(&l);
	add_inner(&l);
	add_user(&l);
	add_groups(&l);
	add_gpu(&l);
	qsort(limits, l.count, sizeof(*limits), by_left);
	limits[0].binds = l.count > 0;
	return l.count;
}
