/*
 * ps_table.c - who holds what, for people: bytes as KiB, MiB or GiB, unknown as "unknown".
 */
#include "ps.h"

#include "calls.h"
#include "format.h"
#include "table.h"

static const char *bytes_text(uint64_t bytes)
{
	return bytes == BYTES_UNKNOWN ? "unknown" : format_bytes(bytes);
}

const char *ps_pid(const struct box_process *process)
{
	static char text[40];

	if (process->pid)
		snprintf(text, sizeof(text), "%d", process->pid);
	else
		snprintf(text, sizeof(text), "%u inside", process->who->pid);
	return text;
}

const char *ps_activity(const struct box *box, const struct box_process *process)
{
	if (process->busy)
		return "now";
	if (!process->activity_ns)
		return "unknown";
	return format_ns(process->activity_ns < box->now_ns ?
		(box->now_ns - process->activity_ns) / 1000000000 * 1000000000 : 0);
}

const char *ps_waits(const struct box *box, const struct box_process *process)
{
	static char text[160];

	(void)box;
	text[0] = '\0';
	if (process->owner == OWNER_DEAD)
		snprintf(text, sizeof(text), "dead");
	else if (process->waiting_ns)
		snprintf(text, sizeof(text), "for %s, %s", format_bytes(process->entry->slot.waiting_bytes),
			format_ns(process->waiting_ns));
	else if (process->sync_ns)
		snprintf(text, sizeof(text), "in %s, %s", call_name(process->peek.sync_call),
			format_ns(process->sync_ns));
	else if (process->owner == OWNER_UNKNOWN)
		snprintf(text, sizeof(text), "unknown");
	return text;
}

static const char *limit_text(const struct box_hold *hold)
{
	static char text[64];
	const char *scope;
	uint64_t limit = box_limit(hold, &scope);

	if (limit == BYTES_NONE)
		return "none";
	snprintf(text, sizeof(text), "%s %s", format_bytes(limit), scope);
	return text;
}

static void process_row(struct table *table, const struct box *box, const struct box_process *process,
	const struct box_hold *hold)
{
	table_cell(table, ps_pid(process));
	table_cell(table, process->user);
	table_cell(table, hold ? box_gpu_name(box, &box->gpus[hold->gpu]) : "none");
	table_cell(table, hold ? bytes_text(hold->used_bytes) : "0 B");
	table_cell(table, hold ? limit_text(hold) : "none");
	table_cell(table, hold ? bytes_text(hold->overhead_bytes) : "0 B");
	table_cell(table, format_ns(process->who->start_realtime_ns < box->now_ns ?
		(box->now_ns - process->who->start_realtime_ns) / 1000000000 * 1000000000 : 0));
	table_cell(table, ps_activity(box, process));
	table_cell(table, ps_waits(box, process));
	table_cell(table, process->who->command);
}

static void other_row(struct table *table, const struct box *box, const struct box_other *other)
{
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", other->pid);
	table_cell(table, pid);
	table_cell(table, other->known ? other->user : "unknown");
	table_cell(table, box_gpu_name(box, &box->gpus[other->gpu]));
	table_cell(table, bytes_text(other->used_bytes));
	table_cell(table, "none");
	table_cell(table, "");
	table_cell(table, !other->known ? "unknown" : format_ns(other->start_ns < box->now_ns ?
		(box->now_ns - other->start_ns) / 1000000000 * 1000000000 : 0));
	table_cell(table, "unknown");
	table_cell(table, "not under cuward");
	table_cell(table, other->known ? other->command : "unknown");
}

static void processes(struct table *table, const struct box *box)
{
	static const char *const headings[] = { "PID", "<USER", "<GPU", "USED", "LIMIT", "OVERHEAD",
		"SINCE", "ACTIVE", "<WAITS", "<COMMAND" };

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(table, headings[i]);
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];

		for (size_t j = 0; j < process->hold_count; j++)
			process_row(table, box, process, &process->holds[j]);
		if (!process->hold_count)
			process_row(table, box, process, NULL);
	}
	for (size_t i = 0; i < box->other_count; i++)
		other_row(table, box, &box->others[i]);
}

static void users(struct table *table, const struct box *box)
{
	table_column(table, "<USER");
	table_column(table, "PROCESSES");
	table_column(table, "USED");
	table_column(table, "OVERHEAD");
	for (size_t i = 0; i < box->user_count; i++) {
		table_cell(table, box->users[i].user);
		table_cell(table, format_count(box->users[i].processes));
		table_cell(table, format_bytes(box->users[i].used_bytes));
		table_cell(table, format_bytes(box->users[i].overhead_bytes));
	}
}

/* Does NVML say what the driver gave out? */
static bool driver_known(const struct box *box)
{
	for (size_t i = 0; i < box->gpu_count; i++)
		if (box->gpus[i].driver_bytes != BYTES_UNKNOWN)
			return true;
	return false;
}

static void gpus(struct table *table, const struct box *box)
{
	static const char *const headings[] = { "<GPU", "<NAME", "PROCESSES", "USED", "OVERHEAD",
		"UNTRACKED", "DRIVER", "TOTAL", "<" };
	bool driver = driver_known(box);

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		if (driver || (i != 5 && i != 6))
			table_column(table, headings[i]);
	for (size_t i = 0; i < box->gpu_count; i++) {
		const struct box_gpu *gpu = &box->gpus[i];

		table_cell(table, box_gpu_name(box, gpu));
		table_cell(table, gpu->name[0] ? gpu->name : "unknown");
		table_cell(table, format_count(gpu->processes));
		table_cell(table, format_bytes(gpu->used_bytes));
		table_cell(table, format_bytes(gpu->overhead_bytes));
		if (driver) {
			table_cell(table, bytes_text(gpu->untracked_bytes));
			table_cell(table, bytes_text(gpu->driver_bytes));
		}
		table_cell(table, bytes_text(gpu->total_bytes));
		table_cell(table, gpu->claimed_more ? "more is claimed than it has" : "");
	}
}

void ps_table(FILE *out, const struct box *box, enum ps_by by)
{
	struct table table = { 0 };

	(by == BY_PROCESS ? processes : by == BY_USER ? users : gpus)(&table, box);
	table_print(&table, out, 0);
}
