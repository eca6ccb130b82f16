/*
 * cmd_run.c - `cuward run`: a command under limits, leak check and trace.
 */
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "admin.h"
#include "cuward.h"
#include "policy.h"
#include "run.h"

enum {
	OPTION_JOB_MEMORY = 256,
	OPTION_ON_LIMIT,
	OPTION_WAIT,
	OPTION_PRIORITY,
	OPTION_OVERHEAD,
	OPTION_GPU_TIME,
	OPTION_LEAK,
	OPTION_SUPPRESSIONS,
	OPTION_STACK,
	OPTION_FAIL_ON,
	OPTION_ERROR_EXITCODE,
	OPTION_TRACE,
	OPTION_RECORD,
	OPTION_REPORT,
	OPTION_HISTORY,
	OPTION_STALL,
	OPTION_IDLE,
	OPTION_ON_STALL,
	OPTION_ON_IDLE,
	OPTION_LABEL,
	OPTION_SIM,
	OPTION_DRY_RUN,
};

static const struct argp_option options[] = {
	{ "memory", 'm', "LIMIT", 0,
	  "Limit of each process on each GPU: SIZE, N%, none, or a list 0=2G,GPU-uuid=4G", 1 },
	{ "job-memory", OPTION_JOB_MEMORY, "LIMIT", 0,
	  "Limit of all processes of this run together, on each GPU", 1 },
	{ "gpu", 'g', "LIST|auto", 0,
	  "The GPUs the command sees (CUDA_VISIBLE_DEVICES); auto: the one with most room", 1 },
	{ "wait", OPTION_WAIT, "T", OPTION_ARG_OPTIONAL,
	  "Queue until the memory asked for is free, at most for T (90s, 10m, 2h)", 1 },
	{ "priority", OPTION_PRIORITY, "N", 0,
	  "In the queue and of --on-limit wait: -20 to 20, default 0", 1 },
	{ "on-limit", OPTION_ON_LIMIT, "deny|wait[=T]|pause|kill", 0,
	  "A refusal: CUDA_ERROR_OUT_OF_MEMORY (default), wait until it fits, SIGSTOP, SIGTERM", 1 },
	{ "overhead", OPTION_OVERHEAD, "show|charge|SIZE", 0,
	  "What contexts and modules take: show it (default), charge it, or charge SIZE a context", 1 },
	{ "leak", OPTION_LEAK, "exit|growth|marks|off", 0,
	  "What counts as a leak (default exit)", 2 },
	{ "suppressions", OPTION_SUPPRESSIONS, "FILE", 0,
	  "Leaks that do not count, in LeakSanitizer's syntax", 2 },
	{ "stack", OPTION_STACK, "none|addr|native|python|full", 0,
	  "How much of the call site is kept (default addr; full under --leak)", 2 },
	{ "fail-on", OPTION_FAIL_ON, "LIST", 0,
	  "Exit with 23, 25 or 24 where the command succeeded, but: leak, leak:SIZE, denied, stall, "
	  "idle", 2 },
	{ "error-exitcode", OPTION_ERROR_EXITCODE, "N", 0, "Exit with N instead of 23, 25 or 24", 2 },
	{ "stall", OPTION_STALL, "T", 0, "Look for processes that wait for the GPU for so long", 3 },
	{ "idle", OPTION_IDLE, "T", 0, "Look for processes that hold memory and do nothing for so long", 3 },
	{ "on-stall", OPTION_ON_STALL, "warn|term", 0,
	  "What is done about a stall: a sentence (default), or SIGTERM and, 10 s later, SIGKILL", 3 },
	{ "on-idle", OPTION_ON_IDLE, "warn|term", 0, "As --on-stall, for --idle", 3 },
	{ "trace", OPTION_TRACE, "DIR", OPTION_ARG_OPTIONAL,
	  "Record an LTTng trace of the command and its children", 3 },
	{ "record", OPTION_RECORD, "LIST", 0,
	  "Keep the trace in memory, and write it when it is time: on-denied, on-leak, on-signal", 3 },
	{ "gpu-time", OPTION_GPU_TIME, "N", OPTION_ARG_OPTIONAL,
	  "Time kernels and copies on the GPU with events, one in N (default each)", 3 },
	{ "report", OPTION_REPORT, "FILE", 0,
	  "Write a JSON report; %p pid, %t start time, %h host, %u user", 3 },
	{ "history", OPTION_HISTORY, "FILE", OPTION_ARG_OPTIONAL,
	  "Append a line for each process to the history, for cuward report", 3 },
	{ "label", OPTION_LABEL, "K=V", 0, "Carried into reports and traces", 3 },
	{ "sim", OPTION_SIM, "PROFILE", OPTION_ARG_OPTIONAL, "Use the simulated driver", 4 },
	{ "dry-run", OPTION_DRY_RUN, NULL, 0,
	  "Print environment and limits and where each comes from; run nothing", 4 },
	{ "quiet", 'q', NULL, 0, "No summary, nothing on stderr but failures", 4 },
	{ "verbose", 'v', NULL, 0, "More on stderr; twice: much more", 4 },
	{ 0 },
};

