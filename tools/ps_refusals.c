/*
 * ps_refusals.c - what limits refused one process: asked for, used, by whom, and what can be done.
 */
#include "ps.h"

#include "calls.h"
#include "format.h"

static const char *const scopes[] = {
#define X(id, word) word,
	CUWARD_SCOPES(X)
#undef X
};

static const char *const advice[SCOPE_COUNT] = {
	[SCOPE_PROCESS] = "cuward limit set PID SIZE gives this process more, if /etc/cuward allows it",
	[SCOPE_JOB] = "cuward limit set JOB SIZE gives its job more; ending a process of the job makes room",
	[SCOPE_USER] = "ending one of the user's processes makes room; the limit is user_max in /etc/cuward",
	[SCOPE_GROUP] = "ending a process of the group makes room; the limit is group_max in /etc/cuward",
	[SCOPE_GPU] = "ending a process on this GPU makes room, or another GPU: cuward fit",
};

/* Of a limit of another kind of memory there is no GPU. */
static const struct box_gpu *gpu_of(const struct box *box, const struct box_process *process,
	const struct ledger_denial *denial)
{
	const struct ledger_header *header = process->peek.header;

	for (size_t i = 0; denial->device < header->device_count && i < process->hold_count; i++)
		if (process->holds[i].word == header->devices[denial->device].slot_device)
			return &box->gpus[process->holds[i].gpu];
	return NULL;
}

static bool is_there(const struct box_process *process, unsigned i)
{
	const struct ledger_denial *denial = &process->peek.header->denials[i];

	return denial->present && denial->scope < SCOPE_COUNT;
}

static bool holder_is_there(const struct ledger_holder *holder)
{
	return holder->bytes > 0;
}

static void print_holders(FILE *out, const struct box *box, const struct ledger_denial *denial)
{
	for (unsigned i = 0; i < LEDGER_HOLDERS; i++) {
		const struct ledger_holder *holder = &denial->holders[i];
		char command[sizeof(holder->command) + 1] = "";

		if (!holder_is_there(holder))
			continue;
		snprintf(command, sizeof(command), "%.*s", (int)sizeof(holder->command), holder->command);
		fprintf(out, "    %s: ", format_bytes(holder->bytes));
		if (holder->pid)
			fprintf(out, "process %u, ", holder->pid);
		else
			fputs("itself, ", out);
		put_safe(out, command[0] ? command : "one call site of its own", 40);
		if (holder->since_ns && holder->since_ns < box->now_ns)
			fprintf(out, ", for %s by now", ps_age(box, holder->since_ns));
		fputc('\n', out);
	}
}

void ps_refusals(FILE *out, const struct box *box, const struct box_process *process)
{
	for (unsigned i = 0; process->peeked && i < LEDGER_DENIALS_MAX; i++) {
		const struct ledger_denial *denial = &process->peek.header->denials[i];
		const struct box_gpu *gpu;

		if (!is_there(process, i))
			continue;
		gpu = gpu_of(box, process, denial);
		fprintf(out, "refused %s time%s, last %s ago: %s of %s%s%s; the %s limit is %s, and %s were "
			"used\n",
			format_count(denial->count), denial->count == 1 ? "" : "s",
			format_ns(denial->time_ns < box->now_ns ? box->now_ns - denial->time_ns : 0),
			call_name(denial->api), format_bytes(denial->bytes), gpu ? " on " : "",
			gpu ? box_gpu_name(box, gpu) : "", scopes[denial->scope],
			format_bytes(denial->limit_bytes), format_bytes(denial->used_bytes));
		print_holders(out, box, denial);
		fprintf(out, "    %s\n", advice[denial->scope]);
	}
}

static json_t *json_holders(const struct ledger_denial *denial)
{
	json_t *holders = json_array();

	for (unsigned i = 0; i < LEDGER_HOLDERS; i++) {
		const struct ledger_holder *holder = &denial->holders[i];
		char command[sizeof(holder->command) + 1];

		if (!holder_is_there(holder))
			continue;
		snprintf(command, sizeof(command), "%.*s", (int)sizeof(holder->command), holder->command);
		json_array_append_new(holders, json_pack("{s:o, s:o, s:o, s:o}",
			"pid", holder->pid ? json_integer(holder->pid) : json_null(),
			"command", command[0] ? ps_text(command) : json_null(),
			"bytes", ps_bytes(holder->bytes), "since", ps_time(holder->since_ns)));
	}
	return holders;
}

json_t *ps_refusals_json(const struct box *box, const struct box_process *process)
{
	json_t *refusals = json_array();

	for (unsigned i = 0; process->peeked && i < LEDGER_DENIALS_MAX; i++) {
		const struct ledger_denial *denial = &process->peek.header->denials[i];
		const struct box_gpu *gpu;

		if (!is_there(process, i))
			continue;
		gpu = gpu_of(box, process, denial);
		json_array_append_new(refusals, json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}",
			"api", call_name(denial->api), "bytes", ps_bytes(denial->bytes),
			"uuid", gpu ? json_string(box_uuid(gpu)) : json_null(), "scope", scopes[denial->scope],
			"limit_bytes", ps_bytes(denial->limit_bytes), "used_bytes", ps_bytes(denial->used_bytes),
			"count", ps_bytes(denial->count), "last_time", ps_time(denial->time_ns),
			"holders", json_holders(denial)));
	}
	return process->peeked ? refusals : (json_decref(refusals), json_null());
}
