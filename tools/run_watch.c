/*
 * run_watch.c - --stall and --idle: look at the processes of a run from time to time, from outside.
 *
 * A process is stalled while a thread of its is in one call that waits for the GPU, and no wait or
 * allocation of any of its threads began or ended. It is idle while it holds memory and makes no
 * call. Time counts only as it is seen: not while somebody stopped the process, or us, nor while it
 * waits for memory under its limit. Nothing here costs the process anything.
 */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "format.h"
#include "ledger_peek.h"
#include "need.h"
#include "outer_pid.h"
#include "pidfd.h"
#include "proc_state.h"
#include "slots_read.h"

/* Where --fail-on asks, or --on-stall, and no time is given. */
#define STANDARD_NS 600000000000ull
#define PERIOD_MAX_NS 1000000000ull
#define PERIOD_MIN_NS 20000000ull
/* From SIGTERM to SIGKILL. */
#define GRACE_NS 10000000000ull

struct watched {
	bool known;
	uint32_t generation;
	pid_t pid; /* as we see it, 0 unknown */
	struct ledger_peek last;
	uint64_t by_call[LEDGER_CALLS_MAX]; /* of that look */
	uint64_t activity_ns;
	uint64_t since_ns;  /* CLOCK_REALTIME, of the last change */
	uint64_t quiet_ns[WATCH_COUNT]; /* so long it is as --stall, as --idle means it */
	bool told[WATCH_COUNT];
	unsigned in_call; /* a thread was in it at the last two looks, + 1; 0: none, or one with a time */
	uint32_t in_call_thread;
	unsigned call; /* most of the last change */
	int pidfd;     /* it was sent SIGTERM; 0 it was not */
	uint64_t kill_ns; /* CLOCK_MONOTONIC: then SIGKILL follows */
};

static struct watched *all; /* by place of the slots file, and number of the slot */
static uint64_t looked_ns;  /* CLOCK_MONOTONIC */

const char *run_watch_word(enum run_watch_for what)
{
	static const char *const words[] = { [WATCH_STALL] = "stall", [WATCH_IDLE] = "idle" };

	return words[what];
}

void run_watch_read(struct run *run)
{
	for (enum run_watch_for what = 0; what < WATCH_COUNT; what++) {
		struct run_watch_order *order = &run->watch.orders[what];

		if (!order->ns && (order->terminate || order->fail))
			order->ns = STANDARD_NS;
	}
}

/* Eight looks at least: what lasts T is found at the latest an eighth of T later. */
uint64_t run_watch_period(const struct run *run)
{
	uint64_t period = PERIOD_MAX_NS;
	bool any = false;

	for (enum run_watch_for what = 0; what < WATCH_COUNT; what++) {
		uint64_t ns = run->watch.orders[what].ns;

		any |= ns > 0;
		if (ns && ns / 8 < period)
			period = ns / 8;
	}
	return !any || !run->dir[0] ? 0 : period < PERIOD_MIN_NS ? PERIOD_MIN_NS : period;
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t held(const struct slot *slot)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SLOT_DEVICES; i++)
		sum = slots_add(sum, slot->words[i] & WORD_BYTES_MASK);
	return sum;
}

/* ---- what is told ---- */

/* "stalled: train (pid 12) has been in cuCtxSynchronize for 30.0 s, ..." */
static void say(const struct run *run, const struct run_watch_found *found, pid_t pid)
{
	char *command = safe_text(found->who.command, 40);
	char *kernel = safe_text(found->kernel, 80);
	const char *ended = found->terminated ? "; SIGTERM is sent, SIGKILL follows in 10 s" : "";

	if (found->what == WATCH_STALL)
		run_say(run, "stalled: %s (pid %d) has been in %s for %s, since %s, and completed nothing%s%s; "
			"it holds %s%s", command, pid, call_name(found->call), format_ns(found->for_ns),
			format_moment(found->since_ns), found->kernel[0] ? ", last kernel " : "", kernel,
			format_bytes(found->held_bytes), ended);
	else
		run_say(run, "idle: %s (pid %d) holds %s and has made no CUDA call for %s, since %s; among its "
			"last calls was %s%s", command, pid, format_bytes(found->held_bytes),
			format_ns(found->for_ns), format_moment(found->since_ns), call_name(found->call),
			ended);
	free(command);
	free(kernel);
}

/* ---- the end of a process ---- */

/* Our user's slots are in his own folder, or where all users meet. */
enum { PLACE_OWN, PLACE_COMMON, PLACES };

