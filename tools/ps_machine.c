/*
 * ps_machine.c - who holds what, for programs: bytes and nanoseconds as integers, unknown as null or as
 * an empty field.
 */
#include "ps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "calls.h"
#include "format.h"

static const char *const states[] = {
	[OWNER_DEAD] = "dead", [OWNER_ALIVE] = "alive", [OWNER_UNKNOWN] = "unknown",
};

/* ---- JSON ---- */

json_t *ps_bytes(uint64_t bytes)
{
	return bytes >= INT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static void time_text(char text[40], uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm tm;
	char date[32] = "";

	if (gmtime_r(&seconds, &tm))
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, 40, "%s.%03uZ", date, (unsigned)(realtime_ns % 1000000000 / 1000000));
}

json_t *ps_time(uint64_t realtime_ns)
{
	char text[40];

	time_text(text, realtime_ns);
	return realtime_ns ? json_string(text) : json_null();
}

/* Whatever is no UTF-8 or steers a terminal is spelled out. */
json_t *ps_text(const char *text)
{
	char *safe = safe_text(text, 0);
	json_t *string = json_string(safe);

	free(safe);
	return string ? string : json_null();
}

static void add_limit(json_t *limits, const char *scope, uint64_t bytes)
{
	if (bytes != BYTES_NONE)
		json_array_append_new(limits, json_pack("{s:s, s:o}", "scope", scope, "bytes", ps_bytes(bytes)));
}

static json_t *limits_of(const struct box_hold *hold)
{
	json_t *limits = json_array();

	add_limit(limits, "process", hold->limit_bytes);
	add_limit(limits, "job", hold->job_limit_bytes);
	add_limit(limits, "job", hold->inner_limit_bytes);
	add_limit(limits, "user", hold->user_limit_bytes);
	add_limit(limits, "group", hold->group_limit_bytes);
	add_limit(limits, "gpu", hold->gpu_limit_bytes);
	return limits;
}

static json_t *devices_of(const struct box *box, const struct box_process *process)
{
	json_t *devices = json_array();

	for (size_t i = 0; i < process->hold_count; i++) {
		const struct box_hold *hold = &process->holds[i];
		const struct box_gpu *gpu = &box->gpus[hold->gpu];

		json_array_append_new(devices, json_pack("{s:s, s:o, s:o, s:o, s:o}", "uuid", box_uuid(gpu),
			"total_bytes", ps_bytes(gpu->total_bytes), "used_bytes", ps_bytes(hold->used_bytes),
			"overhead_bytes", ps_bytes(hold->overhead_bytes), "limits", limits_of(hold)));
	}
	return devices;
}

static json_t *waiting_of(const struct box *box, const struct box_process *process)
{
	const struct slot *slot = &process->entry->slot;
	uint32_t word = slot->waiting_device;

	for (size_t i = 0; process->waiting_ns && i < process->hold_count; i++)
		if (process->holds[i].word == word)
			return json_pack("{s:o, s:o, s:s}", "bytes", ps_bytes(slot->waiting_bytes), "for_ns",
				ps_bytes(process->waiting_ns), "uuid",
				box_uuid(&box->gpus[process->holds[i].gpu]));
	return json_null();
}

static json_t *sync_of(const struct box_process *process)
{
	if (process->in_call)
		return json_pack("{s:s, s:n, s:o}", "call", call_name(process->in_call - 1), "for_ns", "kernel",
			process->in_call_kernel[0] ? ps_text(process->in_call_kernel) : json_null());
	return !process->sync_ns ? json_null() : json_pack("{s:s, s:o, s:o}", "call",
		call_name(process->peek.sync_call), "for_ns", ps_bytes(process->sync_ns), "kernel",
		process->peek.kernel[0] ? ps_text(process->peek.kernel) : json_null());
}

