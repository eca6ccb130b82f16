/*
 * trace.c - loads the trace provider at the first CUDA call, and keeps it well across fork.
 *
 * Needs nothing but libc: a guest that is not traced never sees liblttng-ust.
 */
#include "trace.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

bool trace_on;
uint32_t trace_number;
struct trace_ops trace_ops;
uint64_t trace_named[TRACE_CALLS_MAX / 64];

/* liblttng-ust's own, for a process that forks without exec; all NULL while it isn't loaded. */
static struct {
	void (*before)(sigset_t *);
	void (*parent)(sigset_t *);
	void (*child)(sigset_t *);
} ust_fork;

/* ---- how long liblttng-ust may wait for the daemon ---- */

/*
 * liblttng-ust waits up to 3 s in its constructor for a daemon that does not answer. With a daemon
 * of our own that is right, and `cuward run` asks for it; a stuck daemon of somebody else must not
 * cost each guest that much. 0 would lose the first events and expose a deadlock after fork, so it
 * counts as not set.
 */
#define TIMEOUT_NAME "LTTNG_UST_REGISTER_TIMEOUT"
#define TIMEOUT_IMPATIENT "200"
#define HOME_NAME "LTTNG_HOME"

extern char **environ;

/*
 * liblttng-ust gets an environment of its own for a moment. The guest's array is not written to:
 * setenv() would pull it from under a getenv() in another thread. Such a getenv() may also still
 * read our copy after the loan, so that is freed at the next loan at the earliest.
 */
static char **environment_guest;
static char **environment_copy;

static char environment_home[PATH_MAX + sizeof(HOME_NAME "=")]; /* empty: none of ours */

void trace_use_home(const char *home)
{
	int length = snprintf(environment_home, sizeof(environment_home), HOME_NAME "=%s", home);

	if (!*home || length >= (int)sizeof(environment_home))
		environment_home[0] = '\0';
}

static bool timeout_wanted(void)
{
	const char *asked = getenv(TIMEOUT_NAME);

	return !asked || strcmp(asked, "0") == 0;
}

uint64_t trace_patience_ns(void)
{
	long ms = strtol(timeout_wanted() ? TIMEOUT_IMPATIENT : getenv(TIMEOUT_NAME), NULL, 10);

	return ms < 0 ? UINT64_MAX : (uint64_t)ms * 1000000;
}

static void environment_lend(void)
{
	static char timeout[] = TIMEOUT_NAME "=" TIMEOUT_IMPATIENT;
	size_t count = 0, used = 0;

	if ((environment_copy && environ == environment_copy) ||
	    (!timeout_wanted() && !environment_home[0]))
		return;
	while (environ && environ[count])
		count++;
	free(environment_copy);
	environment_copy = malloc((count + 3) * sizeof(char *));
	if (!environment_copy)
		return;
	environment_guest = environ;
	/* The first of a name counts. */
	if (timeout_wanted())
		environment_copy[used++] = timeout;
	if (environment_home[0])
		environment_copy[used++] = environment_home;
	for (size_t i = 0; i < count; i++)
		environment_copy[used++] = environment_guest[i];
	environment_copy[used] = NULL;
	__atomic_store_n(&environ, environment_copy, __ATOMIC_RELEASE);
}

/* Where the guest has set a variable meanwhile, libc has made an array of its own: leave it. */
static void environment_return(void)
{
	char **copy = environment_copy;

	if (copy)
		__atomic_compare_exchange_n(&environ, &copy, environment_guest, false,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- a guest that closes every descriptor ---- */

/*
 * Daemons do that, and close those of liblttng-ust with the rest. It bears that for long, and what
 * it has mapped stays; but its destructor aborts where it cannot close one of them. So before that
 * each of those numbers is open again, on nothing. What another thread opens meanwhile may count as
 * one of them: it is filled too, and nobody looks any more.
 */
#define DESCRIPTORS 4096

static uint64_t theirs[DESCRIPTORS / 64];

/* Those open now. Without /proc none are known, and none are filled. */
static void descriptors_open(uint64_t set[DESCRIPTORS / 64])
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;

	memset(set, 0, sizeof(theirs));
	while (folder && (entry = readdir(folder)) != NULL) {
		long fd = entry->d_name[0] == '.' ? -1 : strtol(entry->d_name, NULL, 10);

		if (fd >= 0 && fd < DESCRIPTORS && fd != dirfd(folder))
			set[fd / 64] |= 1ull << fd % 64;
	}
	if (folder)
		closedir(folder);
}

static void descriptors_learn(const uint64_t before[DESCRIPTORS / 64])
{
	uint64_t now[DESCRIPTORS / 64];

	descriptors_open(now);
	for (unsigned i = 0; i < DESCRIPTORS / 64; i++)
		theirs[i] |= now[i] & ~before[i];
}

static void descriptors_fill(void)
{
	int nothing = -1;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		if (!(theirs[fd / 64] >> fd % 64 & 1) || fcntl(fd, F_GETFD) >= 0)
			continue;
		if (nothing < 0)
			nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (nothing >= 0 && nothing != fd)
			fcntl(nothing, F_DUPFD_CLOEXEC, fd); /* or elsewhere: a thread was faster */
	}
}

