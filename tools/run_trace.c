/*
 * run_trace.c - the end of a trace: what is known of processes that cannot tell it themselves.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box_trace.h"
#include "trace_end.h"

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
		if (!trace_end_is_running(file))
			trace_end_tell(&run->session, file);
	}
	session_stop(&run->session, &run->trace);
	for (size_t i = 0; i < list->count; i++)
		list->files[i].view.trace_lost = run->trace.lost;
}

/* Only of those that are in it: whoever is traced into a session of its own is none. */
void run_trace_join(const struct run *run, const struct ledger_list *list)
{
	const char *own = getenv("CUWARD_TRACE");
	int file = run->dir[0] && !(own && strcmp(own, "1") == 0) ? box_trace_open_any(run->dir) : -1;
	struct box_trace trace;
	struct session session;
	bool on = file >= 0 && box_trace_read(file, &trace) && trace.keeper;
	bool any = false;

	if (file >= 0)
		close(file);
	for (size_t i = 0; i < list->count; i++)
		any |= list->files[i].header->trace == TRACE_REGISTERED;
	if (!on || !any || !session_join(&session, trace.home, run->libraries, geteuid()))
		return;
	for (size_t i = 0; i < list->count; i++)
		if (list->files[i].header->trace == TRACE_REGISTERED &&
			!trace_end_is_running(&list->files[i]))
			trace_end_tell(&session, &list->files[i]);
	session_part(&session);
}