json_t *ps_process(const struct box *box, const struct box_process *process)
{
	const struct process_identity *who = process->who;

	return json_pack("{s:I, s:I, s:o, s:I, s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"pid", (json_int_t)who->pid, "pid_ns", (json_int_t)who->pid_ns,
		"outer_pid", process->pid ? json_integer(process->pid) : json_null(),
		"uid", (json_int_t)process->uid, "user", ps_text(process->user),
		"state", states[process->owner], "stopped", process->stopped, "command", ps_text(who->command),
		"job", ps_text(who->job), "labels", ps_text(who->labels),
		"start_time", ps_time(who->start_realtime_ns),
		"last_activity", ps_time(process->activity_ns), "waiting", waiting_of(box, process),
		"synchronizing", sync_of(process), "devices", devices_of(box, process));
}

static json_t *all_gpus(const struct box *box)
{
	json_t *gpus = json_array();

	for (size_t i = 0; i < box->gpu_count; i++) {
		const struct box_gpu *gpu = &box->gpus[i];

		json_array_append_new(gpus, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:b}",
			"uuid", box_uuid(gpu), "name", gpu->name[0] ? ps_text(gpu->name) : json_null(),
			"total_bytes", ps_bytes(gpu->total_bytes), "used_bytes", ps_bytes(gpu->used_bytes),
			"overhead_bytes", ps_bytes(box_overhead(gpu)),
			"untracked_bytes", ps_bytes(gpu->untracked_bytes),
			"driver_bytes", ps_bytes(gpu->driver_bytes), "processes", (int)gpu->processes,
			"claimed_more", gpu->claimed_more));
	}
	return gpus;
}

json_t *ps_other(const struct box *box, const struct box_other *other)
{
	return json_pack("{s:i, s:o, s:o, s:o, s:s, s:s, s:o, s:o}", "pid", (int)other->pid,
		"uid", other->known ? json_integer(other->uid) : json_null(),
		"user", other->known ? ps_text(other->user) : json_null(),
		"command", other->known ? ps_text(other->command) : json_null(),
		"kind", other->kind, "uuid", box_uuid(&box->gpus[other->gpu]),
		"used_bytes", ps_bytes(other->used_bytes), "start_time", ps_time(other->start_ns));
}

static json_t *all_others(const struct box *box)
{
	json_t *others = json_array();

	if (!box->others_known) {
		json_decref(others);
		return json_null();
	}
	for (size_t i = 0; i < box->other_count; i++)
		json_array_append_new(others, ps_other(box, &box->others[i]));
	return others;
}

static json_t *all_users(const struct box *box)
{
	json_t *users = json_array();

	for (size_t i = 0; i < box->user_count; i++)
		json_array_append_new(users, json_pack("{s:I, s:o, s:i, s:o, s:o}",
			"uid", (json_int_t)box->users[i].uid, "user", ps_text(box->users[i].user),
			"processes", (int)box->users[i].processes,
			"used_bytes", ps_bytes(box->users[i].used_bytes),
			"overhead_bytes", ps_bytes(box_overhead(&box->users[i]))));
	return users;
}

void ps_json(FILE *out, const struct box *box, bool refusals)
{
	json_t *processes = json_array(), *document;

	for (size_t i = 0; i < box->count; i++) {
		json_t *process = ps_process(box, &box->processes[i]);

		if (refusals)
			json_object_set_new(process, "refusals", ps_refusals_json(box, &box->processes[i]));
		json_array_append_new(processes, process);
	}
	document = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:I}", "schema", 1,
		"time", ps_time(box->now_ns), "processes", processes, "others", all_others(box),
		"gpus", all_gpus(box), "users", all_users(box), "unreadable", (json_int_t)box->slots.unreadable);
	json_dumpf(document, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(document);
}

/* ---- CSV ---- */

static void csv_text(FILE *out, const char *text)
{
	char *safe = safe_text(text, 0);

	fputc('"', out);
	for (const char *c = safe; *c; c++)
		fprintf(out, "%s%c", *c == '"' ? "\"" : "", *c);
	fputs("\",", out);
	free(safe);
}

static void csv_bytes(FILE *out, uint64_t bytes, const char *end)
{
	if (bytes < INT64_MAX)
		fprintf(out, "%" PRIu64, bytes);
	fputs(end, out);
}

static void csv_time(FILE *out, uint64_t realtime_ns, const char *end)
{
	char text[40];

	time_text(text, realtime_ns);
	fprintf(out, "%s%s", realtime_ns ? text : "", end);
}

