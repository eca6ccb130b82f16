/*
 * attend.c - begins and ends tracing: as the environment says, or as others ask while we run.
 */
#include "attend.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin_dir.h"
#include "guest.h"
#include "handler.h"
#include "log.h"
#include "names.h"
#include "settings.h"
#include "share.h"
#include "trace.h"

/* So long after the provider was loaded a session may still want its events. */
#define SESSION_WAIT_NS 8000000000ull
#define SETTLE_NS 20000000ull

static const uint32_t never, always = 1;

const uint32_t *attention = &never;

static void attend_to(const uint32_t *word)
{
	__atomic_store_n(&attention, word, __ATOMIC_RELEASE);
}

/* ---- where things are ---- */

/*
 * Threads may have small stacks: paths are here. One thread at a time, for the attach is over before
 * requests are followed.
 */
static char provider_folder[PATH_MAX], daemon_home[PATH_MAX], machine_text[PATH_MAX + 64];

static void find_provider(void)
{
	Dl_info info;
	char *slash;

	strcpy(provider_folder, ".");
	if (dladdr((void *)attend_open, &info) && info.dli_fname)
		snprintf(provider_folder, sizeof(provider_folder), "%s", info.dli_fname);
	slash = strrchr(provider_folder, '/');
	if (slash)
		*slash = '\0';
}

/* What this file asks for; closes it. */
static uint32_t read_trace(int fd)
{
	struct flock kept = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char *text = machine_text;
	ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(machine_text) - 1, 0);
	const char *at;

	/* Nobody keeps it: it was left behind by one that is gone. */
	if (got > 0 && (fcntl(fd, F_OFD_GETLK, &kept) != 0 || kept.l_type == F_UNLCK))
		got = 0;
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	at = strstr(text, "home=");
	snprintf(daemon_home, sizeof(daemon_home), "%.*s", at ? (int)strcspn(at + 5, "\n") : 0,
		at ? at + 5 : "");
	at = strstr(text, "control=");
	return at ? strtoul(at + 8, NULL, 10) : 0;
}

/*
 * The trace of the whole machine that is on, our user's or root's of all users: its number, 0 for none;
 * daemon_home is its daemon's.
 */
static uint32_t machine_trace(void)
{
	char why[256];
	int folder = share_folder(why, sizeof(why));
	uint32_t asked = read_trace(folder < 0 ? -1 :
		openat(folder, TRACE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));

	if (folder >= 0)
		close(folder);
	return asked ? asked : read_trace(admin_dir_open_trace());
}

/* ---- events on, events off ---- */

static void note_state(enum trace_state state)
{
	guest.header->trace = state;
	if (guest.slot)
		__atomic_store_n(&guest.slot->trace, state, __ATOMIC_RELEASE);
}

static void tell_failure(const char *why)
{
	note_state(TRACE_FAILED);
	guest_find_once(FINDING_TRACE_UNAVAILABLE);
	log_line(LOG_WARN, "no trace: %s", why);
}

static void start_by_environment(void)
{
	char why[256] = "";

	guest.trace_own = true;
	find_provider();
	note_state(TRACE_STARTING);
	if (trace_start(provider_folder, why, sizeof(why)) == TRACE_REGISTERED) {
		note_state(TRACE_REGISTERED);
		replay_who();
	} else {
		guest.trace_own = false; /* a later trace may have it */
		tell_failure(why);
	}
}

/* Never a second time in the life of a process; also for one that then finds no session. */
static bool load_provider(void)
{
	char why[256] = "";

	find_provider();
	machine_trace();
	trace_use_home(daemon_home);
	note_state(TRACE_STARTING);
	if (trace_load(provider_folder, why, sizeof(why)))
		return true;
	tell_failure(why);
	return false;
}

/*
 * Where a handler interrupted something, or where the stack ends soon, nothing is loaded; another call
 * will do. Finding out takes some time, so not each of them asks.
 */
#define STACK_LEAST (128u << 10)
#define TRY_EVERY_NS 10000000ull

static bool stack_suffices(void)
{
	pthread_attr_t attributes;
	void *lowest = NULL;
	size_t bytes = 0, left;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return false;
	pthread_attr_getstack(&attributes, &lowest, &bytes);
	pthread_attr_destroy(&attributes);
	/* On a stack that is not the thread's, of a coroutine say, nobody knows. */
	left = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)lowest;
	return left > STACK_LEAST && left < bytes;
}

static bool may_load(void)
{
	uint64_t now = guest_clock_ns();

	if (now - guest.trace_tried_ns < TRY_EVERY_NS)
		return false;
	guest.trace_tried_ns = now;
	return !handler_is_active() && stack_suffices();
}

/*
 * LTTng enables our events one after the other. Who has not waited for that could see the first one
 * enabled, and tell who he is before that can be recorded.
 */
