/*
 * session.c - `cuward run --trace` without the rest of it: a command inside a trace session.
 *
 * session TRACE_DIR FOLDER COMMAND [ARG...]; prints times and the result on stderr, and emits three
 * events on behalf of process 77 before it stops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static int run_command(const struct session *session, char **argv)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		const struct session_variable *v = session_environment(session);

		for (; v->name; v++)
			setenv(v->name, v->value, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct session session;
	struct session_result result;
	struct event_process_end end = {.process = 77, .how = END_SIGNAL, .status = 137,
		.live_bytes = 4096, .live_count = 1};
	struct event_lost lost = {.process = 77, .events = 3, .why = "a test"};
	struct event_process who = {.process = 77, .pid = 4711, .command = "a \"b\"", .job = NULL,
		.labels = "k=v", .version = "1"};
	double started = now_ms(), ready, ended;
	char why[512];
	int status;

	if (argc < 4)
		return 2;
	if (!session_start(&session, argv[1], argv[2], why, sizeof(why))) {
		fprintf(stderr, "start: %s\n", why);
		return 125;
	}
	if (!session_ready(&session, why, sizeof(why))) {
		fprintf(stderr, "ready: %s\n", why);
		session_stop(&session, &result);
		return 125;
	}
	ready = now_ms();
	fprintf(stderr, "home=%s keeper=%d\n", session.home, session.keeper);
	status = run_command(&session, argv + 3);
	ended = now_ms();
	if (!session_emit(&session, EVENT_process, &who) ||
		!session_emit(&session, EVENT_process_end, &end) ||
		!session_emit(&session, EVENT_lost, &lost))
		fprintf(stderr, "emit: failed\n");
	session_stop(&session, &result);
	fprintf(stderr, "ready_ms=%.0f stop_ms=%.0f lost=%llu bytes=%llu complete=%d warning=%s\n",
		ready - started, now_ms() - ended, (unsigned long long)result.lost,
		(unsigned long long)result.bytes, result.complete, result.warning);
	return status;
}
