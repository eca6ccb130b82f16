/*
 * group.c - admission to limits of several processes, without a shared lock on the way of a call.
 */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "lease.h"
#include "neighbours.h"
#include "peers.h"
#include "quota.h"
#include "share.h"
#include "turns.h"

#define PATIENCE_NS 1000000000ull

/* ---- does it fit? ---- */

static uint64_t limit_of(const struct group_limits *limits, int which)
{
	switch (which) {
	case MEMBERS_JOB: return limits->job;
	case MEMBERS_INNER: return limits->inner;
	case MEMBERS_USER: return limits->user;
	case MEMBERS_GPU: return limits->gpu;
	default: return limits->group[which - MEMBERS_UNIX];
	}
}

/*
 * Why not, if not; `over` is whose limit it is. Carefully: the dead of other users, whose slots we
 * may not clean, do not count.
 */
struct verdict {
	struct refusal *why;
	int over;
	bool leased; /* it will fit, when leases are over */
	bool carefully;
	uint64_t room; /* that limits of all users leave */
};

static bool is_over(int which, uint64_t limit, uint64_t used, uint64_t kept, struct verdict *verdict)
{
	verdict->over = which;
	verdict->leased = false;
	verdict->why->scope = members_scope(which);
	verdict->why->limit_bytes = limit;
	verdict->why->used_bytes = used;
	verdict->why->kept_bytes = kept;
	verdict->why->source = which == MEMBERS_INNER ? "CUWARD_INNER_MEMORY" : NULL;
	verdict->why->gid = members_gid(which);
	return true;
}

/* Of a job, a run within it, or a user. */
static bool fits_one(int which, unsigned word_index, uint64_t limit, struct verdict *verdict)
{
	uint64_t used = limit == BYTES_NONE ? 0 : members_sum(which, word_index);

	return likely(used <= limit) || !is_over(which, limit, used, 0, verdict);
}

static bool fits_ours(unsigned word_index, const struct group_limits *limits, struct verdict *verdict)
{
	return fits_one(MEMBERS_JOB, word_index, limits->job, verdict) &&
		fits_one(MEMBERS_INNER, word_index, limits->inner, verdict) &&
		fits_one(MEMBERS_USER, word_index, limits->user, verdict);
}

static bool has_common(const struct group_limits *limits)
{
	uint64_t all = BYTES_NONE;

	for (int which = MEMBERS_GPU; which < MEMBERS_LIMITS; which++)
		all &= limit_of(limits, which);
	return all != BYTES_NONE;
}

static bool fits_common_one(int which, unsigned word_index, uint64_t limit, struct verdict *verdict)
{
	uint64_t kept = 0;
	uint64_t used = members_sum_leased(which, word_index, verdict->carefully, &kept);

	if (likely(used <= limit)) {
		verdict->room = limit - used < verdict->room ? limit - used : verdict->room;
		return true;
	}
	/* What is told is what is held. */
	if (verdict->carefully)
		used = members_sum_held(which, word_index, &kept);
	is_over(which, limit, used, kept, verdict);
	verdict->leased = used <= limit;
	return false;
}

/* Of users together. */
static __attribute__((noinline)) bool fits_common(unsigned word_index,
	const struct group_limits *limits, struct verdict *verdict)
{
	verdict->room = BYTES_NONE;
	for (int which = MEMBERS_GPU; which < MEMBERS_LIMITS; which++)
		if (limit_of(limits, which) != BYTES_NONE &&
			!fits_common_one(which, word_index, limit_of(limits, which), verdict))
			return false;
	return true;
}

static bool fits(unsigned word_index, const struct group_limits *limits, struct verdict *verdict)
{
	return fits_ours(word_index, limits, verdict) && (likely(!has_common(limits)) ||
		fits_common(word_index, limits, verdict));
}

bool group_rooms(unsigned word_index, const struct group_limits *limits, uint64_t raised,
	struct group_room rooms[MEMBERS_LIMITS])
{
	bool common = false;

