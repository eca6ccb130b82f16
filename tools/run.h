/*
 * run.h - the parts of `cuward run`.
 *
 *	cmd_run.c          options, and the order of things
 *	run_settings.c     what is asked for, and by whom: command line, environment, default
 *	run_limits.c       two limits that both apply, as one
 *	run_environment.c  the command's environment: preload, libraries, state folder, dry run
 *	run_folder.c       where its processes leave their ledgers
 *	run_queue.c        wait until what is asked for is free, choose a GPU
 *	run_program.c      can this command be watched at all?
 *	run_child.c        start it, forward signals, wait for it
 *	run_watch.c        look at its processes meanwhile: who is stalled, who is idle?
 *	run_pids.c         what are they called here, that are in containers?
 *	run_report.c       what its processes left: JSON report, --fail-on
 *	run_trace.c        the end of its trace
 *	run_record.c       its flight recorder
 *	run_summary.c      the same for people
 *	run_history.c      a line of history for each of them
 */
#ifndef RUN_H
#define RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuward/events.h"
#include "cuward/ledger.h"
#include "ledger_read.h"
#include "queue.h"
#include "report_suppress.h"
#include "report_file.h"
#include "session.h"

/* X(name, variable, option, default): settings that have an option and an environment variable. */
#define RUN_SETTINGS(X) \
	X(memory, "CUWARD_MEMORY", "--memory", "none") \
	X(job_memory, "CUWARD_JOB_MEMORY", "--job-memory", "none") \
	X(inner_memory, "CUWARD_INNER_MEMORY", "--job-memory", "none") \
	X(gpu, "CUDA_VISIBLE_DEVICES", "--gpu", NULL) \
	X(priority, "CUWARD_PRIORITY", "--priority", "0") \
	X(on_limit, "CUWARD_ON_LIMIT", "--on-limit", "deny") \
	X(overhead, "CUWARD_OVERHEAD", "--overhead", "show") \
	X(leak, "CUWARD_LEAK", "--leak", "exit") \
	X(suppressions, "CUWARD_SUPPRESSIONS", "--suppressions", NULL) \
	X(stack, "CUWARD_STACK", "--stack", "addr") \
	X(fail_on, "CUWARD_FAIL_ON", "--fail-on", NULL) \
	X(report, "CUWARD_REPORT", "--report", NULL) \
	X(gpu_time, "CUWARD_GPU_TIME", "--gpu-time", "0") \
	X(label, "CUWARD_LABEL", "--label", NULL) \
	X(log, "CUWARD_LOG", "-q, -v", "error")

enum run_setting {
#define X(name, variable, option, standard) SETTING_##name,
	RUN_SETTINGS(X)
#undef X
	SETTING_COUNT,
};

struct run_value {
	const char *text;   /* NULL unset */
	const char *source; /* "command line", "environment", "default" */
};

/* --stall and --idle. */
enum run_watch_for { WATCH_STALL, WATCH_IDLE, WATCH_COUNT };

struct run_watch_order {
	uint64_t ns; /* 0: nobody looks */
	bool terminate;
	bool fail; /* --fail-on */
};

/* A process that was found so. */
struct run_watch_found {
	enum run_watch_for what;
	struct process_identity who;
	pid_t pid; /* as we see it, 0 unknown */
	uint64_t since_ns; /* CLOCK_REALTIME */
	uint64_t for_ns;
	uint64_t held_bytes;
	char kernel[96]; /* launched last before a stall, "" unknown */
	unsigned call; /* it is in, or made most of late; LEDGER_CALLS_MAX unknown */
	bool terminated; /* by us */
};

#define WATCH_FOUND_MAX 64u

struct run_watch {
	struct run_watch_order orders[WATCH_COUNT];
	uint64_t count; /* found */
	bool failed[WATCH_COUNT];
	bool terminated; /* somebody, by us */
	struct run_watch_found found[WATCH_FOUND_MAX]; /* the first ones */
};

/* What was promised to this run by --wait or --gpu auto. */
struct run_promise {
	struct queue queue;
	struct queue_place place;
	int fd; /* -1 nothing */
};

struct run {
	struct run_value values[SETTING_COUNT];
	const char *trace_to; /* --trace: folder, "" a new one here, NULL no trace */
	const char *history;  /* --history or CUWARD_HISTORY: a file, "1" the usual one, NULL none */
	const char *sim;      /* --sim: profile, "" the newest, NULL the real driver */
	bool wait;            /* --wait */
	uint64_t wait_ns;     /* so long; UINT64_MAX for ever */
	uint64_t waited_ns;   /* before it was let in */
	bool gpu_auto;        /* --gpu auto */
	int error_exitcode; /* 0 the usual ones */
	bool dry_run;
	bool quiet;
	char **argv; /* of the command */

	/* from the values */
	uint64_t fail_leak_bytes; /* this much leaked is a failure; BYTES_NONE nothing is */
	bool fail_denied;
	const struct suppressions *suppressions; /* NULL none */
	bool suppression_used[SUPPRESS_RULES_MAX];