/* ---- fork ---- */

/* Per thread: another thread may fork between before() here and the lock that before() takes. */
static __thread sigset_t fork_signals;

static void fork_prepare(void)
{
	ust_fork.before(&fork_signals);
}

static void fork_parent(void)
{
	ust_fork.parent(&fork_signals);
}

/* Registers the child as a process of its own with the daemon; costs the fork 15 to 30 ms. */
static void fork_child(void)
{
	uint64_t before[DESCRIPTORS / 64];

	descriptors_open(before);
	for (unsigned i = 0; i < DESCRIPTORS / 64; i++)
		before[i] &= ~theirs[i];
	environment_lend();
	ust_fork.child(&fork_signals);
	environment_return();
	descriptors_learn(before);
}

/* liblttng-ust-fork.so, where somebody preloads it, does the same; twice would deadlock. */
static bool fork_is_covered(void)
{
	void *library = dlopen("liblttng-ust-fork.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library;
}

static void fork_cover(void *provider)
{
	if (ust_fork.before || fork_is_covered())
		return;
	ust_fork.parent = (void (*)(sigset_t *))dlsym(provider, "lttng_ust_after_fork_parent");
	ust_fork.child = (void (*)(sigset_t *))dlsym(provider, "lttng_ust_after_fork_child");
	ust_fork.before = (void (*)(sigset_t *))dlsym(provider, "lttng_ust_before_fork");
	if (ust_fork.before && ust_fork.parent && ust_fork.child)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- start and stop ---- */

static void *provider_load(const char *folder, char *why, unsigned why_bytes)
{
	static char path[PATH_MAX]; /* not every stack has room, and one thread loads */
	uint64_t before[DESCRIPTORS / 64];
	void *provider;

	if (snprintf(path, sizeof(path), "%s/libcuward-lttng.so", folder) >= (int)sizeof(path)) {
		snprintf(why, why_bytes, "the path of the trace provider is too long");
		return NULL;
	}
	descriptors_open(before);
	environment_lend();
	provider = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	environment_return();
	if (provider) {
		descriptors_learn(before);
		atexit(descriptors_fill);
	} else
		snprintf(why, why_bytes, "tracing needs liblttng-ust 2.13 or newer: %s", dlerror());
	return provider;
}

static bool opened;

bool trace_is_loaded(void)
{
	return opened;
}

bool trace_load(const char *folder, char *why, unsigned why_bytes)
{
	trace_provider *fill;
	void *provider;

	if (opened)
		return true;
	provider = provider_load(folder, why, why_bytes);
	if (!provider)
		return false;
	fork_cover(provider);
	fill = (trace_provider *)dlsym(provider, TRACE_PROVIDER);
	opened = fill && fill(&trace_ops, TRACE_LAYOUT);
	if (!opened)
		snprintf(why, why_bytes,
			"%s/libcuward-lttng.so is of another version than libcuward.so", folder);
	return opened;
}

bool trace_begin(void)
{
	if (!trace_ops.enabled())
		return false;
	memset(trace_named, 0, sizeof(trace_named));
	__atomic_add_fetch(&trace_number, 1, __ATOMIC_RELEASE);
	/* What others do from here on they tell; what they did before is found where it is kept. */
	__atomic_store_n(&trace_on, true, __ATOMIC_SEQ_CST);
	return true;
}

enum trace_state trace_start(const char *folder, char *why, unsigned why_bytes)
{
	if (!trace_load(folder, why, why_bytes))
		return TRACE_FAILED;
	if (trace_begin())
		return TRACE_REGISTERED;
	snprintf(why, why_bytes, "no LTTng session records our events: no session daemon, no session "
		"with cuward:* enabled, or no shared memory for its buffers");
	return TRACE_FAILED;
}

void trace_stop(void)
{
	__atomic_store_n(&trace_on, false, __ATOMIC_RELEASE);
}

/* Emitted before its bit is set: two threads may name a call twice, none uses it unnamed. */
void trace_name_call(uint32_t process, uint16_t api)
{
	struct event_api event = {.process = process, .api = api, .name = call_name(api)};

	trace_api(&event);
	__atomic_fetch_or(&trace_named[api % TRACE_CALLS_MAX / 64], 1ull << api % 64,
		__ATOMIC_RELEASE);
}
