/*
 * run_report.c - what the processes of a run left behind: JSON report, --fail-on.
 */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "json.h"
#include "proc_state.h"
#include "report_leaks.h"
#include "symbols.h"
#include "text.h"

enum { DYING_MS = 500 };

/* ---- how each of them ended ---- */

static bool has_later_image(const struct ledger_list *list, const struct ledger_file *file)
{
	for (size_t i = 0; i < list->count; i++)
		if (ledger_is_later_image(file, &list->files[i]))
			return true;
	return false;
}

/*
 * The command exited, and this image of it saw no end: it left without a word to its C library, or it
 * executed a program without CUDA, which exited under its own name. One that is killed sees no end
 * either, and may have changed its name.
 */
static bool was_replaced(const struct run *run, const struct ledger_header *header)
{
	return header->ended == END_RUNNING && !run->signal && run->comm[0] && header->comm[0] &&
		strncmp(run->comm, header->comm, sizeof(header->comm)) != 0;
}

/* The end of one that is dead: from waitpid if it was the command, else as far as it is known. */
static void set_end(const struct run *run, const struct ledger_list *list,
	struct ledger_file *file, uint32_t pid_ns)
{
	const struct process_identity *who = &file->header->who;
	bool is_child = who->pid == (uint32_t)run->child && who->pid_ns == pid_ns;

	file->view.how = END_RUNNING; /* the ledger's word */
	if (has_later_image(list, file)) {
		if (file->header->ended == END_RUNNING)
			file->view.how = END_EXEC;
	} else if (is_child && was_replaced(run, file->header)) {
		file->view.how = END_EXEC;
	} else if (is_child) {
		file->view.how = run->signal ? END_SIGNAL : END_EXIT;
		file->view.status = run->status;
	} else if (file->header->ended == END_RUNNING) {
		file->view.how = END_UNKNOWN;
	}
}

/* Its memory may take a while to go after it was killed: that is no process that runs on. */
static enum ledger_owner owner_at_last(const struct run *run, const struct ledger_file *file,
	uint32_t pid_ns)
{
	const struct process_identity *who = &file->header->who;
	enum ledger_owner owner = ledger_owner(file, run->dir);

	for (int i = 0; i < DYING_MS && owner == OWNER_ALIVE && who->pid_ns == pid_ns &&
		proc_is_dying((pid_t)who->pid); i++) {
		usleep(1000);
		owner = ledger_owner(file, run->dir);
	}
	return owner;
}

static void set_ends(const struct run *run, struct ledger_list *list)
{
	const struct report_symbols *symbols = symbols_open();
	uint32_t pid_ns = ledger_own_pid_ns();

	for (size_t i = 0; i < list->count; i++) {
		struct ledger_file *file = &list->files[i];
		enum ledger_owner owner = owner_at_last(run, file, pid_ns);

		if (owner != OWNER_ALIVE)
			set_end(run, list, file, pid_ns);
		file->view.outer_pid = (uint32_t)run_pids_of(&file->header->who);
		file->view.leaks_off = strcmp(run->values[SETTING_leak].text, "off") == 0;
		file->view.symbols = symbols;
		file->view.suppressions = run->suppressions;
		file->view.trace_dir = run->tracing ? run->trace_dir : NULL;
	}
}

struct run_sums run_sum_up(const struct ledger_list *list)
{
	struct run_sums sums = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		const struct ledger_header *header = list->files[i].header;
		struct report_leaks leaks = report_leak_sum(&list->files[i].view);

		if (!header->uses_cuda)
			continue;
		sums.processes++;
		sums.unrecorded += header->trace != TRACE_REGISTERED;
		sums.leaked_bytes += leaks.bytes;
		sums.leaked += leaks.count;
		for (unsigned d = 0; d < header->device_count && d < SLOT_DEVICES; d++)
			sums.denied += header->devices[d].denied;
	}
	sums.unknown = list->lost + list->unreadable;
	return sums;
}

/* Which suppressions were of use; one that is of none may be a mistake. */
static void find_used(struct run *run, const struct ledger_list *list)
{
	unsigned count;

	for (size_t i = 0; run->suppressions && i < list->count; i++) {
		const struct leak_group *groups = report_leak_groups(&list->files[i].view, &count);

		for (unsigned k = 0; k < count; k++)
			for (unsigned r = 0; r < run->suppressions->count; r++)
				if (groups[k].suppressed_by == run->suppressions->rules[r].text)
					run->suppression_used[r] = true;
	}
}

/* ---- --fail-on ---- */

