/*
 * cmd_trace.c - `cuward trace`: one trace of all that a user's CUDA processes do on this machine,
 * running ones included.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "box_trace.h"
#include "cuward.h"
#include "format.h"
#include "libraries.h"
#include "report_file.h"
#include "session.h"
#include "state.h"
#include "trace_end.h"
#include "trace_show.h"
#include "trace_snapshot.h"

/* So long `start` waits for processes to answer, and `stop` for the end. */
enum { ANSWER_MS = 1000, END_MS = 25000 };

struct order {
	const char *verb;
	const char *about; /* snapshot: a pid or a job */
	const char *output;
	bool json;
	char folder[PATH_MAX]; /* of shared state */
};

static int fail(int status, const char *what, const char *why)
{
	fputs("cuward: trace ", stderr);
	put_safe(stderr, what, 0);
	fprintf(stderr, ": %s\n", why);
	return status;
}

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void nap(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)ms * 1000000 }, NULL);
}

/* ---- in the keeper, which outlives this command ---- */

enum { USERS_HELD = 64 };

struct kept {
	struct box_trace trace;
	const char *folder; /* of shared state */
	char libraries[PATH_MAX];
	int file;
	int common; /* root's for all users, -1 */
	struct session held[USERS_HELD];
	unsigned held_count;
};

static bool kept_begin(void *user, char *why, size_t why_bytes)
{
	struct kept *kept = user;

	kept->file = box_trace_keep(kept->folder, why, why_bytes);
	kept->common = -1;
	if (kept->file >= 0 && geteuid() == 0)
		kept->common = box_trace_keep_common(why, why_bytes);
	if (kept->file < 0 || kept->common >= 0 || strcmp(why, box_trace_is_on) != 0)
		return kept->file >= 0;
	box_trace_remove(kept->folder);
	return false;
}

static void forget(const struct kept *kept)
{
	box_trace_remove(kept->folder);
	if (kept->common >= 0)
		box_trace_remove_common();
}

static void kept_failed(void *user)
{
	forget(user);
}

static void kept_ready(void *user)
{
	struct kept *kept = user;

	box_trace_write(kept->file, &kept->trace);
	if (kept->common >= 0)
		box_trace_write(kept->common, &kept->trace);
	box_trace_ask(&kept->trace, true);
}

static bool is_in_it(const struct box_trace *trace, const struct box *box,
	const struct ledger_file *file)
{
	const struct process_identity *who = &file->header->who;
	const char *why;

	for (size_t i = 0; i < box->count; i++) {
		const struct box_process *process = &box->processes[i];

		if (process->who->process == who->process && process->who->pid == who->pid &&
			process->who->start_ticks == who->start_ticks &&
			box_trace_reach(trace, process, &why) == REACH_RECORDED)
			return true;
	}
	return false;
}

/* Whoever is still in it was running at its end. */
static void tell_running_of(const struct kept *kept, const struct box *box,
	const struct slots_file *file)
{
	struct ledger_list list = { 0 };
	struct session session;
	bool joined = false;

	ledger_list_open(&list, file->folder, "");
	for (size_t i = 0; i < list.count; i++) {
		if (!is_in_it(&kept->trace, box, &list.files[i]) || !trace_end_is_running(&list.files[i]))
			continue;
		if (!joined && !session_join(&session, kept->trace.home, kept->libraries, file->uid))
			break;
		joined = true;
		trace_end_tell(&session, &list.files[i]);
	}
	if (joined)
		session_part(&session);
	ledger_list_close(&list);
}

static void tell_running(const struct kept *kept)
{
	struct box box;

	box_open(&box, false);
	for (size_t i = 0; i < box.slots.count; i++) {
		const struct slots_file *file = &box.slots.files[i];
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again |= strcmp(box.slots.files[k].folder, file->folder) == 0;
		if (!again && box_trace_may_ask(file))
			tell_running_of(kept, &box, file);
	}
	box_close(&box);
}

/*
 * LTTng writes what explains a user's events when his first process ends, some time later, or when the
 * session stops and a process of his is there. So one is, also if his have all ended just now.
 */
static void hold_users(struct kept *kept)
{
	struct slots_list list;
	char path[PATH_MAX + 32];

	slots_list_open(&list);
	for (size_t i = 0; i < list.count && kept->held_count < USERS_HELD; i++) {
		const struct slots_file *file = &list.files[i];
		struct session *session = &kept->held[kept->held_count];

		snprintf(path, sizeof(path), "%s/ust/uid/%u", kept->trace.dir, file->uid);
		if (file->own || !box_trace_may_ask(file) ||
			(!session_is_remote(kept->trace.dir) && access(path, F_OK) != 0) ||
			!session_join(session, kept->trace.home, kept->libraries, file->uid))
			continue;
		kept->held_count++;
		session_is_joined(session);
	}
	slots_list_close(&list);
}

static void kept_ending(void *user)
{
	struct kept *kept = user;

	tell_running(kept);
	hold_users(kept);
	forget(kept);
	box_trace_ask(&kept->trace, false);
}