static bool open_slots(struct slots_file *file, const struct run *run, unsigned place)
{
	char path[PATH_MAX + 32], why[256];

	snprintf(path, sizeof(path), "%s/slots.%u", place == PLACE_OWN ? run->dir : CUWARD_RUNDIR "/slots",
		geteuid());
	if (!slots_file_open(file, path, why, sizeof(why)))
		return false;
	if (!file->own)
		slots_file_close(file);
	return file->entries != NULL;
}

/* Whose slot is still locked had its pid when the descriptor was opened. */
static bool still_owns(const struct run *run, const struct watched *one)
{
	uint32_t number = (uint32_t)(one - all) % SLOT_COUNT, generation = one->generation;
	struct slots_file file;
	bool owns = false;

	if (!open_slots(&file, run, (unsigned)(one - all) / SLOT_COUNT))
		return false;
	for (size_t i = 0; i < file.count; i++)
		owns |= file.entries[i].number == number && file.entries[i].owner == OWNER_ALIVE &&
			file.entries[i].slot.generation == generation;
	slots_file_close(&file);
	return owns;
}

static bool terminate(const struct run *run, struct watched *one)
{
	int fd;

	if (one->pidfd)
		return true;
	fd = one->pid ? pidfd_of(one->pid) : -1;
	if (fd < 0)
		return false;
	if (!still_owns(run, one) || !pidfd_signal(fd, SIGTERM)) {
		close(fd);
		return false;
	}
	one->pidfd = fd;
	one->kill_ns = monotonic_ns() + GRACE_NS;
	return true;
}

/* Did it end? In its time, or by SIGKILL? */
static void follow(struct watched *one)
{
	if (!one->pidfd)
		return;
	if (!pidfd_ends_within(one->pidfd, 0)) {
		if (monotonic_ns() < one->kill_ns)
			return;
		pidfd_signal(one->pidfd, SIGKILL);
	}
	close(one->pidfd);
	one->pidfd = 0;
}

/* The command may end before what it started: who has his time keeps it. */
void run_watch_end(struct run *run)
{
	(void)run;
	for (uint32_t i = 0; all && i < PLACES * SLOT_COUNT; i++) {
		struct watched *one = &all[i];
		uint64_t now = monotonic_ns();

		if (one->pidfd && one->kill_ns > now)
			pidfd_ends_within(one->pidfd, one->kill_ns - now);
		if (one->pidfd)
			one->kill_ns = 0;
		follow(one);
	}
	free(all);
	all = NULL;
}

/* ---- what is seen ---- */

static void find(struct run *run, enum run_watch_for what, struct watched *one,
	const struct slots_file *file, const struct slots_entry *entry)
{
	const struct run_watch_order *order = &run->watch.orders[what];
	const struct slot *slot = &entry->slot;
	struct run_watch_found found = {
		.what = what, .who = slot->who, .pid = one->pid, .since_ns = one->since_ns,
		.for_ns = one->quiet_ns[what],
		.held_bytes = held(slot), .call = one->call,
	};

	if (what == WATCH_STALL && one->in_call) {
		found.call = one->in_call - 1;
		found.since_ns = run_now_ns() - found.for_ns;
		ledger_peek_kernel(found.kernel, file, entry, one->in_call_thread);
	} else if (what == WATCH_STALL) {
		found.call = one->last.sync_call;
		found.since_ns = one->last.sync_since_ns;
		memcpy(found.kernel, one->last.kernel, sizeof(found.kernel));
	}
	found.terminated = order->terminate && terminate(run, one);
	one->told[what] = true;
	run->watch.terminated |= found.terminated;
	run->watch.failed[what] = true;
	if (run->watch.count < WATCH_FOUND_MAX)
		run->watch.found[run->watch.count] = found;
	run->watch.count++;
	say(run, &found, one->pid ? one->pid : (pid_t)slot->who.pid);
	if (order->terminate && !found.terminated)
		run_fail("process %d is not ended: %s", one->pid, one->pid ? strerror(errno) :
			"its pid is not known here");
}

static unsigned most_called(const uint64_t *before, const uint64_t *now)
{
	unsigned most = LEDGER_CALLS_MAX;
	uint64_t count = 0;

	for (unsigned i = 0; i < LEDGER_CALLS_MAX; i++)
		if (now[i] > before[i] && now[i] - before[i] > count) {
			count = now[i] - before[i];
			most = i;
		}
	return most;
}

static void reset(struct watched *one)
{
	memset(one->quiet_ns, 0, sizeof(one->quiet_ns));
	memset(one->told, 0, sizeof(one->told));
}