/* Whom we ended did not fail by himself; a shell that ran him passes his status on. */
static bool ended_by_watch(const struct run *run)
{
	return run->watch.terminated && (run->status == 128 + SIGTERM || run->status == 128 + SIGKILL);
}

static bool watch_failed(const struct run *run, enum run_watch_for what)
{
	return run->watch.orders[what].fail && run->watch.failed[what];
}

/* What --fail-on found, 0 if it found nothing or need not look; its name in *word. */
static int failed_on(const struct run *run, const struct run_sums *sums, const char **word)
{
	enum run_watch_for what = watch_failed(run, WATCH_STALL) ? WATCH_STALL : WATCH_IDLE;

	*word = NULL;
	if (run->status != 0 && !ended_by_watch(run))
		return 0;
	if (run->status == 0 && sums->leaked > 0 && sums->leaked_bytes >= run->fail_leak_bytes) {
		*word = "leak";
		return EXIT_LEAK;
	}
	if (run->status == 0 && run->fail_denied && sums->denied > 0) {
		*word = "denied";
		return EXIT_DENIED;
	}
	if (!watch_failed(run, what))
		return 0;
	*word = run_watch_word(what);
	return EXIT_STALLED;
}

static bool asks_to_fail(const struct run *run)
{
	return run->fail_leak_bytes != BYTES_NONE || run->fail_denied ||
		run->watch.orders[WATCH_STALL].fail || run->watch.orders[WATCH_IDLE].fail;
}

static int exit_status(const struct run *run, const struct run_sums *sums)
{
	const char *word;
	int failed = failed_on(run, sums, &word);

	/* Nobody knows whether it is fine. */
	if (!failed && run->status == 0 && sums->unknown && asks_to_fail(run))
		return EXIT_CUWARD;
	if (!failed)
		return run->status;
	return run->error_exitcode ? run->error_exitcode : failed;
}

/* ---- JSON ---- */

