/*
 * session_talk.c - reports between the processes behind a trace session.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "session_parts.h"

int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

void plan_environment(const struct session_plan *plan)
{
	if (plan->home[0])
		setenv("LTTNG_HOME", plan->home, 1);
}

bool talk_pair(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
}

void talk_send(int socket, const struct session_report *report)
{
	while (send(socket, report, sizeof(*report), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

void talk_good(int socket)
{
	struct session_report report = {.good = true};

	talk_send(socket, &report);
}

void talk_bad(int socket, const char *format, ...)
{
	struct session_report report = {.good = false};
	va_list args;

	va_start(args, format);
	vsnprintf(report.result.warning, sizeof(report.result.warning), format, args);
	va_end(args);
	talk_send(socket, &report);
}

/* Poll to a deadline, signals or not. */
static bool readable(int socket, int milliseconds)
{
	struct pollfd waiting = {.fd = socket, .events = POLLIN};
	int64_t deadline = clock_ms() + milliseconds;
	int ready;

	do {
		int64_t left = deadline - clock_ms();

		ready = poll(&waiting, 1, left > 0 ? (int)left : 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

bool talk_receive(int socket, struct session_report *report, int milliseconds)
{
	if (!readable(socket, milliseconds))
		return false;
	if (recv(socket, report, sizeof(*report), 0) != (ssize_t)sizeof(*report))
		return false;
	report->result.warning[sizeof(report->result.warning) - 1] = 0;
	return true;
}

bool talk_ended(int socket, int milliseconds)
{
	char byte;

	return readable(socket, milliseconds) && recv(socket, &byte, 1, MSG_PEEK) <= 0;
}