	for (int which = 0; which < MEMBERS_LIMITS; which++) {
		uint64_t limit = limit_of(limits, which), kept = 0;
		uint64_t used = limit == BYTES_NONE ? 0 : members_sum_held(which, word_index, &kept);

		used -= used > raised ? raised : used;
		rooms[which] = (struct group_room){
			.left_bytes = limit == BYTES_NONE ? BYTES_NONE : used < limit ? limit - used : 0,
			.why = { .scope = members_scope(which), .limit_bytes = limit, .used_bytes = used,
				.kept_bytes = kept, .gid = members_gid(which),
				.source = which == MEMBERS_INNER ? "CUWARD_INNER_MEMORY" : NULL },
		};
		common |= limit != BYTES_NONE && members_are_common(which);
	}
	return common;
}

uint64_t group_room(unsigned word_index, const struct group_limits *limits)
{
	struct group_room rooms[MEMBERS_LIMITS];
	uint64_t room = BYTES_NONE;

	group_rooms(word_index, limits, 0, rooms);
	for (int which = 0; which < MEMBERS_LIMITS; which++)
		room = rooms[which].left_bytes < room ? rooms[which].left_bytes : room;
	return room;
}

uint64_t group_least(const struct group_limits *limits)
{
	uint64_t least = BYTES_NONE;

	for (int which = 0; which < MEMBERS_LIMITS; which++)
		least = limit_of(limits, which) < least ? limit_of(limits, which) : least;
	return least;
}

/* ---- it does not: taking turns ---- */

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static int open_turn(bool common)
{
	char why[256];
	int folder = common ? -1 : share_folder(why, sizeof(why));
	int fd = common ? admin_dir_open_turn() : folder < 0 ? -1 :
		openat(folder, "turn", O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (folder >= 0)
		close(folder);
	return fd;
}

/*
 * Fairness only: without the turn, after a while, it is tried all the same. Its own open file, so that
 * threads take turns too, and death gives it back.
 */
static int take_turn(bool common, uint64_t deadline)
{
	int fd = open_turn(common);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && clock_ns() < deadline)
		nap();
	return fd;
}


static void refused(const struct request *request, const struct verdict *verdict)
{
	struct refusal *why = request->why;

	quota_withdraw(request->word, request->bytes);
	why->used_bytes -= request->bytes < why->used_bytes ? request->bytes : why->used_bytes;
	why->turn = TURN_PASS;
	members_name(verdict->over, request->word_index, why->holders);
}

/* ---- it does: is it for us? ---- */

static bool somebody_waits(const struct slots_header *header, const struct group_limits *limits)
{
	return __atomic_load_n(&turns.count, __ATOMIC_RELAXED) ||
		(header && __atomic_load_n(&header->waiting, __ATOMIC_RELAXED)) ||
		(__atomic_load_n(&neighbours_wait, __ATOMIC_RELAXED) && group_least(limits) != BYTES_NONE);
}

