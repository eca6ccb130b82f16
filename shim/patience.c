/*
 * patience.c - waiting for memory in turn, letting others go first, and the two ways to stop.
 */
#include "patience.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "bounds.h"
#include "denial.h"
#include "grant.h"
#include "peers.h"
#include "quota.h"
#include "share.h"
#include "turns.h"

#define TERM_TO_KILL_NS 10000000000ull
#define LOOK_MS 5
#define HAND_OVER_MS 50 /* whoever waits looks more often than that; the dead are not waited for */

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* Even if everybody else gave back all they hold? Then waiting is for nothing. */
static bool is_hopeless(const struct guest_device *on, uint64_t bytes, const struct refusal *why)
{
	uint64_t most = why->limit_bytes - (why->kept_bytes < why->limit_bytes ? why->kept_bytes :
		why->limit_bytes);

	if (why->scope == SCOPE_PROCESS)
		return bytes > why->limit_bytes;
	return quota_used(on->word) + bytes > most;
}

static bool try_in_turn(const struct asker *asker, uint64_t bytes, struct refusal *why)
{
	const struct guest_device *on = &guest.devices[asker->device];
	struct turns_ask ask = {
		.asker = asker, .word = on->word, .word_index = on->ledger->slot_device, .bytes = bytes,
		.limits = &on->group,
	};

	bounds_look();
	ask.process_limit = on->limit;
	return turns_look(&ask, why) == TURN_PASS && grant_take_once(asker, bytes, why);
}

static bool wait_for(int device, uint64_t bytes, struct refusal *why)
{
	const struct guest_device *on = &guest.devices[device];
	const uint64_t began = guest_clock_ns();
	struct asker asker = { .device = device, .since_ns = began, .queues = true };
	struct turn turn = { .since_ns = began, .bytes = bytes, .device = device,
		.word = on->ledger->slot_device };
	bool taken = false;
	unsigned tries;
	int place = -1;

	for (tries = 1; !taken && !is_hopeless(on, bytes, why); tries++) {
		uint64_t now = guest_clock_ns();

		if (now - began >= guest.policy.wait_ns)
			break;
		turn.scope = why->scope;
		turn.gid = why->gid;
		turns_keep(&place, &turn, now);
		if (tries == 1)
			bounds_note_waiting(device);
		nap_ms(LOOK_MS);
		taken = try_in_turn(&asker, bytes, why);
		if (!taken && tries % 20 == 0 && guest.slot)
			peers_drop_dead(guest.header->slot); /* who holds or comes first may be */
	}
	/* If it is no after all, then for a reason as of now, and not for others' sake. */
	asker.regardless = true;
	taken = taken || (tries > 1 && grant_take_once(&asker, bytes, why));
	turns_leave(place);
	bounds_note_waiting(device);
	return taken;
}

/* It would fit, and so would somebody who waits: he takes it in a moment, and then we see. */
static bool let_go_first(int device, uint64_t bytes, struct refusal *why)
{
	struct asker asker = { .device = device };
	bool taken = false;

	for (int ms = 0; !taken && why->turn == TURN_HAND_OVER; ms++) {
		asker.regardless = ms >= HAND_OVER_MS;
		nap_ms(1);
		taken = grant_take_once(&asker, bytes, why);
	}
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
	if (guest.policy.on_limit != ON_LIMIT_WAIT && why->turn != TURN_PASS)
		taken = let_go_first(device, bytes, why);
	switch (taken ? ON_LIMIT_DENY : guest.policy.on_limit) {
	case ON_LIMIT_WAIT:
		taken = wait_for(device, bytes, why);
		break;
	case ON_LIMIT_PAUSE:
		denial_refuse(thread, device, bytes, why);
		kill(getpid(), SIGSTOP);
		taken = grant_take_once(&(struct asker){ .device = device, .regardless = true }, bytes, why);
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
