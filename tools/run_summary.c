/*
 * run_summary.c - what the processes of a run did, on stderr, for people.
 */
#include "run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "limit.h"
#include "report_leaks.h"
#include "text.h"

enum { PROCESSES_SHOWN = 20, LEAK_LINES = 12 };

static bool write_stderr(struct report_out *out, const char *bytes, size_t count)
{
	(void)out;
	while (count > 0) {
		ssize_t written = write(STDERR_FILENO, bytes, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		bytes += written;
		count -= (size_t)written;
	}
	return true;
}

static void put_end(struct report_out *out, const struct ledger_view *view)
{
	unsigned how = view->how == END_RUNNING ? view->header->ended : view->how;
	int status = view->how == END_RUNNING ? view->header->status : view->status;

	if (how == END_RUNNING) {
		text_put(out, " is still running");
	} else if (how == END_EXIT) {
		text_put(out, " exited with status ");
		text_number(out, (uint64_t)(status & 0xff));
	} else if (how == END_SIGNAL) {
		text_put(out, " was killed by signal ");
		text_number(out, (uint64_t)(status & 0x7f));
	} else if (how == END_EXEC) {
		text_put(out, " executed another program");
	} else {
		text_put(out, " ended, it is not known how");
	}
}

static void put_held(struct report_out *out, const struct ledger_view *view)
{
	uint64_t bytes = 0, count = 0;

	for (size_t i = 0; i < view->record_count; i++)
		if (report_record_is_live(view, &view->records[i])) {
			bytes += view->records[i].bytes;
			count++;
		}
	if (count == 0)
		return;
	text_put(out, ", holding ");
	text_size(out, bytes);
	text_put(out, " in ");
	text_count(out, count, "allocation");
}

/* "; GPU 0: peak 48 MiB of 64 MiB, 3 refusals (96 MiB)" */
static void put_device(struct report_out *out, unsigned index, const struct ledger_device *device)
{
	uint64_t limit = device->limit_bytes < device->job_limit_bytes ? device->limit_bytes :
		device->job_limit_bytes;

	if (device->inner_limit_bytes < limit)
		limit = device->inner_limit_bytes;
	if (device->user_limit_bytes < limit)
		limit = device->user_limit_bytes;
	if (device->peak_bytes == 0 && device->denied == 0)
		return;
	text_put(out, "; GPU ");
	text_number(out, index);
	text_put(out, ": peak ");
	text_size(out, device->peak_bytes);
	if (limit != BYTES_NONE) {
		text_put(out, " of ");
		text_size(out, limit);
	}
	if (device->denied > 0) {
		text_put(out, ", ");
		text_count(out, device->denied, "refusal");
		text_put(out, " (");
		text_size(out, device->denied_bytes);
		text_put(out, ")");
	}
}

static void put_process(struct report_out *out, const struct ledger_view *view)
{
	const struct ledger_header *header = view->header;

	text_put(out, "cuward: ");
	text_clean(out, header->who.command, sizeof(header->who.command));
	text_put(out, " (pid ");
	text_number(out, header->who.pid);
	text_put(out, ")");
	put_end(out, view);
	if (!report_ended_orderly(view))
		put_held(out, view);
	for (unsigned d = 0; d < header->device_count && d < SLOT_DEVICES; d++)
		put_device(out, d, &header->devices[d]);
	text_char(out, '\n');
	report_leaks_text(out, view, LEAK_LINES);
	if (header->leak_mode == LEAK_MARKS && header->mark_count < 2) {
		text_put(out, "cuward: pid ");
		text_number(out, header->who.pid);
		text_put(out, ": --leak marks compares two marks at least, and ");
		text_put(out, header->mark_count ? "there was one" : "there was none");
		text_put(out, ": cuward_mark() or `cuward mark` sets them\n");
	}
}

/* Why nobody could use CUDA, if a guest said so. */
static const char *find_refusal(const struct ledger_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->files[i].header->refusal[0])
			return list->files[i].header->refusal;
	return NULL;
}

static void put_nobody(struct report_out *out, const struct ledger_list *list)
{
	const char *refusal = find_refusal(list);

	text_put(out, refusal ? "cuward: CUDA was refused: " : "cuward: no process used CUDA");
	if (refusal)
		text_clean(out, refusal, sizeof(list->files[0].header->refusal));
	text_char(out, '\n');
}

