/*
 * box.c - slots of all users we may read, joined: processes, GPUs, users.
 */
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "need.h"
#include "outer_pid.h"
#include "proc_state.h"
#include "user_name.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return then && then < now ? now - then : 0;
}

/* ---- GPUs ---- */

size_t box_find_gpu(struct box *box, const uint8_t uuid[16], uint64_t total_bytes)
{
	for (size_t i = 0; i < box->gpu_count; i++)
		if (memcmp(box->gpus[i].uuid, uuid, 16) == 0)
			return i;
	box->gpus = need(reallocarray(box->gpus, box->gpu_count + 1, sizeof(*box->gpus)));
	box->gpus[box->gpu_count] = (struct box_gpu){ .total_bytes = total_bytes,
		.driver_bytes = BYTES_UNKNOWN, .untracked_bytes = BYTES_UNKNOWN };
	memcpy(box->gpus[box->gpu_count].uuid, uuid, 16);
	return box->gpu_count++;
}

const char *box_uuid(const struct box_gpu *gpu)
{
	static const char digits[] = "0123456789abcdef";
	static char texts[4][48];
	static unsigned used;
	char *text = texts[used++ % 4];
	char *at = stpcpy(text, "GPU-");

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[gpu->uuid[i] >> 4];
		*at++ = digits[gpu->uuid[i] & 15];
	}
	*at = '\0';
	return text;
}

const char *box_gpu_name(const struct box *box, const struct box_gpu *gpu)
{
	static char text[64];
	size_t length = 12;

	for (size_t i = 0; i < box->gpu_count && length < 40; i++) {
		while (&box->gpus[i] != gpu && length < 40 &&
			strncmp(box_uuid(&box->gpus[i]), box_uuid(gpu), length) == 0)
			length++;
	}
	snprintf(text, sizeof(text), "%.*s", (int)length, box_uuid(gpu));
	return text;
}

/* ---- one process ---- */

static uint64_t overhead_of(const struct box_process *process, uint32_t word)
{
	const struct ledger_device *device = ledger_peek_device(&process->peek, word);
	uint64_t bytes = process->entry->slot.overhead[word];

	if (device && device->overhead_bytes < 0)
		return BYTES_UNKNOWN;
	return bytes || process->peeked ? bytes : BYTES_UNKNOWN;
}

uint64_t box_with_live(uint64_t bytes, uint64_t live)
{
	return live && live < bytes ? live : bytes;
}

/* What only its ledger tells: limits of more than its job. */
static void add_wide_limits(struct box_hold *hold, const struct slot *slot,
	const struct ledger_device *device)
{
	hold->user_limit_bytes = box_with_live(device ? device->user_limit_bytes : BYTES_NONE,
		slot->user_limit_override[hold->word]);
	hold->group_limit_bytes = device ? device->group_limit_bytes : BYTES_NONE;
	hold->gpu_limit_bytes = device ? device->gpu_limit_bytes : BYTES_NONE;
}

static void add_hold(struct box *box, struct box_process *process, uint32_t word)
{
	const struct ledger_device *ledger = ledger_peek_device(&process->peek, word);
	const struct slot *slot = &process->entry->slot;
	const struct slots_device *device = &process->file->header.devices[word];
	uint64_t used = slot->words[word] & WORD_BYTES_MASK;
	bool matters = used || slot->overhead[word] || slot->process_limit[word] != BYTES_NONE ||
		(slot->job_limit[word] != BYTES_NONE && slot->job_limit[word]) ||
		(slot->inner_limit[word] != BYTES_NONE && slot->inner_limit[word]) || ledger ||
		(slot->waiting_since_ns && slot->waiting_device == word);
	struct box_hold *hold;

	if (!device->present || !matters)
		return;
	process->holds = need(reallocarray(process->holds, process->hold_count + 1,
		sizeof(*process->holds)));
	hold = &process->holds[process->hold_count++];
	*hold = (struct box_hold){
		.gpu = box_find_gpu(box, device->uuid, device->total_bytes), .word = word, .used_bytes = used,
		.overhead_bytes = overhead_of(process, word),
		.limit_bytes = box_with_live(slot->process_limit[word], slot->limit_override[word]),
		.job_limit_bytes = box_with_live(slot->job_limit[word] ? slot->job_limit[word] : BYTES_NONE,
			slot->job_limit_override[word]),
		.inner_limit_bytes = slot->inner_limit[word] ? slot->inner_limit[word] : BYTES_NONE,
	};
	add_wide_limits(hold, slot, ledger);
	if (!process->file->own && used > box->gpus[hold->gpu].total_bytes)
		hold->used_bytes = BYTES_UNKNOWN;
	if (ledger && !box->gpus[hold->gpu].name[0])
		snprintf(box->gpus[hold->gpu].name, sizeof(box->gpus[hold->gpu].name), "%.63s", ledger->name);
	if (hold->used_bytes != BYTES_UNKNOWN)
		process->used_bytes = slots_add(process->used_bytes, used);
}

