/*
 * ps_table.c - who holds what, for people: bytes as KiB, MiB or GiB, unknown as "unknown".
 */
#include "ps.h"

#include "calls.h"
#include "format.h"
#include "table.h"

const char *ps_amount(uint64_t bytes)
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

const char *ps_age(const struct box *box, uint64_t then_ns)
{
	uint64_t seconds = then_ns < box->now_ns ? (box->now_ns - then_ns) / 1000000000 : 0;

	return seconds ? format_ns(seconds * 1000000000) : "< 1 s";
}

const char *ps_activity(const struct box *box, const struct box_process *process)
{
	if (process->busy)
		return "now";
	if (!process->activity_ns)
		return "unknown";
	return ps_age(box, process->activity_ns);
}

const char *ps_waits(const struct box *box, const struct box_process *process)
{
	static char text[160];

	(void)box;
	text[0] = '\0';
	if (process->owner == OWNER_DEAD)
		snprintf(text, sizeof(text), "dead");
	else if (process->stopped)
		snprintf(text, sizeof(text), "stopped");
	else if (process->waiting_ns)
		snprintf(text, sizeof(text), "for %s, %s", format_bytes(process->entry->slot.waiting_bytes),
			format_ns(process->waiting_ns));
	else if (process->sync_ns)
		snprintf(text, sizeof(text), "in %s, %s", call_name(process->peek.sync_call),
			format_ns(process->sync_ns));
	else if (process->in_call)
		snprintf(text, sizeof(text), "in %s", call_name(process->in_call - 1));
	else if (process->owner == OWNER_UNKNOWN)
		snprintf(text, sizeof(text), "unknown");
	return text;
}

static void put_row(struct table *table, const struct ps_choice *choice, const struct ps_row *row)
{
	for (unsigned i = 0; i < choice->count; i++)
		table_cell(table, choice->columns[i]->cell(row));
}

static void processes(struct table *table, const struct box *box, const struct ps_choice *choice)
{
	for (unsigned i = 0; i < choice->count; i++)
		table_column(table, choice->columns[i]->heading);
	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];
		struct ps_row row = { box, process, NULL, NULL };

		for (size_t j = 0; j < process->hold_count; j++) {
			row.hold = &process->holds[j];
			put_row(table, choice, &row);
		}
		if (!process->hold_count)
			put_row(table, choice, &row);
	}
	for (size_t i = 0; i < box->other_count; i++)
		put_row(table, choice, &(struct ps_row){ box, NULL, NULL, &box->others[i] });
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
		table_cell(table, ps_amount(box_overhead(&box->users[i])));
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

static void gpus(struct table *table, const struct box *box, ps_gpu_cell *trend)
{
	static const char *const headings[] = { "<GPU", "<NAME", "PROCESSES", "USED", "OVERHEAD",
		"UNTRACKED", "DRIVER", "TOTAL" };
	bool driver = driver_known(box);

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		if (driver || (i != 5 && i != 6))
			table_column(table, headings[i]);
	if (trend)
		table_column(table, "<TREND");
	table_column(table, "<");
	for (size_t i = 0; i < box->gpu_count; i++) {
		const struct box_gpu *gpu = &box->gpus[i];

		table_cell(table, box_gpu_name(box, gpu));
		table_cell(table, gpu->name[0] ? gpu->name : "unknown");
		table_cell(table, format_count(gpu->processes));
		table_cell(table, format_bytes(gpu->used_bytes));
		table_cell(table, ps_amount(box_overhead(gpu)));
		if (driver) {
			table_cell(table, ps_amount(gpu->untracked_bytes));
			table_cell(table, ps_amount(gpu->driver_bytes));
		}
		table_cell(table, ps_amount(gpu->total_bytes));
		if (trend)
			table_cell(table, trend(gpu));
		table_cell(table, gpu->claimed_more ? "more is claimed than it has" : "");
	}
}

void ps_table(FILE *out, const struct box *box, enum ps_by by, const struct ps_choice *choice)
{
	struct table table = { 0 };

	if (by == BY_PROCESS)
		processes(&table, box, choice);
	else if (by == BY_USER)
		users(&table, box);
	else
		gpus(&table, box, choice->gpu_trend);
	table_print(&table, out, 0);
}
