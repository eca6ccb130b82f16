/*
 * session_keeper.c - the process that keeps a trace session: starts the daemon and its helpers,
 * and ends them in order when `cuward run` says so or is gone, whatever killed it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session_parts.h"

#define FILES_WANTED 65536

struct child {
	pid_t pid;
	int talk;
};

struct keeper {
	const struct session_plan *plan;
	struct child daemon;
	struct child control;
	struct child warmer;
	struct child emitter;
	struct session_result recorded; /* snapshots, so far */
	bool begun; /* the daemon's home is ours alone */
	struct session_report report;
};

/* ---- children ---- */

/*
 * The daemon holds two descriptors of each guest until it has noticed its end, and takes no more guests
 * when three quarters are in use: a busy machine and the usual 1024 would lose some. Where nobody is
 * allowed more, those it did not take are told as such.
 */
static void files_raise(void)
{
	struct rlimit files, more;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	more.rlim_max = files.rlim_max < FILES_WANTED ? FILES_WANTED : files.rlim_max;
	more.rlim_cur = more.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &more) == 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* A child that dies with us. True in the parent; the body does not return. */
static bool child_start(struct child *child, const struct session_plan *plan, bool drop,
	void (*body)(const struct session_plan *plan, int talk))
{
	pid_t keeper = getpid();
	sigset_t none;
	int ends[2];

	if (!talk_pair(ends))
		return false;
	child->pid = fork();
	if (child->pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		close(plan->talk);
		close(ends[0]);
		files_raise(); /* while we may */
		if (drop && !user_drop(&plan->user)) {
			talk_bad(ends[1], "could not become the user nobody: %s", strerror(errno));
			_exit(1);
		}
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* a change of uid would have cleared it */
		if (getppid() != keeper)
			_exit(1);
		body(plan, ends[1]);
	}
	close(ends[1]);
	child->talk = ends[0];
	return child->pid > 0;
}

static bool child_gone(struct child *child, int milliseconds)
{
	int64_t deadline = clock_ms() + milliseconds;

	while (waitpid(child->pid, NULL, WNOHANG) == 0) {
		if (clock_ms() > deadline)
			return false;
		usleep(1000);
	}
	return true;
}

/* Asked to end, then made to. */
static void child_end(struct child *child, int signal_number, int milliseconds)
{
	if (child->pid <= 0)
		return;
	kill(child->pid, signal_number);
	if (!child_gone(child, milliseconds)) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	close(child->talk);
	child->pid = 0;
}

/* ---- the daemon ---- */

static void daemon_main(const struct session_plan *plan, int talk)
{
	static const char *const folders[] = {"/usr/bin", "/usr/local/bin", "/usr/sbin"};
	char *argv[] = {"lttng-sessiond", "--no-kernel", NULL};
	char path[64];

	setpgid(0, 0);
	plan_environment(plan);
	if (plan->home[0])
		setenv("HOME", plan->home, 1);
	unsetenv("LD_PRELOAD");
	execvp(argv[0], argv);
	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/lttng-sessiond", folders[i]);
		execv(path, argv);
	}
	talk_bad(talk, "needs lttng-sessiond: install the package lttng-tools (%s)",
		strerror(errno));
	_exit(1);
}

/* ---- start ---- */

static bool failed(struct keeper *keeper, const char *why)
{
	snprintf(keeper->report.result.warning, sizeof(keeper->report.result.warning), "%s", why);
	return false;
}

/* A child's report about its start. A daemon that ended explains why the others wait in vain. */
static bool child_ready(struct keeper *keeper, struct child *child)
{
	int64_t deadline = clock_ms() + READY_SECONDS * 1000;

	while (!talk_receive(child->talk, &keeper->report, 20)) {
		if (keeper->daemon.pid > 0 && child_gone(&keeper->daemon, 0)) {
			keeper->daemon.pid = 0;
			if (talk_receive(keeper->daemon.talk, &keeper->report, 0))
				return false;
			return failed(keeper, "lttng-sessiond ended at once; see why by hand");
		}
		if (clock_ms() > deadline || talk_ended(keeper->plan->talk, 0))
			return failed(keeper, "the trace session did not start in time");
	}
	return keeper->report.good;
}

/*
 * Whom LTTng did not take at first, because the machine was too busy then, it may never take: a fresh
 * process begins again. One that cannot load the provider says so at once, each time.
 */