static void add_process(struct box *box, const struct slots_file *file, const struct slots_entry *entry)
{
	struct box_process *process;
	struct proc_state proc;

	box->processes = need_room(box->processes, box->count, &box->capacity, sizeof(*box->processes));
	process = &box->processes[box->count++];
	*process = (struct box_process){
		.file = file, .entry = entry, .who = &entry->slot.who, .owner = entry->owner,
		.uid = file->uid, .user = user_name(file->uid), .activity_ns = entry->slot.activity_ns,
	};
	process->pid = entry->owner == OWNER_DEAD ? 0 : outer_pid(process->who);
	if (entry->owner == OWNER_DEAD && process->who->pid_ns == ledger_own_pid_ns())
		process->pid = (pid_t)process->who->pid;
	process->stopped = process->pid && entry->owner != OWNER_DEAD &&
		proc_state(process->pid, &proc) && proc.stopped;
	process->peeked = entry->owner != OWNER_DEAD && ledger_peek(&process->peek, NULL, file, entry);
	process->sync_ns = since(box->now_ns, process->peek.sync_since_ns);
	process->waiting_ns = since(clock_ns(CLOCK_MONOTONIC), entry->slot.waiting_since_ns);
	for (uint32_t word = 0; word < file->header.device_count; word++)
		add_hold(box, process, word);
}

/* ---- sums ---- */

static struct box_user *find_box_user(struct box *box, const struct box_process *process)
{
	for (size_t i = 0; i < box->user_count; i++)
		if (box->users[i].uid == process->uid)
			return &box->users[i];
	box->users = need(reallocarray(box->users, box->user_count + 1, sizeof(*box->users)));
	box->users[box->user_count] = (struct box_user){ .uid = process->uid, .user = process->user };
	return &box->users[box->user_count++];
}

static void add_up(struct box *box, const struct box_process *process)
{
	struct box_user *user = find_box_user(box, process);

	user->processes++;
	for (size_t i = 0; i < process->hold_count; i++) {
		const struct box_hold *hold = &process->holds[i];
		struct box_gpu *gpu = &box->gpus[hold->gpu];
		uint64_t used = hold->used_bytes == BYTES_UNKNOWN ? 0 : hold->used_bytes;
		bool unknown = hold->overhead_bytes == BYTES_UNKNOWN;
		uint64_t overhead = unknown ? 0 : hold->overhead_bytes;

		gpu->processes += used || overhead;
		gpu->used_bytes = slots_add(gpu->used_bytes, used);
		gpu->overhead_bytes = slots_add(gpu->overhead_bytes, overhead);
		user->used_bytes = slots_add(user->used_bytes, used);
		user->overhead_bytes = slots_add(user->overhead_bytes, overhead);
		gpu->overhead_unknown |= unknown;
		user->overhead_unknown |= unknown;
	}
}

/* Managed memory counts whole, wherever it is: together it may be more than the GPU has. */
static void cap_sums(struct box *box)
{
	for (size_t i = 0; i < box->gpu_count; i++) {
		struct box_gpu *gpu = &box->gpus[i];

		gpu->claimed_more = gpu->used_bytes > gpu->total_bytes ||
			gpu->overhead_bytes > gpu->total_bytes - gpu->used_bytes;
		if (gpu->used_bytes > gpu->total_bytes)
			gpu->used_bytes = gpu->total_bytes;
		if (gpu->overhead_bytes > gpu->total_bytes - gpu->used_bytes)
			gpu->overhead_bytes = gpu->total_bytes - gpu->used_bytes;
	}
}

static int by_memory(const void *left, const void *right)
{
	const struct box_process *a = left, *b = right;

	if (a->used_bytes != b->used_bytes)
		return a->used_bytes > b->used_bytes ? -1 : 1;
	if (a->who->pid != b->who->pid)
		return a->who->pid < b->who->pid ? -1 : 1;
	return a->entry->number < b->entry->number ? -1 : 1;
}