/* Raised, and it fits; but somebody may have come before us. */
static __attribute__((noinline)) bool is_our_turn(const struct request *request)
{
	struct turns_ask ask = {
		.asker = request->asker, .word = request->word, .word_index = request->word_index,
		.bytes = request->bytes, .raised = request->bytes, .process_limit = request->process_limit,
		.limits = request->limits,
	};
	int saved = errno;
	int state;

	/* Files are opened: a thread cancelled there would stay undecided for ever. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	request->why->turn = turns_look(&ask, request->why);
	pthread_setcancelstate(state, NULL);
	errno = saved;
	return request->why->turn == TURN_PASS;
}

/* Granted, unless it is somebody else's turn. */
static bool settle(const struct request *request)
{
	if (unlikely(somebody_waits(share_slots(), request->limits)) && !request->asker->regardless &&
		!is_our_turn(request)) {
		quota_withdraw(request->word, request->bytes);
		memset(request->why->holders, 0, sizeof(request->why->holders));
		request->why->noted = false;
		return false;
	}
	quota_settle(request->word);
	return true;
}

#define SUSPICION_NS 2000000ull

/* Too much, and so it was while nothing moved and nobody else was undecided. */
static bool is_plainly_over(const struct request *request, struct verdict *verdict)
{
	int which = verdict->over;
	unsigned asking = 0, again = 0;
	uint64_t first = members_reading(which, request->word_index, &asking);

	return asking == 1 && !fits(request->word_index, request->limits, verdict) &&
		verdict->over == which && !verdict->leased &&
		members_reading(which, request->word_index, &again) == first && again == 1;
}

/* Raised and too much: granted later on, or refused. */
static bool decide(const struct request *request, uint64_t deadline, struct verdict *verdict)
{
	uint64_t suspicious = clock_ns() + SUSPICION_NS;

	for (;;) {
		bool hopeless;
		uint64_t now;

		if (fits(request->word_index, request->limits, verdict))
			return settle(request);
		hopeless = !verdict->leased && is_plainly_over(request, verdict);
		now = clock_ns();
		/* Before a no, and when somebody stays undecided for long: are they alive at all? */
		if ((hopeless || now > suspicious) && peers_drop_dead(members_self()))
			continue;
		if (hopeless || now > deadline)
			break;
		if (now > suspicious)
			suspicious = now + SUSPICION_NS;
		nap();
	}
	refused(request, verdict);
	return false;
}

/* The limit of the process: only its own threads can have been at it. */
static bool raise_own(const struct request *request)
{
	if (likely(quota_raise(request->word, request->bytes, request->process_limit)))
		return true;
	*request->why = (struct refusal){
		.limit_bytes = request->process_limit, .used_bytes = quota_used(request->word),
	};
	return false;
}

static __attribute__((noinline)) bool contend(const struct request *request, struct verdict *verdict)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;
	int saved = errno;
	bool granted;
	int turn, common_turn;

	quota_withdraw(request->word, request->bytes);
	/* First our own users' turn, then everybody's: the same order for all. */
	turn = take_turn(false, deadline);
	common_turn = members_are_common(verdict->over) ? take_turn(true, deadline) : -1;
	granted = raise_own(request) && decide(request, deadline, verdict);
	if (common_turn >= 0)
		close(common_turn);
	if (turn >= 0)
		close(turn);
	errno = saved;
	return granted;
}

/* Files are opened and time passes: a thread cancelled there would stay undecided for ever. */
static __attribute__((noinline)) bool take_over_limit(const struct request *request,
	struct verdict *verdict)
{
	bool taken = false;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	memset(request->why->holders, 0, sizeof(request->why->holders));
	request->why->noted = false;
	verdict->carefully = true;
	/* Then it is no, without taking turns. */
	if (is_plainly_over(request, verdict) && !peers_drop_dead(members_self()))
		refused(request, verdict);
	else
		taken = contend(request, verdict);
	pthread_setcancelstate(state, NULL);
	return taken;
}

/* All words are read; the next requests may do without that. */
static __attribute__((noinline)) bool take_common(const struct request *request, struct verdict *verdict)
{
	if (unlikely(!fits_common(request->word_index, request->limits, verdict)))
		return take_over_limit(request, verdict);
	if (!settle(request))
		return false;
	if (!somebody_waits(share_slots(), request->limits) &&
		lease_ask(request->word_index, quota_used(request->word), verdict->room))
		lease_had(request->word_index, fits_common(request->word_index, request->limits, verdict));
	return true;
}

bool group_take(const struct request *request)
{
	struct verdict verdict = { .why = request->why };

	if (unlikely(!raise_own(request)))
		return false;
	if (unlikely(!fits_ours(request->word_index, request->limits, &verdict)))
		return take_over_limit(request, &verdict);
	if (likely(!has_common(request->limits)) ||
		likely(lease_covers(request->word_index, quota_used(request->word))))
		return settle(request);
	return take_common(request, &verdict);
}