	/* the environment */
	char libraries[PATH_MAX]; /* where libcuward.so lies */
	char dir[PATH_MAX];       /* of shared state, "" if there is none */
	char job[128];
	char job_dir[PATH_MAX + 160];
	int job_lock;             /* held while this run lives, -1 */
	char program[PATH_MAX];   /* the file to be executed */

	/* the run itself */
	uint64_t start_ns;
	uint64_t end_ns;
	pid_t child;
	int status; /* of the command as a shell would say it */
	int signal; /* that ended it, 0 none */
	char comm[16]; /* the kernel's name of it at the end, empty if unknown */
	struct run_promise promise;
	struct session session;
	struct run_watch watch;
	unsigned record; /* enum run_record, 0: no flight recorder */
	char **snapshots; /* that it wrote, in order */
	unsigned snapshot_count;
	bool tracing;
	char trace_dir[PATH_MAX];
	struct session_result trace;
};

/* "cuward: TEXT" on stderr. run_fail is for what ends the run; it returns EXIT_CUWARD. */
void run_say(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
int run_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Functions that return int return 0 or an exit status, after they said why. */

/* run_settings.c */
int run_settings_read(struct run *run);
const char *run_setting_variable(enum run_setting setting);
const char *run_setting_option(enum run_setting setting);

/* The limit that tells how much memory it needs: of the run, else of each process. */
const struct run_value *run_setting_asks(const struct run *run);

/* run_limits.c: the lowest of two limits, as text. False: they cannot be compared. */
bool run_limits_lowest(const char *a, const char *b, char *text, size_t bytes);

/* run_environment.c */
int run_environment_plan(struct run *run);  /* libraries, state folder, job; changes nothing */
void run_environment_print(const struct run *run);
int run_environment_set(struct run *run);   /* in ourselves; the command inherits */
int run_environment_check(struct run *run); /* does the preload work? */

/* The simulated driver's file. False: none was asked for. */
bool run_environment_driver(const struct run *run, char path[PATH_MAX]);
/* --gpu auto found one. */
void run_environment_choose_gpu(const char *uuid);

/* run_queue.c: nothing is done where neither --wait nor --gpu auto is given. */
int run_queue_enter(struct run *run);
void run_queue_leave(struct run *run);

/* run_folder.c */
int run_folder_open(struct run *run);
void run_folder_close(struct run *run); /* and remove what nobody needs */
/* What dead processes of dead runs left in this folder of shared state is removed; how many files. */
unsigned run_folder_sweep(const char *dir);
bool run_folder_is_dead(const char *dir, const char *path);

/* run_program.c */
int run_program_check(struct run *run);

/* run_child.c */
void run_child_guard_descriptors(void); /* first of all */
void run_child_block(void);             /* from here on signals are meant for the command */
int run_child_start(struct run *run);
void run_child_wait(struct run *run);

/* run_watch.c */
void run_watch_read(struct run *run); /* once --fail-on is known */
const char *run_watch_word(enum run_watch_for what);
uint64_t run_watch_period(const struct run *run); /* 0: nobody looks */
void run_watch_look(struct run *run);
void run_watch_end(struct run *run); /* the command ended: see to the end of those we ended */

/* run_pids.c: noted when a process begins, since nobody can tell once it is gone. */
void run_pids_open(const struct run *run); /* its folder is there; SIGIO comes from then on */
void run_pids_look(void);
pid_t run_pids_of(const struct process_identity *who); /* 0 unknown */

/* run_report.c: the exit status of cuward run. */
int run_report(struct run *run);

/* run_record.c: a flight recorder instead of a trace of all. */
enum run_record { RECORD_DENIED = 1, RECORD_LEAK = 2, RECORD_SIGNAL = 4 };
#define RECORD_FILE ".recorder" /* in the folder of the job; see session_recorder */
bool run_record_parse(struct run *run, const char *text);
bool run_record_start(struct run *run, char *why, size_t why_bytes);
void run_record_ask(struct run *run, const struct ledger_list *list); /* before the trace ends */
void run_record_end(struct run *run, struct ledger_list *list);       /* and after */

/* run_trace.c: tell the trace how its processes ended, and end it. */
void run_trace_end(struct run *run, struct ledger_list *list);
/* The same to a trace of all processes of this user that ours joined while they ran. */
void run_trace_join(const struct run *run, const struct ledger_list *list);

/* run_summary.c: what happened, on stderr. */
void run_summary(const struct run *run, const struct ledger_list *list);

/* run_history.c */
void run_history(const struct run *run, const struct ledger_list *list);

/* What the processes of a run did, summed up; those that never used CUDA left out. */
struct run_sums {
	uint64_t processes;
	uint64_t leaked_bytes;
	uint64_t leaked;
	uint64_t denied;
	uint64_t unrecorded; /* processes, where there is a trace */
	uint64_t unknown; /* processes whose ledgers were not made, or cannot be read */
};
struct run_sums run_sum_up(const struct ledger_list *list);

uint64_t run_now_ns(void); /* CLOCK_REALTIME */

#endif