static bool warmer_ready(struct keeper *keeper)
{
	for (int i = 0; i < WARMERS; i++) {
		child_end(&keeper->warmer, SIGKILL, 0);
		if (!child_start(&keeper->warmer, keeper->plan, false, warmer_main))
			return false;
		if (child_ready(keeper, &keeper->warmer))
			return true;
		if (talk_ended(keeper->plan->talk, 0))
			return false;
	}
	return false;
}

static bool keeper_start(struct keeper *keeper)
{
	const struct session_plan *plan = keeper->plan;

	if ((plan->daemon && !child_start(&keeper->daemon, plan, true, daemon_main)) ||
		!child_start(&keeper->control, plan, true, control_main))
		return false;
	if (!child_ready(keeper, &keeper->control))
		return false;
	if (!child_start(&keeper->emitter, plan, false, emitter_main))
		return false;
	close(plan->events);
	if (!warmer_ready(keeper))
		return false;
	shutdown(keeper->warmer.talk, SHUT_WR); /* it may end, now that nothing waits for LTTng */
	return true;
}

/* ---- stop ---- */

/* The emitter reports when it has registered, and when it has emitted all. */
static bool emitter_done(struct keeper *keeper)
{
	struct session_report report;

	return talk_receive(keeper->emitter.talk, &report, 3000) && report.good &&
		talk_receive(keeper->emitter.talk, &report, 3000) && report.good;
}

/* A snapshot that took too long may be reported first. */
static bool control_stopped(struct keeper *keeper)
{
	while (talk_receive(keeper->control.talk, &keeper->report, STOP_SECONDS * 1000 + 500))
		if (keeper->report.last || !keeper->report.good)
			return true;
	return false;
}

/* Without any snapshot nobody wants anything. */
static void keeper_finish_recorder(const struct keeper *keeper)
{
	char names[4096];

	if (recorder_link(keeper->plan))
		return;
	snprintf(names, sizeof(names), "%s/ust", keeper->plan->trace_dir);
	tree_remove(names);
	if (keeper->plan->trace_dir_made)
		rmdir(keeper->plan->trace_dir);
}

static void keeper_stop(struct keeper *keeper)
{
	struct session_result *result = &keeper->report.result;
	bool emitted = emitter_done(keeper);

	shutdown(keeper->control.talk, SHUT_WR);
	memset(&keeper->report, 0, sizeof(keeper->report));
	if (!control_stopped(keeper))
		failed(keeper, "the session daemon did not stop in time; the trace may be cut");
	if (emitted)
		return;
	result->complete = false;
	failed(keeper, "what is known of ended processes could not be added to the trace");
}

/*
 * Asked to end, the daemon takes half a second, for nothing once all is on disk; but processes that
 * go on learn so that it is gone, and are there at once when there is another. Its own children end
 * when it does; they become ours then, and we wait so that nothing outlives the command.
 */
static void daemon_end(struct keeper *keeper)
{
	pid_t group = keeper->daemon.pid;
	int64_t deadline;

	if (group <= 0)
		return;
	child_end(&keeper->daemon, keeper->report.result.complete && !keeper->plan->lasting ?
		SIGKILL : SIGTERM, keeper->plan->lasting ? 3000 : 1000);
	deadline = clock_ms() + 500;
	while (waitpid(-1, NULL, WNOHANG) >= 0 && clock_ms() < deadline)
		usleep(500);
	kill(-group, SIGKILL);
}

/* Whatever was started is ended; the home goes last. */
static void keeper_clean(struct keeper *keeper)
{
	child_end(&keeper->warmer, SIGKILL, 0);
	child_end(&keeper->emitter, SIGKILL, 0);
	child_end(&keeper->control, SIGKILL, 0);
	daemon_end(keeper);
	if (keeper->begun && keeper->plan->daemon && keeper->plan->home[0]) {
		tree_take_over(keeper->plan->home);
		tree_remove(keeper->plan->home);
	}
	if (session_is_remote(keeper->plan->trace_dir))
		return;
	if (keeper->plan->recorder)
		keeper_finish_recorder(keeper);
	tree_take_over(keeper->plan->trace_dir);
	keeper->report.result.bytes = tree_size(keeper->plan->trace_dir);
}

