/*
 * run_trace.c - the end of a trace: what is known of processes that cannot tell it themselves.
 */
#include "run.h"

#include "report_leaks.h"

static void emit_end(struct run *run, const struct ledger_file *file)
{
	const struct ledger_view *view = &file->view;
	struct event_process_end event = { .process = file->header->who.process,
		.how = (uint8_t)(view->how == END_RUNNING ? file->header->ended : view->how),
		.status = view->how == END_RUNNING ? file->header->status : view->status };

	for (size_t i = 0; i < view->record_count; i++) {
		if (!report_record_is_live(&view->records[i]))
			continue;
		event.live_bytes += view->records[i].bytes;
		event.live_count++;
	}
	for (unsigned d = 0; d < file->header->device_count && d < SLOT_DEVICES; d++)
		event.denied += file->header->devices[d].denied;
	session_emit(&run->session, EVENT_process_end, &event);
}

static void emit_leaks(struct run *run, const struct ledger_file *file)
{
	unsigned count;
	const struct leak_group *groups = report_leak_groups(&file->view, &count);

	for (unsigned i = 0; i < count; i++) {
		struct event_leak event = { .process = file->header->who.process,
			.verdict = groups[i].verdict, .kind = groups[i].kind,
			.device = groups[i].device, .bytes = groups[i].bytes,
			.count = groups[i].count, .site = groups[i].site };

		session_emit(&run->session, EVENT_leak, &event);
	}
}

/* Without its GPUs: of what it did there the trace would show nothing, which is not what happened. */
static void emit_unrecorded(struct run *run, const struct ledger_file *file)
{
	const struct process_identity *who = &file->header->who;
	struct event_process event = {
		.process = who->process, .pid = who->pid, .ppid = who->ppid, .uid = who->uid,
		.pid_ns = who->pid_ns, .image = who->image, .start_ticks = who->start_ticks,
		.start_realtime_ns = who->start_realtime_ns, .command = who->command, .job = who->job,
		.labels = who->labels, .version = CUWARD_VERSION,
	};
	struct event_lost lost = { .process = who->process,
		.why = file->header->trace == TRACE_FAILED ?
			"the process could not register with the session daemon" :
			"the process did not record" };

	session_emit(&run->session, EVENT_process, &event);
	session_emit(&run->session, EVENT_lost, &lost);
}

void run_trace_end(struct run *run, struct ledger_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct ledger_file *file = &list->files[i];

		if (!file->header->uses_cuda)
			continue;
		if (file->header->trace != TRACE_REGISTERED)
			emit_unrecorded(run, file);
		if (file->view.how == END_RUNNING && file->header->ended == END_RUNNING)
			continue;
		emit_leaks(run, file);
		emit_end(run, file);
	}
	session_stop(&run->session, &run->trace);
	for (size_t i = 0; i < list->count; i++)
		list->files[i].view.trace_lost = run->trace.lost;
}
