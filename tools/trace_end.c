/*
 * trace_end.c - leaks and end of a process as trace events, from its ledger.
 */
#include "trace_end.h"

#include "report_leaks.h"

bool trace_end_is_running(const struct ledger_file *file)
{
	return file->view.how == END_RUNNING && file->header->ended == END_RUNNING;
}

static void tell_end(struct session *session, const struct ledger_file *file)
{
	const struct ledger_view *view = &file->view;
	struct event_process_end event = { .process = file->header->who.process,
		.how = (uint8_t)(view->how == END_RUNNING ? file->header->ended : view->how),
		.status = view->how == END_RUNNING ? file->header->status : view->status,
		.ended_ns = file->header->end_realtime_ns };

	for (size_t i = 0; i < view->record_count; i++) {
		if (!report_record_is_live(view, &view->records[i]))
			continue;
		event.live_bytes += view->records[i].bytes;
		event.live_count++;
	}
	for (unsigned d = 0; d < file->header->device_count && d < SLOT_DEVICES; d++)
		event.denied += file->header->devices[d].denied;
	session_emit(session, EVENT_process_end, &event);
}

static void tell_leaks(struct session *session, const struct ledger_file *file)
{
	unsigned count;
	const struct leak_group *groups = report_leak_groups(&file->view, &count);

	for (unsigned i = 0; i < count; i++) {
		struct event_leak event = { .process = file->header->who.process,
			.verdict = groups[i].verdict, .kind = groups[i].kind,
			.device = groups[i].device, .bytes = groups[i].bytes,
			.count = groups[i].count, .site = groups[i].site };

		session_emit(session, EVENT_leak, &event);
	}
}

void trace_end_tell(struct session *session, const struct ledger_file *file)
{
	if (!trace_end_is_running(file))
		tell_leaks(session, file);
	tell_end(session, file);
}
