/*
 * run_history.c - --history: a line for each process of the run that used CUDA and has ended.
 *
 * What a report would say of it is parsed again, so that there is one place that knows how to say it.
 */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"

struct text {
	char *bytes;
	size_t count;
};

static bool collect(struct report_out *out, const char *bytes, size_t count)
{
	struct text *text = out->user;
	char *more = realloc(text->bytes, text->count + count + 1);

	if (!more)
		return false;
	text->bytes = more;
	memcpy(text->bytes + text->count, bytes, count);
	text->count += count;
	text->bytes[text->count] = '\0';
	return true;
}

/* What was asked for at a refusal is among the parts that are left out: its device keeps it. */
static void keep_wanted(json_t *process)
{
	json_t *denial;
	size_t i;

	json_array_foreach (json_object_get(process, "denials"), i, denial) {
		json_t *device = json_array_get(json_object_get(process, "devices"),
			(size_t)json_integer_value(json_object_get(denial, "device")));
		json_int_t wanted = json_integer_value(json_object_get(denial, "used_bytes")) +
			json_integer_value(json_object_get(denial, "bytes"));

		if (device && wanted > json_integer_value(json_object_get(device, "wanted_bytes")))
			json_object_set_new(device, "wanted_bytes", json_integer(wanted));
	}
}

static json_t *process_of(const struct ledger_file *file)
{
	struct report_out *out = calloc(1, sizeof(*out));
	struct text text = { NULL, 0 };
	json_t *process = NULL;

	if (!out)
		return NULL;
	out->flush = collect;
	out->user = &text;
	report_process_json(out, &file->view, 0);
	if (report_finish(out))
		process = json_loadb(text.bytes, text.count, 0, NULL);
	free(text.bytes);
	free(out);
	if (!process)
		return NULL;
	json_object_set_new(process, "leaked_bytes",
		json_integer((json_int_t)report_leak_sum(&file->view).bytes));
	keep_wanted(process);
	return process;
}

static bool is_running(const struct ledger_file *file)
{
	return file->view.how == END_RUNNING && file->header->ended == END_RUNNING;
}

void run_history(const struct run *run, const struct ledger_list *list)
{
	char path[PATH_MAX];
	int error = 0;

	if (!history_file(path, run->history))
		return;
	for (size_t i = 0; i < list->count && !error; i++) {
		json_t *process = list->files[i].header->uses_cuda && !is_running(&list->files[i]) ?
			process_of(&list->files[i]) : NULL;

		error = process ? history_append(path, process) : 0;
		json_decref(process);
	}
	if (error)
		run_say(run, "the history %s cannot be written: %s", path, strerror(-error));
}