static const char doc[] =
	"Run COMMAND under GPU memory limits, with leak check and trace.\v"
	"Exit status: the command's own; 128+N when signal N ended it; where it succeeded but "
	"--fail-on asked, 23 for a leak, 25 for a refusal and 24 for who stalled or idled; 75 when it "
	"waited in vain (--wait=T); 125 when cuward failed, 126 when the command cannot be executed, "
	"127 when it is not found.";

/* ---- options ---- */

static void set_value(struct run *run, enum run_setting setting, const char *text)
{
	run->values[setting] = (struct run_value){ text, "command line" };
}

/* Labels add up. */
static void add_label(struct run *run, const char *label)
{
	const char *before = run->values[SETTING_label].text;
	char *all;

	if (asprintf(&all, "%s%s%s", before ? before : "", before ? "," : "", label) < 0)
		abort();
	set_value(run, SETTING_label, all);
}

static void be_verbose(struct run *run)
{
	const char *now = run->values[SETTING_log].text;

	set_value(run, SETTING_log, now && strcmp(now, "off") != 0 ? "debug" : "info");
}

static int parse_exitcode(struct argp_state *state, const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 1 || number > 255)
		argp_error(state, "--error-exitcode: '%s' is not between 1 and 255", text);
	return (int)number;
}

static void parse_wait(struct argp_state *state, struct run *run, const char *text)
{
	run->wait = true;
	run->wait_ns = UINT64_MAX;
	if (text && !policy_duration(text, &run->wait_ns))
		argp_error(state, "--wait: '%s' is no time, as in 90s, 10m, 2h", text);
}

static void parse_watch(struct argp_state *state, struct run *run, int key, const char *text)
{
	bool stall = key == OPTION_STALL || key == OPTION_ON_STALL;
	struct run_watch_order *order = &run->watch.orders[stall ? WATCH_STALL : WATCH_IDLE];

	if (key == OPTION_ON_STALL || key == OPTION_ON_IDLE) {
		order->terminate = strcmp(text, "term") == 0;
		if (!order->terminate && strcmp(text, "warn") != 0)
			argp_error(state, "--on-%s: '%s' is neither warn nor term", stall ? "stall" : "idle", text);
	} else if (!policy_duration(text, &order->ns) || order->ns < 100000000) {
		argp_error(state, "--%s: '%s' is no time from 0.1s on, as in 90s, 10m, 2h",
			stall ? "stall" : "idle", text);
	}
}

/* Options whose text is a setting. */
static int setting_of(int key)
{
	switch (key) {
	case 'm': return SETTING_memory;
	case 'g': return SETTING_gpu;
	case OPTION_JOB_MEMORY: return SETTING_job_memory;
	case OPTION_ON_LIMIT: return SETTING_on_limit;
	case OPTION_PRIORITY: return SETTING_priority;
	case OPTION_OVERHEAD: return SETTING_overhead;
	case OPTION_LEAK: return SETTING_leak;
	case OPTION_SUPPRESSIONS: return SETTING_suppressions;
	case OPTION_STACK: return SETTING_stack;
	case OPTION_FAIL_ON: return SETTING_fail_on;
	case OPTION_REPORT: return SETTING_report;
	default: return -1;
	}
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
	struct run *run = state->input;
	int setting = setting_of(key);

	if (setting >= 0) {
		set_value(run, (enum run_setting)setting, text);
		return 0;
	}
	switch (key) {
	case 'q': set_value(run, SETTING_log, "off"); break;
	case 'v': be_verbose(run); break;
	case OPTION_HISTORY: run->history = text ? text : "1"; break;
	case OPTION_WAIT: parse_wait(state, run, text); break;
	case OPTION_LABEL: add_label(run, text); break;
	case OPTION_STALL:
	case OPTION_IDLE:
	case OPTION_ON_STALL:
	case OPTION_ON_IDLE: parse_watch(state, run, key, text); break;
	case OPTION_ERROR_EXITCODE: run->error_exitcode = parse_exitcode(state, text); break;
	case OPTION_TRACE: run->trace_to = text ? text : ""; break;
	case OPTION_RECORD:
		if (!run_record_parse(run, text))
			argp_error(state, "--record: '%s' is no list of on-denied, on-leak, on-signal", text);
		break;
	case OPTION_SIM: run->sim = text ? text : ""; break;
	case OPTION_GPU_TIME: set_value(run, SETTING_gpu_time, text ? text : "1"); break;
	case OPTION_DRY_RUN: run->dry_run = true; break;
	case ARGP_KEY_ARG:
		run->argv = state->argv + state->next - 1;
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		if (!run->argv)
			argp_error(state, "which command?");
		if (run->record && !run->trace_to)
			run->trace_to = "";
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- words on stderr ---- */

static void say(const char *format, va_list args)
{
	char line[2048];

	vsnprintf(line, sizeof(line), format, args);
	dprintf(STDERR_FILENO, "cuward: %s\n", line);
}

void run_say(const struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!run->quiet)
		say(format, args);
	va_end(args);
}

int run_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return EXIT_CUWARD;
}

