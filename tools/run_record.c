/*
 * run_record.c - the flight recorder of a run: what it waits for, and what it wrote.
 */
#include "run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "need.h"

static const struct {
	const char *word;
	enum run_record what;
} words[] = {
	{ "on-denied", RECORD_DENIED }, { "on-leak", RECORD_LEAK }, { "on-signal", RECORD_SIGNAL },
};

bool run_record_parse(struct run *run, const char *text)
{
	run->record = 0;
	while (*text) {
		size_t length = strcspn(text, ",");
		unsigned before = run->record;

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strlen(words[i].word) == length && strncmp(text, words[i].word, length) == 0)
				run->record |= words[i].what;
		if (run->record == before)
			return false;
		text += length;
		if (*text == ',' && !*++text)
			return false;
	}
	return run->record;
}

bool run_record_start(struct run *run, char *why, size_t why_bytes)
{
	static struct session_recorder recorder;

	recorder.on_denied = run->record & RECORD_DENIED;
	recorder.on_signal = run->record & RECORD_SIGNAL;
	snprintf(recorder.job, sizeof(recorder.job), "%s", run->job);
	if (snprintf(recorder.slots, sizeof(recorder.slots), "%s/slots.%u", run->dir, getuid()) >=
			(int)sizeof(recorder.slots) ||
		snprintf(recorder.asked, sizeof(recorder.asked), "%s/" RECORD_FILE, run->job_dir) >=
			(int)sizeof(recorder.asked)) {
		snprintf(why, why_bytes, "the path of the shared state is too long");
		return false;
	}
	return session_start_recorder(&run->session, run->trace_dir, run->libraries, &recorder, why,
		why_bytes);
}

/* Neither orderly nor by another program: a signal, of which only the command's is known. */
static bool any_killed(const struct run *run, const struct ledger_list *list)
{
	bool any = run->signal != 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct ledger_file *file = &list->files[i];
		unsigned how = file->view.how == END_RUNNING ? file->header->ended : file->view.how;

		any |= file->header->uses_cuda && (how == END_SIGNAL || how == END_UNKNOWN);
	}
	return any;
}

void run_record_ask(struct run *run, const struct ledger_list *list)
{
	if ((run->record & RECORD_LEAK) && run_sum_up(list).leaked > 0)
		session_snapshot(&run->session, "leak");
	if ((run->record & RECORD_SIGNAL) && any_killed(run, list))
		session_snapshot(&run->session, "signal");
}

/* By time, which is in their names. */
static int by_name(const void *a, const void *b)
{
	const char *left = strrchr(*(char *const *)a, '-'), *right = strrchr(*(char *const *)b, '-');
	int order = atoi(left ? left + 1 : "") - atoi(right ? right + 1 : "");

	return order ? order : strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_snapshots(struct run *run)
{
	DIR *folder = opendir(run->trace_dir);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		char path[PATH_MAX + 300];

		if (strncmp(entry->d_name, SNAPSHOT_PREFIX, strlen(SNAPSHOT_PREFIX)) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", run->trace_dir, entry->d_name);
		run->snapshots = need(reallocarray(run->snapshots, run->snapshot_count + 1, sizeof(char *)));
		run->snapshots[run->snapshot_count++] = need_copy(path);
	}
	if (folder)
		closedir(folder);
	if (run->snapshot_count)
		qsort(run->snapshots, run->snapshot_count, sizeof(char *), by_name);
}

/* Nothing happened, nothing was written: as if there had been no recorder. */
void run_record_end(struct run *run, struct ledger_list *list)
{
	find_snapshots(run);
	if (run->snapshot_count)
		return;
	run->tracing = false;
	for (size_t i = 0; i < list->count; i++)
		list->files[i].view.trace_dir = NULL;
	if (run->trace.warning[0])
		run_say(run, "no snapshot was written: %s", run->trace.warning);
}