/* For the one who asked for the end, and still has the file open. */
static void kept_ended(void *user, const struct session_result *result)
{
	struct kept *kept = user;

	kept->trace.ended = true;
	kept->trace.complete = result->complete;
	kept->trace.lost = result->lost;
	kept->trace.bytes = result->bytes;
	snprintf(kept->trace.warning, sizeof(kept->trace.warning), "%s", result->warning);
	box_trace_write(kept->file, &kept->trace);
	for (unsigned i = 0; i < kept->held_count; i++)
		session_part(&kept->held[i]);
}

/* ---- start ---- */

static int make_folder(const char *folder)
{
	struct stat info;

	if (mkdir(folder, 0700) == 0)
		chmod(folder, 0700);
	else if (errno != EEXIST)
		return fail(EXIT_UNAVAILABLE, folder, strerror(errno));
	if (stat(folder, &info) != 0)
		return fail(EXIT_UNAVAILABLE, folder, strerror(errno));
	if (info.st_uid != geteuid() || (info.st_mode & 022))
		return fail(EXIT_NO_PERMISSION, folder, "it must be ours, and writable by nobody else");
	return 0;
}

static int name_output(char dir[PATH_MAX], const char *asked)
{
	struct report_writer writer = { .pid = (uint32_t)getpid(), .start_ns = realtime_ns() };
	char name[PATH_MAX], here[PATH_MAX] = "";

	if (asked && !*asked)
		return fail(EXIT_USAGE, "start", "-o '': no such name for a folder");
	if (asked && !session_place(asked, dir, PATH_MAX))
		return fail(EXIT_USAGE, "-o", "neither a folder nor net://HOST");
	if (asked && session_is_remote(dir))
		return strchr(dir, '\n') ? fail(EXIT_USAGE, "-o", "no such place") : 0;
	if (asked)
		snprintf(name, sizeof(name), "%s", asked);
	else if (report_file_name(name, "cuward-trace-%t-%p", &writer) != 0)
		return fail(EXIT_UNAVAILABLE, "start", "cannot name the trace");
	if (*name != '/' && !getcwd(here, sizeof(here)))
		return fail(EXIT_UNAVAILABLE, "start", "cannot tell the current folder");
	if (snprintf(dir, PATH_MAX, "%s%s%s", here, *here ? "/" : "", name) >= PATH_MAX ||
		strchr(dir, '\n'))
		return fail(EXIT_USAGE, "-o", "no such name for a folder");
	return 0;
}

/* A session daemon's sockets lie below its home, and their paths must fit 108 bytes. */
enum { HOME_BYTES_MAX = 80 };

/*
 * The same for each trace of this folder, for liblttng-ust looks for its daemon where it looked first.
 * Root's daemon has a place of its own, whatever it is told.
 */
