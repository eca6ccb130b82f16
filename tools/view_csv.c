/*
 * view_csv.c - the table of processes as CSV (RFC 4180); an unknown value is an empty field.
 */
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>

#include "format.h"

static void put_text(FILE *out, const char *text)
{
	char *safe = safe_text(text, 0);

	fputc('"', out);
	for (const char *c = safe; *c; c++) {
		if (*c == '"')
			fputc('"', out);
		fputc(*c, out);
	}
	fputs("\",", out);
	free(safe);
}

static void put_number(FILE *out, bool known, uint64_t value)
{
	if (known)
		fprintf(out, "%" PRIu64, value);
	fputc(',', out);
}

static void put_row(FILE *out, const struct model *model, const struct model_process *process)
{
	static const char *const ends[] = {
#define X(id, word) word,
		CUWARD_ENDS(X)
#undef X
	};
	struct model_memory memory = model_memory(process);
	const struct model_leaks *leaks = &process->leaks[VERDICT_LEAK];

	put_text(out, process->host);
	put_number(out, process->defined, process->pid);
	put_number(out, process->defined, process->pid_ns);
	put_number(out, process->defined, process->image);
	put_number(out, process->defined, process->uid);
	put_text(out, process->command);
	put_number(out, true, process->first_ns - model->first_ns);
	put_number(out, true, process->last_ns - model->first_ns);
	fprintf(out, "%s,", process->ended ? ends[process->how] : "");
	put_number(out, process->ended, (uint64_t)(process->status < 0 ? 0 : process->status));
	put_number(out, true, process->api.busy_ns);
	put_number(out, model->gpu_timing, process->gpu.busy_ns);
	put_number(out, true, process->api_ns);
	put_number(out, true, process->sync_ns);
	put_number(out, true, process->work.launches);
	for (unsigned i = 0; i < DIRECTION_COUNT; i++)
		put_number(out, true, process->work.copies[i].bytes);
	put_number(out, true, memory.peak_bytes);
	put_number(out, memory.limit_bytes && memory.limit_bytes != UINT64_MAX, memory.limit_bytes);
	put_number(out, true, memory.denied);
	put_number(out, process->leaks_known, leaks->count);
	put_number(out, process->leaks_known, leaks->bytes);
	fprintf(out, "%" PRIu64 "\r\n", process->errors);
}

void view_csv(FILE *out, const struct model *model)
{
	fputs("host,pid,pid_ns,image,uid,command,start_ns,last_ns,ended,status,api_busy_ns,gpu_busy_ns,"
		"api_ns,sync_ns,launches,", out);
#define X(id, word) fputs(word "_bytes,", out);
	CUWARD_DIRECTIONS(X)
#undef X
	fputs("peak_bytes,limit_bytes,denied,leaks,leaked_bytes,errors\r\n", out);
	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden)
			put_row(out, model, model->processes[i]);
}