static void close_others(const struct session_plan *plan)
{
	unsigned low = plan->talk < plan->events ? plan->talk : plan->events;
	unsigned high = plan->talk < plan->events ? plan->events : plan->talk;

	for (unsigned i = 3; i < high; i++) {
		if (i != low)
			close(i);
	}
	if (syscall(SYS_close_range, high + 1, ~0u, 0) != 0) {
		for (unsigned i = high + 1; i < 4096; i++) /* a kernel before 5.9 */
			close(i);
	}
}

/* A start that failed leaves no half of a trace, which would refuse the next start. */
static void trace_discard(const struct session_plan *plan)
{
	char inside[4096];

	if (session_is_remote(plan->trace_dir))
		return;
	snprintf(inside, sizeof(inside), "%s/ust", plan->trace_dir);
	tree_remove(inside);
	if (plan->trace_dir_made)
		rmdir(plan->trace_dir);
}

/* No terminal signal, no descriptor and no output of the command's is ours. */
static void keeper_detach(const struct session_plan *plan)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t blocked;

	setsid();
	if (plan->lasting && chdir("/") != 0) /* nobody shall wait for us to unmount a disk */
		_exit(1);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	close_others(plan);
	sigfillset(&blocked);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	signal(SIGCHLD, SIG_DFL);
}

/* ---- its life ---- */

/* A session that lasts ends on request, or when what it needs has died. */
static void await_request(struct keeper *keeper)
{
	static const struct timespec second = {.tv_sec = 1};
	sigset_t request;

	sigemptyset(&request);
	sigaddset(&request, SIGTERM);
	sigaddset(&request, SIGINT);
	while (sigtimedwait(&request, NULL, &second) < 0) {
		if (keeper->daemon.pid > 0 && child_gone(&keeper->daemon, 0)) {
			keeper->daemon.pid = 0;
			return;
		}
		if (child_gone(&keeper->control, 0)) {
			keeper->control.pid = 0;
			return;
		}
	}
}

static bool is_broken(void *user)
{
	struct keeper *keeper = user;

	if (child_gone(&keeper->daemon, 0))
		keeper->daemon.pid = 0;
	if (child_gone(&keeper->control, 0))
		keeper->control.pid = 0;
	return keeper->daemon.pid == 0 || keeper->control.pid == 0;
}

static void await_end(struct keeper *keeper)
{
	const struct session_lasting *lasting = keeper->plan->lasting;
	struct recorder_ends ends = {keeper->control.talk, is_broken, keeper};

	if (keeper->plan->recorder) {
		recorder_watch(keeper->plan, &ends, &keeper->recorded);
		return;
	}
	if (!lasting) {
		while (!talk_ended(keeper->plan->talk, 60000))
			;
		return;
	}
	await_request(keeper);
	lasting->ending(lasting->user);
}

static bool keeper_begin(struct keeper *keeper)
{
	const struct session_lasting *lasting = keeper->plan->lasting;
	struct session_result *result = &keeper->report.result;

	if (lasting && !lasting->begin(lasting->user, result->warning, sizeof(result->warning)))
		return false;
	keeper->begun = true;
	if (!keeper_start(keeper)) {
		if (lasting)
			lasting->failed(lasting->user);
		return false;
	}
	if (lasting)
		lasting->ready(lasting->user);
	return true;
}

void keeper_main(const struct session_plan *plan)
{
	struct keeper keeper = {.plan = plan};
	bool started;

	keeper_detach(plan);
	started = keeper_begin(&keeper);
	if (started) {
		talk_good(plan->talk);
		await_end(&keeper);
		keeper_stop(&keeper);
	} else if (!keeper.report.result.warning[0]) {
		failed(&keeper, "the trace session could not start its processes");
	}
	keeper_clean(&keeper);
	if (!started)
		trace_discard(plan);
	keeper.report.last = true;
	keeper.report.result.snapshots = keeper.recorded.snapshots;
	keeper.report.result.unwritten = keeper.recorded.unwritten;
	if (!keeper.report.result.warning[0])
		strcpy(keeper.report.result.warning, keeper.recorded.warning);
	talk_send(plan->talk, &keeper.report);
	if (started && plan->lasting)
		plan->lasting->ended(plan->lasting->user, &keeper.report.result);
	_exit(0);
}