static void put_settings(struct json *json, const struct run *run)
{
	json_open(json, "settings", '[');
	for (enum run_setting i = 0; i < SETTING_COUNT; i++) {
		if (!run->values[i].text)
			continue;
		json_open_flat(json, NULL, '{');
		json_string(json, "name", run_setting_variable(i));
		json_string(json, "value", run->values[i].text);
		json_string(json, "source", run->values[i].source);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_suppressions(struct json *json, const struct run *run)
{
	json_open(json, "suppressions", '[');
	for (unsigned i = 0; run->suppressions && i < run->suppressions->count; i++) {
		json_open_flat(json, NULL, '{');
		json_string(json, "rule", run->suppressions->rules[i].text);
		json_bool(json, "used", run->suppression_used[i]);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_snapshots(struct json *json, const struct run *run)
{
	json_open_flat(json, "snapshots", '[');
	for (unsigned i = 0; i < run->snapshot_count; i++)
		json_string(json, NULL, run->snapshots[i]);
	json_close(json, ']');
	json_number(json, "refusals_without", run->trace.unwritten);
}

static void put_trace(struct json *json, const struct run *run, const struct run_sums *sums)
{
	json_open_flat(json, "trace", '{');
	if (run->tracing) {
		json_string(json, "dir", run->trace_dir);
		json_bytes(json, "lost", run->trace.complete ? run->trace.lost : BYTES_NONE);
		json_number(json, "unrecorded_processes", sums->unrecorded);
		json_bytes(json, "bytes",
			session_is_remote(run->trace_dir) ? BYTES_NONE : run->trace.bytes);
		json_bool(json, "complete", run->trace.complete);
		if (run->record)
			put_snapshots(json, run);
	} else {
		json_null(json, "dir");
	}
	json_close(json, '}');
}

/* What --stall and --idle found. */
static void put_watch(struct json *json, const struct run *run)
{
	const struct run_watch *watch = &run->watch;

	json_open(json, "watch", '[');
	for (unsigned i = 0; i < WATCH_FOUND_MAX && i < watch->count; i++) {
		const struct run_watch_found *found = &watch->found[i];

		json_open_flat(json, NULL, '{');
		json_string(json, "what", run_watch_word(found->what));
		json_number(json, "pid", found->who.pid);
		json_bytes(json, "outer_pid", found->pid ? (uint64_t)found->pid : BYTES_NONE);
		json_string(json, "command", found->who.command);
		json_time(json, "since", found->since_ns);
		json_number(json, "for_ns", found->for_ns);
		json_number(json, "held_bytes", found->held_bytes);
		json_string(json, "call", call_name(found->call));
		if (found->kernel[0])
			json_string(json, "kernel", found->kernel);
		else
			json_null(json, "kernel");
		json_bool(json, "terminated", found->terminated);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_number(json, "watch_count", watch->count);
}

static void put_run(struct json *json, const struct run *run, const struct run_sums *sums)
{
	const char *failed;

	failed_on(run, sums, &failed);
	json_open(json, "run", '{');
	json_string(json, "version", CUWARD_VERSION);
	json_number(json, "pid", (uint64_t)getpid());
	json_time(json, "start_time", run->start_ns);
	json_time(json, "end_time", run->end_ns);
	json_bytes(json, "waited_ns", run->wait ? run->waited_ns : BYTES_NONE);
	json_string(json, "program", run->program);
	json_open_flat(json, "argv", '[');
	for (char **word = run->argv; *word; word++)
		json_string(json, NULL, *word);
	json_close(json, ']');
	json_string(json, "job", run->job);
	json_signed(json, "command_status", run->status);
	json_bytes(json, "command_signal", run->signal ? (uint64_t)run->signal : BYTES_NONE);
	json_signed(json, "exit_status", exit_status(run, sums));
	if (failed)
		json_string(json, "failed_on", failed);
	else
		json_null(json, "failed_on");
	json_number(json, "leaked_bytes", sums->leaked_bytes);
	json_number(json, "leaked", sums->leaked);
	json_number(json, "denied", sums->denied);
	json_number(json, "unknown_processes", sums->unknown);
	put_settings(json, run);
	put_suppressions(json, run);
	put_watch(json, run);
	put_trace(json, run, sums);
	json_close(json, '}');
}

static void put_document(struct report_out *out, const struct run *run,
	const struct ledger_list *list, const struct run_sums *sums)
{
	struct json json = { .out = out };

	json_open(&json, NULL, '{');
	json_number(&json, "schema", 1);
	put_run(&json, run, sums);
	json_open(&json, "processes", '[');
	for (size_t i = 0; i < list->count; i++)
		if (list->files[i].header->uses_cuda) {
			json_begin(&json, NULL);
			report_process_json(out, &list->files[i].view, json.level);
		}
	json_close(&json, ']');
	json_close(&json, '}');
	text_char(out, '\n');
}

static bool write_document(const struct run *run, const char *name,
	const struct ledger_list *list, const struct run_sums *sums)
{
	static struct report_file file;
	int error = report_file_open(&file, name);

	if (!error) {
		put_document(&file.out, run, list, sums);
		error = report_file_close(&file, (uint32_t)getpid());
	}
	if (error)
		run_fail("cannot write the report %s: %s", name, strerror(-error));
	else if (run->values[SETTING_report].text)
		run_say(run, "report in %s", file.name);
	return error == 0;
}

static bool write_documents(const struct run *run, const struct ledger_list *list,
	const struct run_sums *sums)
{
	struct report_writer writer = { .pid = (uint32_t)getpid(), .uid = getuid(),
		.start_ns = run->start_ns };
	const char *pattern = run->values[SETTING_report].text;
	char name[PATH_MAX], beside[PATH_MAX + 16];
	bool fine = true;

	if (pattern && report_file_name(name, pattern, &writer) == 0)
		fine = write_document(run, name, list, sums);
	if (!run->tracing || session_is_remote(run->trace_dir))
		return fine;
	/* The analyser believes this more than it believes the trace. */
	snprintf(beside, sizeof(beside), "%s/report.json", run->trace_dir);
	return write_document(run, beside, list, sums) && fine;
}

static void end_tracing(struct run *run, struct ledger_list *list)
{
	if (run->record)
		run_record_ask(run, list);
	run_trace_end(run, list);
	if (run->record)
		run_record_end(run, list);
}

/* The command succeeded, says the summary; who asked in the environment alone may wonder. */
static void say_failed(const struct run *run, const struct run_sums *sums, int status)
{
	const char *word;

	if (!run->quiet && failed_on(run, sums, &word))
		fprintf(stderr, "cuward: exit status %d, as --fail-on %s has it\n", status, word);
}

int run_report(struct run *run)
{
	struct ledger_list list = { 0 };
	struct run_sums sums;
	bool written;
	int status;

	if (run->dir[0])
		ledger_list_open(&list, run->dir, run->job);
	set_ends(run, &list);
	if (run->tracing)
		end_tracing(run, &list);
	else
		run_trace_join(run, &list);
	sums = run_sum_up(&list);
	find_used(run, &list);
	run_summary(run, &list);
	run_history(run, &list);
	written = write_documents(run, &list, &sums);
	status = exit_status(run, &sums);
	if (written)
		say_failed(run, &sums, status);
	ledger_list_close(&list);
	symbols_close();
	return written || run->status != 0 ? status : EXIT_CUWARD;
}
