/*
 * guest.c - the life of the process we are in, up to where it is attached to a driver.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attend.h"
#include "bypass.h"
#include "grant.h"
#include "growth.h"
#include "gputime.h"
#include "group.h"
#include "identity.h"
#include "limit.h"
#include "bounds.h"
#include "lease.h"
#include "log.h"
#include "lookup.h"
#include "names.h"
#include "neighbours.h"
#include "policy.h"
#include "settings.h"
#include "share.h"
#include "site.h"
#include "trace.h"
#include "traced.h"
#include "turns.h"
#include "uncancelled.h"

#define THREADS_MAX 65536u

struct guest guest;
__thread struct thread *guest_thread_pointer;

/* Where there is no memory at all, calls still go through one place that can refuse. */
static struct thread last_resort;
static struct ledger_thread last_resort_counts;

void guest_find(enum cuward_finding finding)
{
	if (guest.header)
		__atomic_fetch_add(&guest.header->findings[finding], 1, __ATOMIC_RELAXED);
}

void guest_find_once(enum cuward_finding finding)
{
	if (guest.header)
		__atomic_store_n(&guest.header->findings[finding], 1, __ATOMIC_RELAXED);
}

/* ---- the first CUDA call ---- */

static void copy_command(struct process_identity *who, char *argv, size_t argv_bytes)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? 0 : read(fd, argv, argv_bytes - 1);
	const char *base;

	if (fd >= 0)
		close(fd);
	argv[count > 0 ? count : 0] = '\0';
	base = strrchr(argv, '/');
	snprintf(who->command, sizeof(who->command), "%s", base ? base + 1 : argv);
}

static void refuse(const char *why)
{
	guest.refused = true;
	if (guest.header) {
		snprintf(guest.header->refusal, sizeof(guest.header->refusal), "%s", why);
		guest_find(FINDING_LIMIT_REFUSED);
	}
	log_line(LOG_ERROR, "%s", why);
}

static bool limits_are_good(char *line, size_t line_bytes)
{
	static const enum setting limits[] = { SETTING_memory, SETTING_job_memory, SETTING_inner_memory };
	static struct limit limit; /* not every stack has room; our lock is held */
	char why[200];

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (!limit_parse(&limit, settings_get(limits[i]), why, sizeof(why))) {
			snprintf(line, line_bytes, "%s: %s", settings_variable(limits[i]), why);
			return false;
		}
	}
	return true;
}

/* What can be checked without a driver. */
static void check_settings(void)
{
	char line[256];

	if (settings_overlong() >= 0) {
		snprintf(line, sizeof(line), "%s is too long", settings_variable(settings_overlong()));
		refuse(line);
	} else if (!limits_are_good(line, sizeof(line))) {
		refuse(line);
	} else if (!policy_read(&guest.policy, guest.kinds, line, sizeof(line))) {
		refuse(line);
	}
}

static void forget(void)
{
	memset(&guest, 0, sizeof(guest));
	guest_thread_pointer = NULL;
	ledger_forget();
	share_forget();
	members_forget();
	lease_forget();
	neighbours_forget();
	turns_forget();
	gputime_forget();
	traced_forget();
	bounds_forget();
	site_forget();
	growth_forget();
	names_forget();
	lookup_forget();
}

/* Where the kernel wipes this is done already. */
static void in_forked_child(void)
{
	attend_close();
	forget();
}

static void register_fork_handler(void)
{
	static bool registered;

	if (!registered)
		pthread_atfork(NULL, NULL, in_forked_child);
	registered = true;
}

static void open_ledger(void)
{
	struct process_identity who = { 0 };
	static char argv[sizeof(guest.header->argv)]; /* not every stack has room; our lock is held */
	char why[256] = "";
	char comm[sizeof(guest.header->comm)];

	identity_read(&who, comm);
	who.start_realtime_ns = guest_realtime_ns();
	copy_command(&who, argv, sizeof(argv));
	snprintf(who.job, sizeof(who.job), "%s", settings_get(SETTING_job));
	snprintf(who.labels, sizeof(who.labels), "%s", settings_get(SETTING_label));
	guest.header = ledger_open(&who, why, sizeof(why));
	if (!guest.header)
		return;
	growth_start(settings_get(SETTING_leak));
	memcpy(guest.header->argv, argv, sizeof(argv));
	memcpy(guest.header->comm, comm, sizeof(comm));
	strncpy(guest.header->version_text, CUWARD_VERSION, sizeof(guest.header->version_text) - 1);
	if (why[0]) {
		guest_find(FINDING_SHARE_UNAVAILABLE);
		log_line(LOG_WARN, "%s; this process keeps its books in private memory", why);
	}
	lookup_publish(guest.header);
	bypass_publish(guest.header);
}

