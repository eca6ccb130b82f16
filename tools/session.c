/*
 * session.c - the private LTTng session behind `cuward run --trace`, as `run` sees it.
 */
#include "session.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session_parts.h"

static bool fail(char *why, size_t why_bytes, const char *what, const char *path)
{
	snprintf(why, why_bytes, "%s %s: %s", what, path, strerror(errno));
	return false;
}

/* ---- folders ---- */

/* Like mkdir -p; made tells whether the last one was missing. */
static bool make_folders(const char *path, bool *made)
{
	char part[4096];
	size_t length = strlen(path);

	if (length >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(part, path, length + 1);
	for (size_t i = 1; i <= length; i++) {
		if (part[i] != '/' && part[i] != 0)
			continue;
		part[i] = 0;
		*made = mkdir(part, 0777) == 0;
		if (!*made && errno != EEXIST)
			return false;
		part[i] = path[i];
	}
	return true;
}

bool session_is_remote(const char *trace_dir)
{
	return strncmp(trace_dir, "net://", 6) == 0 || strncmp(trace_dir, "net6://", 7) == 0;
}

bool session_place(const char *asked, char *place, size_t bytes)
{
	size_t scheme = strspn(asked, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

	snprintf(place, bytes, "%s", asked);
	if (scheme == 0 || strncmp(asked + scheme, "://", 3) != 0)
		return true;
	for (size_t i = 0; i < scheme && i < bytes; i++)
		place[i] = (char)tolower((unsigned char)place[i]);
	return session_is_remote(place);
}

/* LTTng writes below it. */
static void inside_of(char inside[4096], const char *trace_dir)
{
	snprintf(inside, 4096, "%s/ust", trace_dir);
}

/* Of two that want the same folder at the same time one makes what is inside. */
static bool trace_folder_make(const char *trace_dir, bool *made, char *why, size_t why_bytes)
{
	char inside[4096];

	if (session_is_remote(trace_dir))
		return true;
	if (!make_folders(trace_dir, made))
		return fail(why, why_bytes, "cannot make the trace directory", trace_dir);
	inside_of(inside, trace_dir);
	if (mkdir(inside, 0770) == 0)
		return true;
	if (errno != EEXIST)
		return fail(why, why_bytes, "cannot write to the trace directory", trace_dir);
	snprintf(why, why_bytes, "%s holds a trace already", trace_dir);
	return false;
}

/* A start that failed leaves nothing that would refuse the next one. */
static void trace_folder_unmake(const char *trace_dir, bool made)
{
	char inside[4096];

	if (session_is_remote(trace_dir))
		return;
	inside_of(inside, trace_dir);
	rmdir(inside);
	if (made)
		rmdir(trace_dir);
}

/* tree_take_over() undoes it. */
static bool trace_folder_lend(const char *trace_dir, const struct session_user *user)
{
	char inside[4096];

	inside_of(inside, trace_dir);
	return !user->drop || user->reach || session_is_remote(trace_dir) ||
		(chown(trace_dir, USER_NOBODY, -1) == 0 && chown(inside, USER_NOBODY, -1) == 0);
}

/* Short, for the daemon puts sockets into it, and their paths must fit 108 bytes. */
static bool home_make(char *home, size_t home_bytes, struct session_user *user, char *why,
	size_t why_bytes)
{
	const char *runtime = geteuid() != 0 ? getenv("XDG_RUNTIME_DIR") : NULL;
	const char *const folders[] = {runtime, "/tmp", "/var/tmp", "/dev/shm"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (!folders[i] || folders[i][0] != '/')
			continue;
		if (snprintf(home, home_bytes, "%s/cuward-XXXXXX", folders[i]) >= (int)home_bytes)
			continue;
		if (!mkdtemp(home))
			continue;
		if (user_choose(user, home))
			return true;
		tree_remove(home);
	}
	return fail(why, why_bytes, "cannot make a directory for the session daemon in", "/tmp");
}

/* ---- start ---- */

static void environment_fill(struct session *session)
{
	const char *timeout = getenv("LTTNG_UST_REGISTER_TIMEOUT");

	if (!timeout || strcmp(timeout, "0") == 0)
		timeout = "3000"; /* the daemon is ours: wait for it as long as LTTng would */
	session->environment[0] = (struct session_variable){"LTTNG_HOME", session->home};
	session->environment[1] = (struct session_variable){"CUWARD_TRACE", "1"};
	session->environment[2] =
		(struct session_variable){"LTTNG_UST_REGISTER_TIMEOUT", timeout};
	session->environment[3] = (struct session_variable){NULL, NULL};
}

static bool keeper_fork(struct session *session, struct session_plan *plan)
{
	int talk[2], events[2];

	if (!talk_pair(talk))
		return false;
	if (!talk_pair(events)) {
		close(talk[0]);
		close(talk[1]);
		return false;
	}
	session->talk = talk[0];
	session->events = events[0];
	plan->talk = talk[1];
	plan->events = events[1];
	fflush(NULL);
	session->keeper = fork();
	if (session->keeper == 0)
		keeper_main(plan);
	close(talk[1]);
	close(events[1]);
	return session->keeper > 0;
}

static void session_close(struct session *session)
{
	if (session->talk >= 0)
		close(session->talk);
	if (session->events >= 0)
		close(session->events);
	session->talk = session->events = -1;
}

static bool start(struct session *session, const char *trace_dir, const char *folder,
	const struct session_recorder *recorder, char *why, size_t why_bytes)
{
	char name[32];
	struct session_plan plan = {
		.name = name, .daemon = true, .recorder = recorder, .trace_dir = trace_dir,
		.folder = folder};

	/* A relay daemon keeps the sessions of a machine apart by their names, and by the second. */
	snprintf(name, sizeof(name), "cuward-%d", (int)getpid());
	*session = (struct session){.talk = -1, .events = -1};
	if (!trace_folder_make(trace_dir, &plan.trace_dir_made, why, why_bytes))
		return false;
	if (!home_make(session->home, sizeof(session->home), &plan.user, why, why_bytes)) {
		trace_folder_unmake(trace_dir, plan.trace_dir_made);
		return false;
	}
	plan.home = session->home;
	environment_fill(session);
	if (trace_folder_lend(trace_dir, &plan.user) && keeper_fork(session, &plan))
		return true;
	fail(why, why_bytes, "cannot start the trace session in", trace_dir);
	session_close(session);
	trace_folder_unmake(trace_dir, plan.trace_dir_made);
	tree_remove(session->home);
	return false;
}

bool session_start(struct session *session, const char *trace_dir, const char *folder, char *why,
	size_t why_bytes)
{
	return start(session, trace_dir, folder, NULL, why, why_bytes);
}

bool session_start_recorder(struct session *session, const char *trace_dir, const char *folder,
	const struct session_recorder *recorder, char *why, size_t why_bytes)
{
	if (!session_is_remote(trace_dir))
		return start(session, trace_dir, folder, recorder, why, why_bytes);
	snprintf(why, why_bytes, "a flight recorder writes to a folder, not to %s", trace_dir);
	return false;
}

void session_snapshot(struct session *session, const char *why)
{
	struct session_report request = {.good = true};

	snprintf(request.result.warning, sizeof(request.result.warning), "%s", why);
	if (session->talk >= 0)
		talk_send(session->talk, &request);
}

/* ---- sessions that outlive their caller ---- */

bool session_start_lasting(struct session *session, const struct session_lasting *lasting, char *why,
	size_t why_bytes)
{
	struct session_plan plan = {.name = lasting->name, .home = lasting->home,
		.daemon = lasting->daemon, .lasting = lasting, .trace_dir = lasting->trace_dir,
		.folder = lasting->folder};

	*session = (struct session){.talk = -1, .events = -1};
	if (!trace_folder_make(lasting->trace_dir, &plan.trace_dir_made, why, why_bytes))
		return false;
	if (keeper_fork(session, &plan))
		return true;
	fail(why, why_bytes, "cannot start the trace session in", lasting->trace_dir);
	session_close(session);
	trace_folder_unmake(lasting->trace_dir, plan.trace_dir_made);
	return false;
}

void session_leave(struct session *session)
{
	session_close(session);
}

/* What is told of a user's processes he tells: LTTng's buffers, and keys in a trace, are a user's. */
static bool become(uid_t uid)
{
	return geteuid() != 0 || uid == 0 || (setgroups(0, NULL) == 0 &&
		setresgid(USER_NOBODY, USER_NOBODY, USER_NOBODY) == 0 && setresuid(uid, uid, uid) == 0);
}

static void joined_main(const struct session_plan *plan, const struct session *session, uid_t uid,
	int talk)
{
	pid_t caller = getppid();

	close(session->talk);
	close(session->events);
	if (!become(uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == caller)
		emitter_main(plan, talk);
	_exit(1);
}

bool session_join(struct session *session, const char *home, const char *folder, uid_t uid)
{
	static const struct timeval patience = {.tv_sec = ASK_SECONDS};
	struct session_plan plan = {.name = "", .home = home, .folder = folder, .talk = -1};
	int talk[2], events[2];

	*session = (struct session){.talk = -1, .events = -1};
	if (!talk_pair(talk))
		return false;
	if (!talk_pair(events)) {
		close(talk[0]);
		close(talk[1]);
		return false;
	}
	session->talk = talk[0];
	session->events = events[0];
	plan.events = events[1];
	fflush(NULL);
	setsockopt(events[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	session->keeper = fork();
	if (session->keeper == 0)
		joined_main(&plan, session, uid, talk[1]);
	close(talk[1]);
	close(events[1]);
	if (session->keeper < 0)
		session_close(session);
	return session->keeper > 0;
}

bool session_is_joined(struct session *session)
{
	struct session_report report;

	return talk_receive(session->talk, &report, ASK_SECONDS * 1000) && report.good;
}

void session_part(struct session *session)
{
	struct session_report report;

	if (session->events >= 0)
		close(session->events);
	session->events = -1;
	if (talk_receive(session->talk, &report, ASK_SECONDS * 1000) && report.good)
		talk_receive(session->talk, &report, ASK_SECONDS * 1000);
	session_close(session);
	kill(session->keeper, SIGKILL);
	waitpid(session->keeper, NULL, 0);
	session->keeper = 0;
}

/* A daemon that does not answer must not hold us up: a child asks, and is killed in the end. */
bool session_ask(const char *home, const char *name, struct session_result *result)
{
	struct session_plan plan = {.name = name, .home = home, .talk = -1, .events = -1};
	struct session_report report = {.good = false};
	bool answered = false;
	int talk[2];
	pid_t child;

	*result = (struct session_result){.lost = 0};
	if (!talk_pair(talk))
		return false;
	fflush(NULL);
	child = fork();
	if (child == 0)
		ask_main(&plan, talk[1]);
	close(talk[1]);
	if (child > 0) {
		answered = talk_receive(talk[0], &report, ASK_SECONDS * 1000);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	close(talk[0]);
	if (!answered)
		snprintf(report.result.warning, sizeof(report.result.warning),
			"the session daemon does not answer");
	*result = report.result;
	return report.good;
}

bool session_ready(struct session *session, char *why, size_t why_bytes)
{
	struct session_report report = {.good = false};

	if (talk_receive(session->talk, &report, 3 * READY_SECONDS * 1000) && report.good)
		return true;
	if (!report.result.warning[0])
		strcpy(report.result.warning, "the trace session did not start");
	snprintf(why, why_bytes, "%s", report.result.warning);
	session_close(session); /* nothing more will come */
	return false;
}

const struct session_variable *session_environment(const struct session *session)
{
	return session->environment;
}

/* ---- events and end ---- */

bool session_emit(struct session *session, enum cuward_event which, const void *event)
{
	char message[WIRE_BYTES_MAX];
	size_t bytes = wire_put(message, sizeof(message), which, event);

	if (!bytes || session->events < 0)
		return false;
	if (send(session->events, message, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
		return true;
	/* One that took nothing in time, or is gone, takes nothing any more. */
	close(session->events);
	session->events = -1;
	return false;
}

/* The keeper's last report; one about the start may come before it. */
static void last_report(struct session *session, struct session_report *report)
{
	do {
		if (talk_receive(session->talk, report, (2 * STOP_SECONDS + 5) * 1000))
			continue;
		*report = (struct session_report){.good = false};
		snprintf(report->result.warning, sizeof(report->result.warning),
			"the trace session did not end in order; the trace may be cut");
		kill(session->keeper, SIGKILL);
		return;
	} while (!report->last);
}

void session_stop(struct session *session, struct session_result *result)
{
	struct session_report report = {.good = false};

	if (session->events >= 0)
		close(session->events);
	session->events = -1;
	if (session->talk >= 0) {
		shutdown(session->talk, SHUT_WR);
		last_report(session, &report);
	}
	*result = report.result;
	session_close(session);
	if (session->keeper > 0)
		waitpid(session->keeper, NULL, 0);
	session->keeper = 0;
}