static void csv_process(FILE *out, const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	fprintf(out, "%u,%u,", process->who->pid, process->who->pid_ns);
	csv_bytes(out, process->pid ? (uint64_t)process->pid : BYTES_UNKNOWN, ",");
	fprintf(out, "%u,", process->uid);
	csv_text(out, process->user);
	fprintf(out, "%s,", states[process->owner]);
	csv_text(out, process->who->command);
	csv_text(out, process->who->job);
	fprintf(out, "%s,", hold ? box_uuid(&box->gpus[hold->gpu]) : "");
	csv_bytes(out, hold ? hold->used_bytes : 0, ",");
	csv_bytes(out, hold ? hold->limit_bytes : BYTES_NONE, ",");
	csv_bytes(out, hold ? hold->job_limit_bytes : BYTES_NONE, ",");
	csv_bytes(out, hold ? hold->overhead_bytes : 0, ",");
	csv_time(out, process->who->start_realtime_ns, ",");
	csv_time(out, process->activity_ns, ",");
	csv_bytes(out, process->waiting_ns ? process->entry->slot.waiting_bytes : BYTES_NONE, ",");
	csv_bytes(out, process->sync_ns ? process->sync_ns : BYTES_NONE, "\r\n");
}

static void csv_other(FILE *out, const struct box *box, const struct box_other *other)
{
	fprintf(out, "%d,,%d,", other->pid, other->pid);
	csv_bytes(out, other->known ? other->uid : BYTES_UNKNOWN, ",");
	csv_text(out, other->known ? other->user : "");
	fputs("other,", out);
	csv_text(out, other->known ? other->command : "");
	fprintf(out, "\"\",%s,", box_uuid(&box->gpus[other->gpu]));
	csv_bytes(out, other->used_bytes, ",,,,");
	csv_time(out, other->start_ns, ",,,\r\n");
}

static void csv_processes(FILE *out, const struct box *box)
{
	fputs("pid,pid_ns,outer_pid,uid,user,state,command,job,uuid,used_bytes,limit_bytes,job_limit_bytes,"
		"overhead_bytes,start_time,last_activity,waiting_bytes,synchronizing_ns\r\n", out);
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];

		for (size_t j = 0; j < process->hold_count; j++)
			csv_process(out, box, process, &process->holds[j]);
		if (!process->hold_count)
			csv_process(out, box, process, NULL);
	}
	for (size_t i = 0; i < box->other_count; i++)
		csv_other(out, box, &box->others[i]);
}

static void csv_users(FILE *out, const struct box *box)
{
	fputs("uid,user,processes,used_bytes,overhead_bytes\r\n", out);
	for (size_t i = 0; i < box->user_count; i++) {
		const struct box_user *user = &box->users[i];

		fprintf(out, "%u,", user->uid);
		csv_text(out, user->user);
		fprintf(out, "%u,", user->processes);
		csv_bytes(out, user->used_bytes, ",");
		csv_bytes(out, box_overhead(user), "\r\n");
	}
}

static void csv_gpus(FILE *out, const struct box *box)
{
	fputs("uuid,name,processes,used_bytes,overhead_bytes,total_bytes,untracked_bytes,"
		"driver_bytes\r\n", out);
	for (size_t i = 0; i < box->gpu_count; i++) {
		const struct box_gpu *gpu = &box->gpus[i];

		fprintf(out, "%s,", box_uuid(gpu));
		csv_text(out, gpu->name);
		fprintf(out, "%u,", gpu->processes);
		csv_bytes(out, gpu->used_bytes, ",");
		csv_bytes(out, box_overhead(gpu), ",");
		csv_bytes(out, gpu->total_bytes, ",");
		csv_bytes(out, gpu->untracked_bytes, ",");
		csv_bytes(out, gpu->driver_bytes, "\r\n");
	}
}

void ps_csv(FILE *out, const struct box *box, enum ps_by by)
{
	(by == BY_PROCESS ? csv_processes : by == BY_USER ? csv_users : csv_gpus)(out, box);
}