void box_open(struct box *box, bool dead)
{
	*box = (struct box){ .now_ns = clock_ns(CLOCK_REALTIME) };
	outer_pid_forget();
	slots_list_open(&box->slots);
	for (size_t i = 0; i < box->slots.count; i++) {
		const struct slots_file *file = &box->slots.files[i];

		for (size_t j = 0; j < file->count; j++)
			if (dead || file->entries[j].owner != OWNER_DEAD)
				add_process(box, file, &file->entries[j]);
	}
	ledger_peek_done();
	if (box->count)
		qsort(box->processes, box->count, sizeof(*box->processes), by_memory);
	for (size_t i = 0; i < box->count; i++)
		if (box->processes[i].owner != OWNER_DEAD)
			add_up(box, &box->processes[i]);
	cap_sums(box);
}

static void look(struct box_process *process, const struct ledger_peek *now, uint64_t now_ns,
	uint64_t opened_ns)
{
	const struct ledger_peek *before = &process->peek;
	uint32_t thread;

	process->calls = now->calls > before->calls ? now->calls - before->calls : 0;
	process->busy = process->calls > 0;
	if (process->busy)
		process->activity_ns = now_ns;
	/* A thread that was led out of a wait by a signal goes on, and its mark stays. */
	process->sync_ns = before->sync_since_ns == now->sync_since_ns &&
		before->sync_calls == now->sync_calls ? since(now_ns, now->sync_since_ns) : 0;
	process->in_call = process->sync_ns ? 0 : ledger_peek_in_call(before, now, &thread);
	process->in_call_ns = process->in_call ? since(now_ns, opened_ns) : 0;
	process->in_call_kernel[0] = '\0';
	if (process->in_call)
		ledger_peek_kernel(process->in_call_kernel, process->file, process->entry, thread);
}

void box_look(struct box *box)
{
	uint64_t opened_ns = box->now_ns;

	box->now_ns = clock_ns(CLOCK_REALTIME);
	for (size_t i = 0; i < box->count; i++) {
		struct box_process *process = &box->processes[i];
		struct ledger_peek now;

		if (!process->peeked ||
			!ledger_peek_again(&now, &process->peek, process->file, process->entry))
			continue;
		look(process, &now, box->now_ns, opened_ns);
		ledger_peek_free(&process->peek);
		process->peek = now;
	}
	ledger_peek_done();
}

void box_close(struct box *box)
{
	for (size_t i = 0; i < box->count; i++) {
		free(box->processes[i].user);
		free(box->processes[i].holds);
		ledger_peek_free(&box->processes[i].peek);
	}
	for (size_t i = 0; i < box->other_count; i++)
		free(box->others[i].user);
	free(box->processes);
	free(box->others);
	free(box->gpus);
	free(box->users);
	slots_list_close(&box->slots);
	*box = (struct box){ 0 };
}

/* ---- questions ---- */

pid_t box_pid(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end && value <= INT32_MAX ? (pid_t)value : 0;
}

bool box_is_what_it_says(const struct box_process *process)
{
	struct proc_state proc;
	struct stat info;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", process->pid);
	return proc_state(process->pid, &proc) && proc.start_ticks == process->who->start_ticks &&
		stat(path, &info) == 0 && info.st_uid == process->uid;
}

struct box_process *box_find(const struct box *box, pid_t pid)
{
	struct box_process *found = NULL;

	if (pid == 0)
		return NULL;
	for (size_t i = 0; i < box->count; i++) {
		struct box_process *process = &box->processes[i];

		if (process->owner == OWNER_DEAD)
			continue;
		if (process->pid == pid && box_is_what_it_says(process))
			return process;
		if (process->pid == pid || (process->pid == 0 && process->who->pid == (uint32_t)pid))
			found = found && found->pid ? found : process;
	}
	return found;
}

uint64_t box_limit(const struct box_hold *hold, const char **scope)
{
	const struct {
		const char *scope;
		uint64_t bytes;
	} limits[] = { { "process", hold->limit_bytes }, { "job", hold->job_limit_bytes },
		{ "job", hold->inner_limit_bytes }, { "user", hold->user_limit_bytes },
		{ "group", hold->group_limit_bytes }, { "gpu", hold->gpu_limit_bytes } };
	unsigned least = 0;

	for (unsigned i = 1; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i].bytes < limits[least].bytes)
			least = i;
	*scope = limits[least].scope;
	return limits[least].bytes;
}

bool box_in_job(const struct box_process *process, const char *job)
{
	size_t length = strlen(job);
	const char *own = process->who->job;

	return length && strncmp(own, job, length) == 0 && (own[length] == '\0' || own[length] == '/');
}
