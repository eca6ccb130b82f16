/*
 * ps_columns.c - the columns of the table of processes, one row each.
 */
#include "ps.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "need.h"

static const char *pid(const struct ps_row *row)
{
	static char text[24];

	if (row->process)
		return ps_pid(row->process);
	snprintf(text, sizeof(text), "%d", row->other->pid);
	return text;
}

static const char *user(const struct ps_row *row)
{
	return row->process ? row->process->user : row->other->known ? row->other->user : "unknown";
}

static const char *uid(const struct ps_row *row)
{
	if (!row->process && !row->other->known)
		return "unknown";
	return format_count(row->process ? row->process->uid : row->other->uid);
}

static const struct box_gpu *gpu_of(const struct ps_row *row)
{
	return row->other ? &row->box->gpus[row->other->gpu] :
		row->hold ? &row->box->gpus[row->hold->gpu] : NULL;
}

static const char *gpu(const struct ps_row *row)
{
	return gpu_of(row) ? box_gpu_name(row->box, gpu_of(row)) : "none";
}

static const char *uuid(const struct ps_row *row)
{
	return gpu_of(row) ? box_uuid(gpu_of(row)) : "none";
}

static const char *total(const struct ps_row *row)
{
	return gpu_of(row) ? ps_amount(gpu_of(row)->total_bytes) : "";
}

static const char *used(const struct ps_row *row)
{
	return ps_amount(row->other ? row->other->used_bytes : row->hold ? row->hold->used_bytes : 0);
}

static const char *limit(const struct ps_row *row)
{
	static char text[64];
	const char *scope;
	uint64_t bytes = row->hold ? box_limit(row->hold, &scope) : BYTES_NONE;

	if (bytes == BYTES_NONE)
		return "none";
	snprintf(text, sizeof(text), "%s %s", format_bytes(bytes), scope);
	return text;
}

static const char *overhead(const struct ps_row *row)
{
	return row->other ? "" : ps_amount(row->hold ? row->hold->overhead_bytes : 0);
}

static const char *since(const struct ps_row *row)
{
	uint64_t start = row->process ? row->process->who->start_realtime_ns : row->other->start_ns;

	if (row->other && !row->other->known)
		return "unknown";
	return ps_age(row->box, start);
}

static const char *active(const struct ps_row *row)
{
	return row->process ? ps_activity(row->box, row->process) : "unknown";
}

static const char *waits(const struct ps_row *row)
{
	return row->process ? ps_waits(row->box, row->process) : "not under cuward";
}

static const char *command(const struct ps_row *row)
{
	if (row->process)
		return row->process->who->command;
	return row->other->known ? row->other->command : "unknown";
}

static const char *job(const struct ps_row *row)
{
	return row->process ? row->process->who->job : "";
}

static const char *labels(const struct ps_row *row)
{
	return row->process ? row->process->who->labels : "";
}

static const char *calls(const struct ps_row *row)
{
	if (!row->process || !row->process->peeked)
		return "unknown";
	return format_count(row->process->peek.calls);
}

/* The usual ones first, in their order. */
static const struct ps_column columns[] = {
	{ "pid", "PID", pid }, { "user", "<USER", user }, { "gpu", "<GPU", gpu }, { "used", "USED", used },
	{ "limit", "LIMIT", limit }, { "overhead", "OVERHEAD", overhead }, { "since", "SINCE", since },
	{ "active", "ACTIVE", active }, { "waits", "<WAITS", waits }, { "command", "<COMMAND", command },
	{ "uid", "UID", uid }, { "uuid", "<UUID", uuid }, { "total", "TOTAL", total },
	{ "job", "<JOB", job },
	{ "labels", "<LABELS", labels }, { "calls", "CALLS", calls },
};

enum { USUAL = 10, ALL = sizeof(columns) / sizeof(columns[0]) };

void ps_usual(struct ps_choice *choice)
{
	*choice = (struct ps_choice){ .count = USUAL };
	for (unsigned i = 0; i < USUAL; i++)
		choice->columns[i] = &columns[i];
}

static const struct ps_column *find(const char *name)
{
	for (unsigned i = 0; i < ALL; i++)
		if (strcmp(columns[i].name, name) == 0)
			return &columns[i];
	return NULL;
}

bool ps_choose(struct ps_choice *choice, const char *list, char name[32])
{
	char *copy = need_copy(list), *rest = copy, *word;
	bool fine = true;

	*choice = (struct ps_choice){ 0 };
	while (fine && (word = strsep(&rest, ","))) {
		const struct ps_column *column = find(word);

		snprintf(name, 32, "%s", word);
		fine = column && choice->count < sizeof(choice->columns) / sizeof(choice->columns[0]);
		if (fine)
			choice->columns[choice->count++] = column;
	}
	free(copy);
	return fine && choice->count;
}

const char *ps_column_names(void)
{
	static char text[256];
	size_t used_bytes = 0;

	for (unsigned i = 0; i < ALL; i++)
		used_bytes += (size_t)snprintf(text + used_bytes, sizeof(text) - used_bytes, "%s%s",
			i ? ", " : "", columns[i].name);
	return text;
}