static int own_home(char home[PATH_MAX], const char *folder)
{
	uint64_t hash = 14695981039346656037ull;

	home[0] = '\0';
	if (geteuid() == 0)
		return 0;
	snprintf(home, PATH_MAX, "%s/lttng", folder);
	for (const char *c = folder; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
	if (strlen(home) > HOME_BYTES_MAX)
		snprintf(home, PATH_MAX, "/tmp/cuward-%u-%08x", geteuid(), (unsigned)hash);
	return make_folder(home);
}

/* The user's daemon if it answers, else one that lives as long as the trace. */
static int choose_daemon(struct box_trace *trace, const char *folder)
{
	const char *home = getenv("LTTNG_HOME");
	struct session_result result;

	home = home && *home ? home : getenv("HOME");
	trace->own_daemon = !session_ask("", trace->name, &result);
	if (trace->own_daemon)
		return own_home(trace->home, folder);
	if (geteuid() != 0 && home)
		snprintf(trace->home, sizeof(trace->home), "%s", home);
	return 0;
}

static int start_session(struct kept *kept)
{
	struct session_lasting lasting = { .name = kept->trace.name, .trace_dir = kept->trace.dir,
		.home = kept->trace.home, .daemon = kept->trace.own_daemon, .begin = kept_begin,
		.failed = kept_failed, .ready = kept_ready, .ending = kept_ending, .ended = kept_ended,
		.user = kept };
	struct session session;
	char why[512];
	bool good;

	if (!libraries_find(kept->libraries))
		return fail(EXIT_UNAVAILABLE, "start", "libcuward.so is not found");
	lasting.folder = kept->libraries;
	good = session_start_lasting(&session, &lasting, why, sizeof(why)) &&
		session_ready(&session, why, sizeof(why));
	session_leave(&session);
	/* Somebody else may have started one since we looked. */
	return good ? 0 : fail(strcmp(why, box_trace_is_on) == 0 ? EXIT_FOUND : EXIT_UNAVAILABLE,
		"start", why);
}

/* Who makes calls answers within milliseconds. */
static void await_answers(const struct box_trace *trace)
{
	struct box box;
	const char *why;
	bool open = true;

	for (unsigned waited = 0; open && waited < ANSWER_MS; waited += 20) {
		box_open(&box, false);
		open = false;
		for (size_t i = 0; i < box.count; i++)
			open |= box_trace_reach(trace, &box.processes[i], &why) == REACH_LATER;
		box_close(&box);
		if (open)
			nap(20);
	}
}

static int start(struct order *order)
{
	static struct kept kept;
	struct box_trace *trace = &kept.trace;
	int file = box_trace_open(order->folder), status;

	if (file >= 0 && box_trace_read(file, trace) && trace->keeper)
		return fail(EXIT_FOUND, "start", box_trace_is_on);
	if (file >= 0)
		close(file);
	*trace = (struct box_trace){ .start_ns = realtime_ns() };
	trace->control = CONTROL_TRACE | (uint32_t)(trace->start_ns / 1000000) * CONTROL_NUMBER;
	snprintf(trace->name, sizeof(trace->name), "cuward-%d", (int)getpid());
	kept.folder = order->folder;
	status = make_folder(order->folder);
	if (!status)
		status = name_output(trace->dir, order->output);
	if (!status)
		status = choose_daemon(trace, order->folder);
	if (!status)
		status = start_session(&kept);
	if (status)
		return status;
	await_answers(trace);
	trace_show(stdout, trace, order->json);
	return EXIT_FINE;
}

/* ---- stop, status ---- */

static bool await_end(int file, struct box_trace *trace)
{
	for (unsigned waited = 0; waited < END_MS; waited += 10) {
		box_trace_read(file, trace);
		if (!trace->keeper)
			return trace->ended;
		nap(10);
	}
	return false;
}

static int stop(struct order *order)
{
	struct box_trace trace = { 0 };
	int file = box_trace_open(order->folder);
	bool known = file >= 0 && box_trace_read(file, &trace);
	bool kept = trace.keeper > 0;

	if (kept && kill(trace.keeper, SIGTERM) != 0)
		return fail(errno == EPERM ? EXIT_NO_PERMISSION : EXIT_FOUND, "stop", strerror(errno));
	if (kept && !await_end(file, &trace))
		kept = false;
	if (file < 0)
		return fail(EXIT_FOUND, "stop", "no trace is on");
	close(file);
	if (!kept) {
		/* Whoever kept it was killed: nobody shall go on for it. */
		box_trace_remove(order->folder);
		if (geteuid() == 0)
			box_trace_remove_common();
		box_trace_ask(&trace, false);
		fail(EXIT_FOUND, "stop", "its keeper is gone; the trace may be cut");
	}
	if (known)
		trace_show_end(stdout, &trace, order->json);
	return kept && trace.complete && !trace.lost ? EXIT_FINE : EXIT_FOUND;
}

static bool is_roots_on(void)
{
	struct box_trace trace = { 0 };
	int file = admin_dir_open_trace();

	if (file < 0)
		return false;
	box_trace_read(file, &trace);
	close(file);
	return trace.keeper;
}

static int no_trace(bool json)
{
	bool roots = is_roots_on();

	if (json)
		printf("{\n \"active\": false,\n \"of_all_users\": %s\n}\n", roots ? "true" : "false");
	else
		puts(roots ? "no trace of yours is on; root's, of all users, is" : "no trace is on");
	return EXIT_FINE;
}

static int status(struct order *order)
{
	struct box_trace trace;
	int file = box_trace_open(order->folder);
	bool on = file >= 0 && box_trace_read(file, &trace) && trace.keeper;

	if (file >= 0)
		close(file);
	if (on)
		return trace_show(stdout, &trace, order->json);
	return no_trace(order->json);
}

static int snapshot(struct order *order)
{
	return trace_snapshot(order->about);
}

/* ---- the line ---- */

static const struct {
	const char *word;
	int (*run)(struct order *);
} verbs[] = { { "start", start }, { "stop", stop }, { "status", status }, { "snapshot", snapshot } };

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case 'o': order->output = argument; return 0;
	case 'j': order->json = true; return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 1)
			argp_usage(state);
		*(state->arg_num ? &order->about : &order->verb) = argument;
		return 0;
	case ARGP_KEY_END:
		if (!order->verb)
			argp_error(state, "start, stop, status or snapshot?");
		if (!order->about != (strcmp(order->verb, "snapshot") != 0))
			argp_error(state, order->about ? "%s takes no argument" : "%s of which process or job?",
				order->verb);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_trace(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "DIR", 0, "Start: where the trace goes; default ./cuward-trace-TIME-PID", 0 },
		{ "json", 'j', NULL, 0, "As JSON", 0 }, { 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "start [-o DIR]\nstop\nstatus\nsnapshot PID|JOB",
		.doc = "One trace of all your CUDA processes on this machine, running ones included; root's "
			"is of all users.\v"
			"A running process joins at its next CUDA call. snapshot: of a run with --record.\n"
			"Exit status: 0, 1 events were lost or processes cannot be reached, 2 usage, 3 not "
			"available, 4 no permission." };
	struct order order = { 0 };
	const char *why;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	why = state_folder(order.folder);
	if (why)
		return fail(EXIT_UNAVAILABLE, order.verb, why);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(order.verb, verbs[i].word) == 0)
			return verbs[i].run(&order);
	return fail(EXIT_USAGE, order.verb, "it is start, stop, status or snapshot");
}
