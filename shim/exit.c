/*
 * exit.c - the orderly end of the process, and what is written then.
 *
 * The handler is registered by our constructor through on_exit: handlers run last-in-first-out,
 * and so ours runs after every destructor and atexit handler of the program and its libraries. No
 * driver call here, and no LTTng event either: its library is gone by then. _exit and _Exit skip
 * all handlers, so they are interposed. A vfork child runs them in its parent's memory. quick_exit
 * runs handlers of its own kind and nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attend.h"
#include "bypass.h"
#include "growth.h"
#include "guest.h"
#include "log.h"
#include "report_file.h"
#include "report_host.h"
#include "report_suppress.h"
#include "settings.h"
#include "share.h"
#include "uncancelled.h"

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

static void write_report(const struct ledger_view *view)
{
	static struct report_file file; /* large, and there is one exit */
	const struct process_identity *who = &view->header->who;
	struct report_writer writer = {
		.pid = who->pid, .uid = who->uid, .start_ns = who->start_realtime_ns,
	};
	static char name[PATH_MAX];
	int error = report_file_name(name, settings_get(SETTING_report), &writer);

	if (!error)
		error = report_file_open(&file, name);
	if (!error) {
		report_document_json(&file.out, view);
		error = report_file_close(&file, who->pid);
	}
	if (error)
		log_line(LOG_ERROR, "cannot write the report %s: %s", settings_get(SETTING_report),
			strerror(-error));
}

static void write_leaks(const struct ledger_view *view)
{
	int fd = STDERR_FILENO;
	static struct report_out out; /* large, and there is one exit */

	out.flush = write_all;
	out.user = &fd;
	report_leaks_text(&out, view, LEAK_LINES);
	report_finish(&out);
}

/* NULL: none are wanted, or they cannot be read, and then every leak counts. */
static const struct suppressions *read_suppressions(void)
{
	static struct suppressions suppressions;
	char why[256];

	if (!settings_is_set(SETTING_suppressions))
		return NULL;
	if (suppress_read(&suppressions, settings_get(SETTING_suppressions), why, sizeof(why)))
		return &suppressions;
	log_line(LOG_ERROR, "CUWARD_SUPPRESSIONS: %s", why);
	return NULL;
}

/* In plain preload mode; under `cuward run` that command reads the ledger and reports. */
static void write_reports(void)
{
	struct held_signals held;
	struct ledger_view view;

	log_hold_signals(&held);
	ledger_view(&view);
	view.leaks_off = strcmp(settings_get(SETTING_leak), "off") == 0;
	view.suppressions = read_suppressions();
	view.outer_pid = report_outer_pid();
	if (settings_is_set(SETTING_report))
		write_report(&view);
	if (settings_is_set(SETTING_leak) && !view.leaks_off && log_stderr_is_ours())
		write_leaks(&view);
	log_release_signals(&held);
}

/* What got around us used CUDA too: it is in the report, with or without a call that we saw. */
static void tell_of_bypass(bool at_exit)
{
	if (!bypass_look_at_end(at_exit))
		return;
	if (!guest.pid && (settings_is_set(SETTING_report) || settings_is_set(SETTING_job)))
		guest_open();
	if (guest.header)
		guest.header->uses_cuda = 1;
}

static void end(enum cuward_end how, int status, bool at_exit)
{
	struct ledger_header *header;
	bool outside_run;
	UNCANCELLED_HERE;

	tell_of_bypass(at_exit);
	header = guest.header;
	if (!header || guest.pid != (uint32_t)getpid() ||
	    __atomic_exchange_n(&guest.ended, true, __ATOMIC_ACQ_REL))
		return;
	/* A job's name may be given by others, who read nothing: a prolog, a pod. */
	outside_run = !settings_is_set(SETTING_job) || !ledger_is_of_run();
	attend_close();
	growth_mark_pending();
	header->status = status & 0xff;
	header->end_realtime_ns = guest_realtime_ns();
	__atomic_store_n(&header->ended, how, __ATOMIC_RELEASE);
	if (outside_run && (header->uses_cuda || guest.refused))
		write_reports();
	/* On the way to a signal the process still makes calls, and its memory is still there. */
	if (how == END_EXIT)
		share_give_back_slot();
	if (outside_run)
		ledger_unlink();
}

void guest_end_by(enum cuward_end how, int status)
{
	end(how, status, false);
}

static void last_handler(int status, void *unused)
{
	(void)unused;
	end(END_EXIT, status, true);
}

/* libc calls any handler with its argument, and with the status behind it. */
typedef void quick_handler(void *argument, int status);

static void last_quick_handler(void *unused, int status)
{
	(void)unused;
	end(END_EXIT, status, true);
}

/* What at_quick_exit calls; that names a library, with which the handler would go. */
extern int __cxa_at_quick_exit(quick_handler *handler, void *library);

static __attribute__((constructor)) void remember_start(void)
{
	log_remember_stderr();
	bypass_start();
	on_exit(last_handler, NULL);
	/* Only what a linked library's constructor registered, initialised before ours, runs later. */
	__cxa_at_quick_exit(last_quick_handler, NULL);
}

__attribute__((visibility("default"), noreturn)) void _exit(int status)
{
	end(END_EXIT, status, false);
	for (;;)
		syscall(SYS_exit_group, status);
}

__attribute__((visibility("default"), noreturn)) void _Exit(int status)
{
	_exit(status);
}