/* ---- the order of things ---- */

uint64_t run_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* An absolute path; a new folder here where none is named. */
static int name_trace(struct run *run)
{
	struct report_writer writer = { .pid = (uint32_t)getpid(), .start_ns = run->start_ns };
	char name[PATH_MAX], here[PATH_MAX] = "";

	if (!session_place(run->trace_to, run->trace_dir, sizeof(run->trace_dir)))
		return run_fail("--trace: '%s' is neither a folder nor net://HOST", run->trace_to);
	if (session_is_remote(run->trace_dir))
		return 0;
	if (*run->trace_to)
		snprintf(name, sizeof(name), "%s", run->trace_to);
	else if (report_file_name(name, "cuward-trace-%t-%p", &writer) != 0)
		return run_fail("cannot name the trace");
	if (*name != '/' && !getcwd(here, sizeof(here)))
		return run_fail("cannot tell the current folder: %s", strerror(errno));
	if (snprintf(run->trace_dir, sizeof(run->trace_dir), "%s%s%s", here, *here ? "/" : "",
		name) >= (int)sizeof(run->trace_dir))
		return run_fail("--trace: the path is too long");
	return 0;
}

static int start_trace(struct run *run)
{
	char why[512];
	bool good;

	if (!run->trace_to)
		return 0;
	if (name_trace(run) != 0)
		return EXIT_CUWARD;
	good = run->record ? run_record_start(run, why, sizeof(why)) :
		session_start(&run->session, run->trace_dir, run->libraries, why, sizeof(why));
	if (!good)
		return run_fail("%s: %s", run->record ? "--record" : "--trace", why);
	run->tracing = true;
	return 0;
}

static int await_trace(struct run *run)
{
	char why[512];

	if (!run->tracing || session_ready(&run->session, why, sizeof(why)))
		return 0;
	return run_fail("--trace: %s", why);
}

static void warn_of_disabled(const struct run *run)
{
	const char *disabled = getenv("CUWARD_DISABLE");

	if (disabled && strcmp(disabled, "1") == 0)
		run_say(run, "CUWARD_DISABLE=1: nothing is enforced, counted or traced");
}

/* The guest has no voice for that; what cannot be understood it tells. */
static void warn_of_ignored(const struct run *run)
{
	struct admin admin;
	char why[300];

	if (admin_read(&admin, NULL, 0, getuid(), why, sizeof(why)) && admin.warning[0])
		run_say(run, "%s: its limits bind nobody", admin.warning);
}

/* Everything up to the command's first instruction. */
static int start(struct run *run)
{
	int error = run_folder_open(run);

	if (!error)
		run_pids_open(run);
	if (!error)
		error = await_trace(run);
	if (!error)
		error = run_environment_set(run);
	if (!error)
		error = run_environment_check(run);
	return error ? error : run_child_start(run);
}

static int carry_out_now(struct run *run)
{
	int status = start_trace(run);

	if (status)
		return status;
	run_child_block();
	status = start(run);
	if (status == 0) {
		run_child_wait(run);
		run->end_ns = run_now_ns();
		status = run_report(run);
	} else if (run->tracing) {
		session_stop(&run->session, &run->trace);
	}
	run_folder_close(run);
	return status;
}

static int carry_out(struct run *run)
{
	int status = run_queue_enter(run);

	if (!status)
		status = carry_out_now(run);
	run_queue_leave(run);
	return status;
}

int cmd_run(int argc, char **argv)
{
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "[--] COMMAND [ARG...]", .doc = doc };
	static struct run run = { .job_lock = -1 };
	int error;

	run_child_guard_descriptors();
	argp_err_exit_status = EXIT_CUWARD;
	argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &run);
	run.start_ns = run_now_ns();
	error = run_settings_read(&run);
	if (!error)
		error = run_program_check(&run);
	if (!error)
		error = run_environment_plan(&run);
	if (error)
		return error;
	warn_of_disabled(&run);
	if (run.dry_run) {
		run_environment_print(&run);
		return 0;
	}
	warn_of_ignored(&run);
	return carry_out(&run);
}
