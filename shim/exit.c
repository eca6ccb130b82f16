/*
 * exit.c - the orderly end of the process, and what is written then.
 *
 * The handler is registered by our constructor through on_exit: handlers run last-in-first-out,
 * and so ours runs after every destructor and atexit handler of the program and its libraries. No
 * driver call here, and no LTTng event either: its library is gone by then. _exit and _Exit skip
 * all handlers, so they are interposed. A vfork child runs them in its parent's memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "log.h"
#include "report.h"
#include "settings.h"
#include "share.h"
#include "trace.h"

#define LEAK_LINES 12

static bool write_all(struct report_out *out, const char *bytes, size_t count)
{
	int fd = *(int *)out->user;

	while (count > 0) {
		ssize_t written = write(fd, bytes, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		bytes += written;
		count -= written;
	}
	return true;
}

static const char *start_time(char *text, size_t bytes)
{
	time_t seconds = guest.header->who.start_realtime_ns / 1000000000;
	struct tm parts;

	gmtime_r(&seconds, &parts);
	strftime(text, bytes, "%Y%m%dT%H%M%SZ", &parts);
	return text;
}

/* %p pid, %t start time, %h host, %u user (its number: names would need a name service). */
static void expand(char *path, size_t bytes, const char *pattern)
{
	size_t used = 0;
	char text[128] = "";

	for (; *pattern && used + 1 < bytes; pattern++) {
		const char *insert = NULL;

		if (pattern[0] == '%' && pattern[1] == 'p')
			snprintf(text, sizeof(text), "%u", guest.header->who.pid), insert = text;
		else if (pattern[0] == '%' && pattern[1] == 't')
			insert = start_time(text, sizeof(text));
		else if (pattern[0] == '%' && pattern[1] == 'h' && gethostname(text, sizeof(text)) == 0)
			insert = text;
		else if (pattern[0] == '%' && pattern[1] == 'u')
			insert = getenv("USER") ? getenv("USER") : "unknown";
		if (insert) {
			used += snprintf(path + used, bytes - used, "%s", insert);
			pattern++;
		} else {
			path[used++] = *pattern;
		}
		if (used >= bytes)
			used = bytes - 1;
	}
	path[used] = '\0';
}

/* NAME-PID.EXT, and NAME-PID-N.EXT when that exists too. */
static int create_beside(const char *path)
{
	const char *base = strrchr(path, '/');
	const char *dot = strrchr(base ? base : path, '.');
	int stem = dot && dot > path ? dot - path : (int)strlen(path);
	char other[1200];
	int fd = -1;

	for (int i = 0; fd < 0 && i < 1000; i++) {
		snprintf(other, sizeof(other), i ? "%.*s-%u-%d%s" : "%.*s-%u%.0d%s", stem, path,
			guest.header->who.pid, i, path + stem);
		fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

static void write_report(const struct ledger_view *view)
{
	struct report_out out = { .flush = write_all };
	char path[1024];
	int fd;

	expand(path, sizeof(path), settings_get(SETTING_report));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST)
		fd = create_beside(path);
	if (fd < 0) {
		log_line(LOG_ERROR, "cannot write the report %s: %s", path, strerror(errno));
		return;
	}
	out.user = &fd;
	report_document_json(&out, view);
	if (!report_finish(&out))
		log_line(LOG_ERROR, "the report %s is incomplete: %s", path, strerror(errno));
	close(fd);
}

static void write_leaks(const struct ledger_view *view)
{
	int fd = STDERR_FILENO;
	struct report_out out = { .flush = write_all, .user = &fd };

	report_leaks_text(&out, view, LEAK_LINES);
	report_finish(&out);
}

/* In plain preload mode; under `cuward run` that command reads the ledger and reports. */
static void write_reports(void)
{
	struct ledger_view view;

	ledger_view(&view);
	if (settings_is_set(SETTING_report))
		write_report(&view);
	if (settings_is_set(SETTING_leak) && strcmp(settings_get(SETTING_leak), "off") != 0 &&
	    log_stderr_is_ours())
		write_leaks(&view);
}

void guest_end(int status)
{
	struct ledger_header *header = guest.header;
	bool outside_run = !settings_is_set(SETTING_job);

	if (!header || guest.pid != (uint32_t)getpid() ||
	    __atomic_exchange_n(&guest.ended, true, __ATOMIC_ACQ_REL))
		return;
	trace_stop();
	header->status = status & 0xff;
	header->end_realtime_ns = guest_realtime_ns();
	__atomic_store_n(&header->ended, END_EXIT, __ATOMIC_RELEASE);
	if (outside_run && (header->uses_cuda || guest.refused))
		write_reports();
	share_give_back_slot();
	if (outside_run)
		ledger_unlink();
}

static void last_handler(int status, void *unused)
{
	(void)unused;
	guest_end(status);
}

static __attribute__((constructor)) void remember_start(void)
{
	log_remember_stderr();
	on_exit(last_handler, NULL);
}

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
	guest_end(status);
	for (;;)
		syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status)
{
	_exit(status);
}