/* Is it as it was at the last look? What changed is noted. */
static void compare(struct watched *one, const struct ledger_peek *now, const uint64_t *by_call,
	const struct slot *slot, bool same[WATCH_COUNT])
{
	const struct ledger_peek *last = &one->last;
	bool calm = slot->activity_ns == one->activity_ns;
	bool waits = now->sync_since_ns && now->sync_since_ns == last->sync_since_ns &&
		now->sync_calls == last->sync_calls;
	unsigned in_call = waits || !calm ? 0 : ledger_peek_in_call(last, now, &one->in_call_thread);

	if (in_call && (in_call != one->in_call || ledger_peek_works(in_call - 1)))
		one->quiet_ns[WATCH_STALL] = 0;
	one->in_call = in_call;
	same[WATCH_STALL] = calm && (waits || (in_call && !ledger_peek_works(in_call - 1)));
	same[WATCH_IDLE] = calm && !now->sync_since_ns && !in_call && now->calls == last->calls &&
		held(slot);
	if (now->calls != last->calls)
		one->call = most_called(one->by_call, by_call);
	if (!calm || now->calls != last->calls)
		one->since_ns = run_now_ns();
	ledger_peek_free(&one->last);
	one->last = *now;
	memcpy(one->by_call, by_call, sizeof(one->by_call));
	one->activity_ns = slot->activity_ns;
}

static void look_at(struct run *run, struct watched *one, const struct slots_file *file,
	const struct slots_entry *entry, uint64_t step)
{
	struct proc_state proc;
	struct ledger_peek now;
	uint64_t by_call[LEDGER_CALLS_MAX];
	bool same[WATCH_COUNT];

	if (!ledger_peek(&now, by_call, file, entry)) {
		reset(one);
		return;
	}
	compare(one, &now, by_call, &entry->slot, same);
	if (entry->slot.waiting_since_ns || (proc_state(one->pid, &proc) && proc.stopped)) {
		reset(one);
		return;
	}
	for (enum run_watch_for what = 0; what < WATCH_COUNT; what++) {
		uint64_t wanted = run->watch.orders[what].ns;

		one->quiet_ns[what] = same[what] ? one->quiet_ns[what] + step : 0;
		one->told[what] &= same[what];
		if (wanted && !one->told[what] && one->quiet_ns[what] >= wanted)
			find(run, what, one, file, entry);
	}
}

static bool is_of_run(const struct run *run, const struct process_identity *who)
{
	size_t length = strlen(run->job);

	return strncmp(who->job, run->job, length) == 0 && (!who->job[length] || who->job[length] == '/');
}

static struct watched *watched_of(const struct slots_entry *entry, unsigned place)
{
	struct watched *one = &all[place * SLOT_COUNT + entry->number];

	if (one->known && one->generation == entry->slot.generation)
		return one;
	follow(one);
	if (one->pidfd)
		return NULL; /* the next look will do */
	ledger_peek_free(&one->last);
	*one = (struct watched){ .known = true, .generation = entry->slot.generation,
		.since_ns = run_now_ns(), .call = LEDGER_CALLS_MAX, .pid = outer_pid(&entry->slot.who) };
	outer_pid_forget();
	return one;
}

/* A gap that we did not sleep through ourselves is not theirs. */
static uint64_t step_since_last(uint64_t period)
{
	uint64_t now = monotonic_ns(), step = looked_ns ? now - looked_ns : 0;

	looked_ns = now;
	return step < 2 * period ? step : 2 * period;
}

static void look_at_all(struct run *run, const struct slots_file *file, unsigned place, uint64_t step)
{
	for (size_t i = 0; i < file->count; i++) {
		const struct slots_entry *entry = &file->entries[i];
		struct watched *one;

		if (entry->owner == OWNER_DEAD || !is_of_run(run, &entry->slot.who))
			continue;
		one = watched_of(entry, place);
		if (one)
			look_at(run, one, file, entry, step);
	}
}

void run_watch_look(struct run *run)
{
	uint64_t period = run_watch_period(run), step;
	struct slots_file file;

	/* Signals wake us too. */
	if (looked_ns && monotonic_ns() - looked_ns < period / 2)
		return;
	step = step_since_last(period);
	if (!all)
		all = need_zeroed(PLACES * SLOT_COUNT, sizeof(*all));
	for (unsigned place = 0; place < PLACES; place++)
		if (open_slots(&file, run, place)) {
			look_at_all(run, &file, place, step);
			ledger_peek_done();
			slots_file_close(&file);
		}
	for (uint32_t i = 0; i < PLACES * SLOT_COUNT; i++)
		follow(&all[i]);
}
