/*
 * patience.c - waiting for memory in turn, by priority, and the two ways to stop.
 *
 * Who waits says so in its slot. Of all that wait for the same limit on a device only the first
 * tries: the one of the highest priority, where a minute of waiting counts as much as one step of
 * priority.
 */
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "denial.h"
#include "grant.h"
#include "quota.h"
#include "share.h"

#define STEP_NS 60000000000ll
#define TERM_TO_KILL_NS 10000000000ull
#define STOPPED_NS 1000000000ull /* not seen for so long: it is stopped, or as good as that */

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static int64_t rank(const struct slot *slot, uint64_t now)
{
	return slot->priority * STEP_NS + (int64_t)(now - slot->waiting_since_ns);
}

/* Does it wait for what we wait for? Then what comes free is for one of us. */
static bool is_rival(const struct slot *slot, unsigned word_index, enum cuward_scope scope)
{
	if (slot->waiting_scope != scope || slot->waiting_device != word_index)
		return false;
	return scope != SCOPE_JOB || (slot->group_length == guest.slot->group_length &&
		memcmp(slot->who.job, guest.slot->who.job, slot->group_length) == 0);
}

/* Others do not wait for who does not try. */
static bool is_at_it(const struct slot *slot, uint64_t now)
{
	return (int64_t)(now - __atomic_load_n(&slot->waiting_seen_ns, __ATOMIC_RELAXED)) <
		(int64_t)STOPPED_NS;
}

static bool is_first(unsigned word_index, enum cuward_scope scope, uint64_t now)
{
	const struct slots_header *header = share_slots();
	const struct slot *slots = (const struct slot *)(header + 1);
	int64_t own;

	if (!guest.slot)
		return true;
	own = rank(guest.slot, now);
	for (uint32_t i = 0; i < header->slots_used && i < SLOT_COUNT; i++) {
		if (&slots[i] != guest.slot && slots[i].state == SLOT_TAKEN &&
		    slots[i].waiting_since_ns && is_rival(&slots[i], word_index, scope) &&
		    rank(&slots[i], now) > own && is_at_it(&slots[i], now))
			return false;
	}
	return true;
}

/*
 * The slot tells of the thread that came first of those that wait now. Count and slot change together:
 * else the last one that goes would silence one that has just come.
 */
static void say_waiting(unsigned word_index, uint64_t bytes, uint64_t now)
{
	if (!guest.slot)
		return;
	lock_take(&guest.waiting_lock);
	if (guest.waiting++ == 0) {
		guest.slot->waiting_device = word_index;
		guest.slot->waiting_bytes = bytes;
		__atomic_store_n(&guest.slot->waiting_since_ns, now, __ATOMIC_RELEASE);
	}
	lock_give_back(&guest.waiting_lock);
}

static void say_at_it(enum cuward_scope scope, uint64_t now)
{
	if (!guest.slot)
		return;
	__atomic_store_n(&guest.slot->waiting_scope, scope, __ATOMIC_RELAXED);
	__atomic_store_n(&guest.slot->waiting_seen_ns, now, __ATOMIC_RELAXED);
}

static void say_done(void)
{
	if (!guest.slot)
		return;
	lock_take(&guest.waiting_lock);
	if (--guest.waiting == 0)
		__atomic_store_n(&guest.slot->waiting_since_ns, 0, __ATOMIC_RELEASE);
	lock_give_back(&guest.waiting_lock);
}

/* Even if everybody else gave back all they hold? Then waiting is for nothing. */
static bool is_hopeless(const struct guest_device *on, uint64_t bytes, const struct refusal *why)
{
	if (why->scope == SCOPE_PROCESS)
		return bytes > why->limit_bytes;
	return quota_used(on->word) + bytes > why->limit_bytes;
}

static bool wait_for(int device, uint64_t bytes, struct refusal *why)
{
	const struct guest_device *on = &guest.devices[device];
	uint64_t began = guest_clock_ns();
	uint64_t now = began;
	unsigned behind = 0;
	bool taken = false;

	say_at_it(why->scope, began);
	say_waiting(on->ledger->slot_device, bytes, began);
	while (!taken && !is_hopeless(on, bytes, why) && now - began < guest.policy.wait_ns) {
		nap_ms(5);
		now = guest_clock_ns();
		say_at_it(why->scope, now);
		/* Threads of one process are not in each other's way. */
		if (why->scope == SCOPE_PROCESS || is_first(on->ledger->slot_device, why->scope, now))
			taken = grant_take_once(device, bytes, why);
		else if (++behind % 20 == 0)
			group_drop_dead(); /* those in front may be */
	}
	say_done();
	return taken;
}

/* The report first: nothing can be written afterwards. */
static void end_process(void)
{
	uint64_t began = guest_clock_ns();

	guest_end_by(END_SIGNAL, 128 + SIGTERM);
	kill(getpid(), SIGTERM);
	while (guest_clock_ns() - began < TERM_TO_KILL_NS) /* signals end naps */
		nap_ms(100);
	kill(getpid(), SIGKILL);
}

bool patience_take(struct thread *thread, int device, uint64_t bytes, struct refusal *why)
{
	int saved = errno;
	bool taken = false;
	int state;

	/* A thread that is cancelled here would be said to wait for ever. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	switch (guest.policy.on_limit) {
	case ON_LIMIT_WAIT:
		taken = wait_for(device, bytes, why);
		break;
	case ON_LIMIT_PAUSE:
		denial_refuse(thread, device, bytes, why);
		kill(getpid(), SIGSTOP);
		taken = grant_take_once(device, bytes, why);
		why->noted = true; /* it is the same request */
		break;
	case ON_LIMIT_KILL:
		denial_refuse(thread, device, bytes, why);
		end_process();
		break;
	case ON_LIMIT_DENY:
		break;
	}
	pthread_setcancelstate(state, NULL);
	errno = saved;
	return taken;
}