/* A limit that hit nobody is perhaps a mistake. */
static void put_unused(struct report_out *out, const struct run *run,
	const struct ledger_header *header)
{
	struct limit_device devices[SLOT_DEVICES] = { 0 };
	unsigned count = header->device_count < SLOT_DEVICES ? header->device_count : SLOT_DEVICES;
	struct limit limit;
	char text[256];

	if (!limit_parse(&limit, run->values[SETTING_memory].text, text, sizeof(text)))
		return;
	for (unsigned d = 0; d < count; d++)
		memcpy(devices[d].uuid, header->devices[d].uuid, sizeof(devices[d].uuid));
	if (limit_unused(&limit, devices, count, text, sizeof(text)) == 0)
		return;
	text_put(out, "cuward: a limit had no effect, its GPU is not visible: ");
	text_put(out, text);
	text_char(out, '\n');
}

static void put_unused_suppressions(struct report_out *out, const struct run *run)
{
	for (unsigned i = 0; run->suppressions && i < run->suppressions->count; i++) {
		if (run->suppression_used[i])
			continue;
		text_put(out, "cuward: a suppression matched nothing: ");
		text_clean(out, run->suppressions->rules[i].text, SIZE_MAX);
		text_char(out, '\n');
	}
}

static void put_unreadable(struct report_out *out, const struct ledger_list *list)
{
	text_put(out, "cuward: ");
	text_count(out, list->unreadable, "ledger");
	text_put(out, " could not be read: ");
	text_clean(out, list->why, sizeof(list->why));
	text_char(out, '\n');
}

static void put_lost(struct report_out *out, const struct run *run, const struct ledger_list *list)
{
	text_put(out, "cuward: ");
	text_number(out, list->lost);
	text_put(out, list->lost == 1 ? " process" : " processes");
	text_put(out, " could not be recorded, for there was no room in ");
	text_clean(out, run->dir, SIZE_MAX);
	text_put(out, ": what was done there is not known\n");
}

/* Its calls were not recorded; the report has all of them. */
static void put_unrecorded(struct report_out *out, const struct run_sums *sums)
{
	text_put(out, "cuward: trace: ");
	text_number(out, sums->unrecorded);
	text_put(out, " of ");
	text_number(out, sums->processes);
	text_put(out, " processes that used CUDA could not be recorded\n");
}

static void put_snapshots(struct report_out *out, const struct run *run)
{
	for (unsigned i = 0; i < run->snapshot_count; i++) {
		text_put(out, "cuward: recorded ");
		text_put(out, run->snapshots[i]);
		text_char(out, '\n');
	}
	if (!run->trace.unwritten)
		return;
	text_put(out, "cuward: ");
	text_count(out, run->trace.unwritten, "later refusal");
	text_put(out, " had no snapshot\n");
}

static void put_trace(struct report_out *out, const struct run *run, const struct run_sums *sums)
{
	if (run->record)
		put_snapshots(out, run);
	text_put(out, "cuward: trace in ");
	text_put(out, run->trace_dir);
	if (run->trace.lost > 0) {
		text_put(out, ", ");
		text_count(out, run->trace.lost, "event");
		text_put(out, " lost");
	}
	text_char(out, '\n');
	if (sums->unrecorded)
		put_unrecorded(out, sums);
	if (!run->trace.warning[0])
		return;
	text_put(out, "cuward: trace: ");
	text_clean(out, run->trace.warning, sizeof(run->trace.warning));
	text_char(out, '\n');
}

void run_summary(const struct run *run, const struct ledger_list *list)
{
	struct report_out out = { .flush = write_stderr };
	const struct ledger_file *first = NULL;
	struct run_sums sums = run_sum_up(list);
	uint64_t shown = 0, users = sums.processes;

	if (run->quiet)
		return;
	for (size_t i = 0; i < list->count && shown < PROCESSES_SHOWN; i++)
		if (list->files[i].header->uses_cuda) {
			first = first ? first : &list->files[i];
			put_process(&out, &list->files[i].view);
			shown++;
		}
	if (users > shown) {
		text_put(&out, "cuward: processes not shown: ");
		text_number(&out, users - shown);
		text_char(&out, '\n');
	}
	if (users == 0 && run->dir[0] && !sums.unknown)
		put_nobody(&out, list);
	if (first)
		put_unused(&out, run, first->header);
	if (users > 0)
		put_unused_suppressions(&out, run);
	if (list->lost > 0)
		put_lost(&out, run, list);
	if (list->unreadable > 0)
		put_unreadable(&out, list);
	if (run->tracing)
		put_trace(&out, run, &sums);
	report_finish(&out);
}