struct threads {
	PAGE_COLOUR(4);
	struct thread all[THREADS_MAX];
};

static void start_locked(void)
{
	struct threads *threads = share_private(sizeof(*threads));

	attend_start();
	share_wipe_on_fork(&guest, sizeof(guest));
	if (threads) {
		share_wipe_on_fork(threads, sizeof(*threads));
		guest.threads = threads->all;
	}
	register_fork_handler();
	open_ledger();
	check_settings();
	if ((!guest.header || !guest.threads) && settings_is_set(SETTING_memory))
		refuse("no memory for the books of cuward, and a limit was asked for");
	__atomic_store_n(&guest.pid, getpid(), __ATOMIC_RELEASE);
}

static bool thread_is_dead(const struct thread *thread, uint32_t tid)
{
	return thread->tid == tid || (syscall(SYS_tgkill, guest.pid, thread->tid, 0) != 0 && errno == ESRCH);
}

/* With many threads come and gone, look for a dead one's block before taking a new one. */
static struct thread *adopt_dead(uint32_t tid)
{
	static uint32_t next;

	if (guest.thread_count < 64)
		return NULL;
	for (int tries = 0; tries < 8; tries++) {
		struct thread *thread = &guest.threads[next++ % guest.thread_count];

		if (thread->counts && thread_is_dead(thread, tid))
			return thread;
	}
	return NULL;
}

static struct thread *thread_locked(uint32_t tid)
{
	struct thread *thread = adopt_dead(tid);

	if (!thread && guest.thread_count < THREADS_MAX) {
		thread = &guest.threads[guest.thread_count];
		thread->number = guest.thread_count++;
		thread->counts = ledger_thread(thread->number);
	}
	if (!thread || !thread->counts)
		return NULL;
	thread->tid = tid;
	thread->counts->tid = tid;
	thread->counts->sync_since_ns = 0; /* whose block it was died in there */
	thread->counts->launched = thread->counts->launched_named = 0;
	thread->call = THREAD_IDLE;
	thread->frame = NULL;
	thread->context = thread->owner = NULL;
	thread->epoch = __atomic_load_n(&guest.epoch, __ATOMIC_RELAXED) - 1;
	thread->traced = 0;
	return thread;
}

/*
 * Where a fork does not wipe: still the process of before? A child that was made without handlers
 * forgets here. NULL: this thread has no place in the books. (A child of vfork would forget for its
 * parent: it may not call anything.)
 */
static __attribute__((noinline)) struct thread *look_again(void)
{
	static uint32_t forgetting; /* not wiped either: nobody held it when the child was made */
	uint32_t pid = getpid();
	struct thread *thread;

	if (guest.pid && guest.pid != pid) {
		lock_take(&forgetting);
		if (guest.pid && guest.pid != pid)
			in_forked_child();
		lock_give_back(&forgetting);
	}
	thread = guest_thread();
	if (!thread || thread < guest.threads || thread >= guest.threads + guest.thread_count)
		return NULL;
	thread->call = THREAD_IDLE;
	return thread;
}

/* The books are opened, and a block in them for this thread. */
static struct thread *enter(void)
{
	struct thread *thread = NULL;
	int saved = errno;
	UNCANCELLED_HERE;

	settings_read();
	if (settings_get(SETTING_disable)[0] == '1') {
		driver_find();
		return NULL;
	}
	driver_find();
	lock_take(&guest.lock);
	if (!guest.pid)
		start_locked();
	if (guest.header && guest.threads)
		thread = thread_locked(syscall(SYS_gettid));
	lock_give_back(&guest.lock);
	if (!thread) {
		thread = &last_resort;
		thread->counts = &last_resort_counts;
		thread->call = THREAD_IDLE;
	}
	guest_thread_pointer = thread;
	errno = saved;
	return thread;
}

struct thread *guest_enter(void)
{
	struct thread *thread = guest_thread();

	if (thread && thread->call == THREAD_IDLE)
		return thread;
	thread = likely(kernel_wipes) ? NULL : look_again();
	return thread ? thread : enter();
}