static bool is_settling(void)
{
	if (!trace_ops.enabled())
		return false;
	if (!guest.trace_seen_ns)
		guest.trace_seen_ns = guest_clock_ns();
	return guest_clock_ns() - guest.trace_seen_ns < SETTLE_NS;
}

static enum trace_answer begin(void)
{
	if (is_settling())
		return ANSWER_WAITS;
	/* Other threads' launches are told once names are, and memory from the first moment on. */
	__atomic_store_n(&guest.replaying, true, __ATOMIC_SEQ_CST);
	if (trace_begin()) {
		note_state(TRACE_REGISTERED);
		attend_to(&always);
		replay_who();
		names_replay();
		replay_live();
		__atomic_store_n(&guest.replaying, false, __ATOMIC_RELEASE);
		return ANSWER_RECORDED;
	}
	__atomic_store_n(&guest.replaying, false, __ATOMIC_RELEASE);
	if (guest_clock_ns() - guest.trace_waits_ns < SESSION_WAIT_NS)
		return ANSWER_WAITS;
	tell_failure("no LTTng session records our events");
	return ANSWER_NO_SESSION;
}

/* ANSWER_NONE: not here, not now. */
static enum trace_answer start(uint32_t asked)
{
	if (guest.trace_own)
		return ANSWER_ELSEWHERE;
	if (guest.trace_waits_for != asked) {
		bool before = trace_is_loaded();
		uint64_t began = guest_clock_ns();

		if (!before && !may_load())
			return ANSWER_NONE;
		if (!load_provider())
			return ANSWER_NO_PROVIDER;
		guest.trace_waits_for = asked;
		guest.trace_waits_ns = guest_clock_ns();
		/* The load waits until all events are enabled, unless that takes too long. */
		guest.trace_seen_ns = !before && trace_ops.enabled() &&
			guest.trace_waits_ns - began < trace_patience_ns() / 4 * 3 ? 1 : 0;
	}
	return begin();
}

static void stop(void)
{
	if (guest.trace_own || guest.control_done == 0)
		return;
	trace_stop();
	note_state(TRACE_OFF);
	attend_to(&guest.slot->control);
}

/* ---- requests ---- */

static void follow(uint32_t asked)
{
	enum trace_answer answer = ANSWER_NONE;

	stop();
	if (asked & CONTROL_TRACE)
		answer = start(asked);
	__atomic_store_n(&guest.slot->control_answer, answer, __ATOMIC_RELEASE);
	if ((asked & CONTROL_TRACE) && (answer == ANSWER_NONE || answer == ANSWER_WAITS))
		return; /* again in the next call */
	__atomic_store_n(&guest.control_done, asked, __ATOMIC_RELAXED);
	__atomic_store_n(&guest.slot->control_done, asked, __ATOMIC_RELEASE);
}

static __attribute__((noinline, cold)) void follow_once(uint32_t asked)
{
	int saved = errno;
	int cancel;

	if (!lock_try(&guest.control_lock))
		return;
	if (asked != guest.control_done) {
		/* Loading waits for the daemon, and there a thread could be cancelled. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		follow(asked);
		pthread_setcancelstate(cancel, NULL);
	}
	lock_give_back(&guest.control_lock);
	errno = saved;
}

bool attend_slow(void)
{
	uint32_t asked;

	if (!guest.slot || !guest.attached || guest.ended)
		return trace_on;
	asked = __atomic_load_n(&guest.slot->control, __ATOMIC_ACQUIRE);
	if (unlikely(asked != __atomic_load_n(&guest.control_done, __ATOMIC_RELAXED)))
		follow_once(asked);
	return trace_on && !__atomic_load_n(&guest.replaying, __ATOMIC_RELAXED);
}

/* ---- the life of the process ---- */

/* Allocations look here whether the process is attached. */
void attend_start(void)
{
	trace_stop(); /* in a child of the bare fork call it is still on */
	attend_to(&always);
}

/*
 * A trace that began before we had a slot asks through the file. Its end takes the file away and then
 * the request from all slots: whoever still finds the file afterwards was asked in time.
 */
static void ask_ourselves(void)
{
	uint32_t asked = machine_trace();

	if (!asked)
		return;
	__atomic_store_n(&guest.slot->control, asked, __ATOMIC_SEQ_CST);
	if (machine_trace() != asked)
		__atomic_store_n(&guest.slot->control, 0, __ATOMIC_SEQ_CST);
}

void attend_open(void)
{
	if (strcmp(settings_get(SETTING_trace), "1") == 0)
		start_by_environment();
	if (guest.slot)
		ask_ourselves();
	attend_to(trace_on ? &always : guest.slot ? &guest.slot->control : &never);
}

/* The slot may soon be another's. */
void attend_close(void)
{
	attend_to(&never);
	trace_stop();
}