/* A handler on a stack of its own says nothing about what it interrupted by where it is. */
static bool is_on_another_stack(const struct thread *thread)
{
	const char *outer = thread->frame;
	stack_t now;

	return sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) &&
		(outer < (char *)now.ss_sp || outer >= (char *)now.ss_sp + now.ss_size);
}

/*
 * Above the frame of the unfinished call is where it returns to. Something else there, or a call that is
 * not deeper on the same stack, proves it over.
 */
__attribute__((no_sanitize_address))
bool guest_call_is_over(const struct thread *thread, const void *frame)
{
	const void *const *outer = thread->frame;

	/* The bits above are a signature where return addresses are signed (aarch64). */
	if (!outer || ((uintptr_t)outer[1] ^ (uintptr_t)thread->caller) << 16)
		return true;
	return frame >= thread->frame && !is_on_another_stack(thread);
}

void guest_open(void)
{
	UNCANCELLED_HERE;

	settings_read();
	lock_take(&guest.lock);
	if (!guest.pid)
		start_locked();
	lock_give_back(&guest.lock);
}

bool guest_may_start(void)
{
	return !guest.refused;
}

/* ---- what the current thread works on ---- */

int guest_device_index(CUdevice handle)
{
	/* A handle is the ordinal on every driver known; look it up all the same. */
	if (handle >= 0 && (uint32_t)handle < guest.device_count && guest.devices[handle].handle == handle)
		return handle;
	for (uint32_t i = 0; i < guest.device_count; i++) {
		if (guest.devices[i].handle == handle)
			return i;
	}
	return -1;
}

/* Beyond the table a green context counts as the owner of its memory, which then is never swept. */
void guest_is_green(CUcontext context, CUgreenCtx green, int device)
{
	struct guest_green *place = NULL;

	lock_take(&guest.lock);
	for (uint32_t i = 0; i < GREENS_MAX; i++) {
		struct guest_green *one = &guest.greens[i];

		if (!place && !one->context)
			place = one;
		if (one->context == context)
			place = one;
	}
	if (place) {
		place->green = green;
		place->device = device;
		__atomic_store_n(&place->context, context, __ATOMIC_RELEASE);
		if (place - guest.greens >= guest.green_count)
			__atomic_store_n(&guest.green_count, place - guest.greens + 1, __ATOMIC_RELEASE);
	}
	lock_give_back(&guest.lock);
	__atomic_add_fetch(&guest.epoch, 1, __ATOMIC_ACQ_REL);
}

void guest_green_gone(CUgreenCtx green)
{
	struct ledger_record heir;

	lock_take(&guest.lock);
	for (uint32_t i = 0; i < guest.green_count; i++) {
		if (guest.greens[i].green == green &&
		    !grant_object_find(OBJECT_GREEN_CONTEXT, (uint64_t)green, &heir))
			__atomic_store_n(&guest.greens[i].context, NULL, __ATOMIC_RELEASE);
	}
	lock_give_back(&guest.lock);
}

static CUcontext owner_of(CUcontext context)
{
	uint32_t count = __atomic_load_n(&guest.green_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		if (__atomic_load_n(&guest.greens[i].context, __ATOMIC_ACQUIRE) == context)
			return guest.devices[guest.greens[i].device].primary;
	}
	return context;
}

int guest_context_device(struct thread *thread, CUcontext context)
{
	uint32_t epoch = __atomic_load_n(&guest.epoch, __ATOMIC_ACQUIRE);
	CUdevice handle;
	int device = -1;

	if (context && real.cuCtxGetDevice(&handle) == CUDA_SUCCESS)
		device = guest_device_index(handle);
	/* Not an answer to keep: a primary context that is gone comes back under its old handle. */
	thread->context = device < 0 ? NULL : context;
	thread->device = device;
	thread->epoch = epoch;
	thread->owner = owner_of(context);
	return device;
}

void guest_tell_thread(struct thread *thread)
{
	char name[16] = "";
	struct event_thread event = {
		.thread = guest.key | (thread->number & 0xfff), .process = guest.key, .tid = thread->tid,
		.name = name,
	};

	thread->traced = trace_number;
	thread->counts->thread = event.thread;
	pthread_getname_np(pthread_self(), name, sizeof(name));
	trace_thread(&event);
}
