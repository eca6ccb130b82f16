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
#include "neighbours.h"
#include "peers.h"
#include "quota.h"
#include "share.h"
#include "turns.h"

#define PATIENCE_NS 1000000000ull

/* Slots of one group. A reader checks the generation before and after. */
struct members {
	uint32_t generation; /* of slots_header.taken; 0 while it is made */
	uint32_t count;
	const uint64_t *words[SLOT_COUNT]; /* of each member's slot */
};

_Static_assert(offsetof(struct slot, words) == 0, "a slot is found by its words");

/* GPU is everybody's; UNIX and those after it are the groups of users that limit us. */
enum { JOB, USER, GPU, UNIX, GROUPS = GROUP_LIMITS };

/* Lists take turns, so that one in use is rarely rewritten. */
#define LISTS 4

static struct {
	PAGE_COLOUR(7);
	uint32_t lock; /* of making lists */
	uint32_t self;
	struct members *now[GROUPS];
	unsigned next[GROUPS];
	char job[128];
	uint32_t gids[SLOT_GROUPS];
	struct members lists[GROUPS][LISTS];
} WHOLE_PAGES group;

static struct slot *slots(void)
{
	return (struct slot *)(share_slots() + 1);
}

/* ---- who belongs to us ---- */

bool group_is_part(const char *job, const char *of)
{
	size_t length = strlen(of);

	if (!length)
		return job[0] == '\0';
	return strncmp(job, of, length) == 0 && (job[length] == '\0' || job[length] == '/');
}

static bool is_bound(const struct slot *slot, uint32_t gid)
{
	for (unsigned i = 0; i < SLOT_GROUPS; i++)
		if (slot->group_gids[i] == gid + 1)
			return true;
	return false;
}

static bool is_member(const struct slot *slot, int which)
{
	switch (which) {
	case JOB: return group_is_part(slot->who.job, group.job);
	case USER:
	case GPU: return true;
	default: return is_bound(slot, group.gids[which - UNIX]);
	}
}

static struct members *make_list(int which)
{
	struct slots_header *header = share_slots();
	struct members *list;
	uint32_t generation;

	lock_take(&group.lock);
	list = &group.lists[which][group.next[which]++ % LISTS];
	__atomic_store_n(&list->generation, 0, __ATOMIC_SEQ_CST);
	generation = __atomic_load_n(&header->taken, __ATOMIC_SEQ_CST);
	list->count = 0;
	for (uint32_t i = 0; i < header->slots_used && i < SLOT_COUNT; i++) {
		if (slots()[i].state != SLOT_FREE && is_member(&slots()[i], which))
			list->words[list->count++] = slots()[i].words;
	}
	__atomic_store_n(&list->generation, generation, __ATOMIC_SEQ_CST);
	__atomic_store_n(&group.now[which], list, __ATOMIC_RELEASE);
	lock_give_back(&group.lock);
	return list;
}

/*
 * The members as of now. Whoever took its slot after this reading of the generation raises after it too,
 * and then sees what we raised before.
 */
static struct members *members(int which)
{
	struct members *list = __atomic_load_n(&group.now[which], __ATOMIC_ACQUIRE);

	if (unlikely(!list || __atomic_load_n(&share_slots()->taken, __ATOMIC_SEQ_CST) !=
		__atomic_load_n(&list->generation, __ATOMIC_SEQ_CST)))
		list = make_list(which);
	return list;
}

static uint64_t held(const struct members *list, uint32_t i, unsigned word_index)
{
	return __atomic_load_n(&list->words[i][word_index], __ATOMIC_SEQ_CST) & WORD_BYTES_MASK;
}

/* Two sums at once: the loads do not wait for each other's addition. */
static uint64_t sum_list(const struct members *list, unsigned word_index)
{
	uint32_t count = list->count;
	uint64_t even = 0, odd = 0;
	uint32_t i;

	for (i = 0; i + 1 < count; i += 2) {
		even += held(list, i, word_index);
		odd += held(list, i + 1, word_index);
	}
	return even + odd + (i < count ? held(list, i, word_index) : 0);
}

/* Of other users too? */
static bool is_common(int which)
{
	return which >= GPU;
}

static uint32_t gid_of(int which)
{
	return which == GPU ? NEIGHBOURS_ALL : group.gids[which - UNIX];
}

static uint64_t saturated(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* What other users' processes add; what is kept for somebody is as good as held. */
static __attribute__((noinline)) uint64_t others(int which, unsigned word_index, bool carefully,
	uint64_t *kept)
{
	struct neighbours_sum sum = { 0 };

	neighbours_add(word_index, gid_of(which), carefully, &sum);
	*kept = sum.reserved;
	return saturated(sum.bytes, sum.reserved);
}

/* As consistent as raising is: what we raised is seen by everybody before any word is read. */
static uint64_t sum(int which, unsigned word_index, bool carefully, uint64_t *kept)
{
	struct members *list;
	uint32_t generation;
	uint64_t bytes;

	do {
		list = members(which);
		generation = __atomic_load_n(&list->generation, __ATOMIC_SEQ_CST);
		bytes = sum_list(list, word_index);
	} while (unlikely(!generation ||
		generation != __atomic_load_n(&list->generation, __ATOMIC_SEQ_CST)));
	if (unlikely(is_common(which)))
		bytes = saturated(bytes, others(which, word_index, carefully, kept));
	return bytes;
}

/* ---- does it fit? ---- */

static uint64_t limit_of(const struct group_limits *limits, int which)
{
	switch (which) {
	case JOB: return limits->job;
	case USER: return limits->user;
	case GPU: return limits->gpu;
	default: return limits->group[which - UNIX];
	}
}

static enum cuward_scope scope_of(int which)
{
	static const enum cuward_scope scopes[] = { SCOPE_JOB, SCOPE_USER, SCOPE_GPU };

	return which < UNIX ? scopes[which] : SCOPE_GROUP;
}

/*
 * Why not, if not; `over` is whose limit it is. Carefully: the dead of other users, whose slots we
 * may not clean, do not count.
 */
struct verdict {
	struct refusal *why;
	int over;
	bool carefully;
};

static bool fits_one(int which, unsigned word_index, uint64_t limit, struct verdict *verdict)
{
	uint64_t kept = 0;
	uint64_t used = limit == BYTES_NONE ? 0 : sum(which, word_index, verdict->carefully, &kept);

	if (likely(used <= limit))
		return true;
	verdict->over = which;
	verdict->why->scope = scope_of(which);
	verdict->why->limit_bytes = limit;
	verdict->why->used_bytes = used;
	verdict->why->kept_bytes = kept;
	verdict->why->source = NULL;
	verdict->why->gid = which < UNIX ? 0 : group.gids[which - UNIX];
	return false;
}

static bool fits(unsigned word_index, const struct group_limits *limits, struct verdict *verdict)
{
	if (!fits_one(JOB, word_index, limits->job, verdict) ||
		!fits_one(USER, word_index, limits->user, verdict))
		return false;
	for (int which = GPU; which < GROUPS; which++)
		if (unlikely(limit_of(limits, which) != BYTES_NONE) &&
			!fits_one(which, word_index, limit_of(limits, which), verdict))
			return false;
	return true;
}

bool group_rooms(unsigned word_index, const struct group_limits *limits, uint64_t raised,
	struct group_room rooms[GROUP_LIMITS])
{
	bool common = false;

	for (int which = 0; which < GROUPS; which++) {
		uint64_t limit = limit_of(limits, which), kept = 0;
		uint64_t used = limit == BYTES_NONE ? 0 : sum(which, word_index, true, &kept);

		used -= used > raised ? raised : used;
		rooms[which] = (struct group_room){
			.left_bytes = limit == BYTES_NONE ? BYTES_NONE : used < limit ? limit - used : 0,
			.why = { .scope = scope_of(which), .limit_bytes = limit, .used_bytes = used,
				.kept_bytes = kept, .gid = which < UNIX ? 0 : group.gids[which - UNIX] },
		};
		common |= limit != BYTES_NONE && is_common(which);
	}
	return common;
}

uint64_t group_room(unsigned word_index, const struct group_limits *limits)
{
	struct group_room rooms[GROUP_LIMITS];
	uint64_t room = BYTES_NONE;

	group_rooms(word_index, limits, 0, rooms);
	for (int which = 0; which < GROUPS; which++)
		room = rooms[which].left_bytes < room ? rooms[which].left_bytes : room;
	return room;
}

int group_which(const struct slot *slot, unsigned scope, uint32_t gid)
{
	for (int which = 0; which < GROUPS; which++)
		if (scope_of(which) == scope && (which < UNIX || group.gids[which - UNIX] == gid))
			return !slot || which != JOB || (slot->group_length == strlen(group.job) &&
				is_member(slot, JOB)) ? which : -1;
	return -1;
}

uint64_t group_least(const struct group_limits *limits)
{
	uint64_t least = BYTES_NONE;

	for (int which = 0; which < GROUPS; which++)
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

/* All words of a group's members as one number: equal numbers, equal words, for all that matters. */
static uint64_t reading(int which, unsigned word_index, unsigned *asking)
{
	const struct members *list = members(which);
	uint64_t hash = list->generation;

	for (uint32_t i = 0; i < list->count; i++) {
		uint64_t word = __atomic_load_n(&list->words[i][word_index], __ATOMIC_SEQ_CST);

		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
		*asking += quota_asking(word);
	}
	if (is_common(which)) {
		struct neighbours_sum sum = { .hash = hash };

		neighbours_add(word_index, gid_of(which), true, &sum);
		*asking += sum.asking;
		hash = sum.hash;
	}
	return hash;
}

/* Nobody but this request is undecided, and nothing moves. */
static bool is_quiet(int which, unsigned word_index)
{
	unsigned asking = 0, again = 0;
	uint64_t first = reading(which, word_index, &asking);

	return reading(which, word_index, &again) == first && asking == 1 && again == 1;
}

/* Who holds most, for whoever reads the refusal. */
static void name_holders(unsigned word_index, const struct verdict *verdict)
{
	const struct members *list = members(verdict->over);

	for (uint32_t i = 0; i < list->count; i++) {
		const struct slot *slot = (const struct slot *)list->words[i]; /* its first member */

		neighbours_place(verdict->why->holders, slot, quota_used(&slot->words[word_index]));
	}
	if (is_common(verdict->over))
		neighbours_name(word_index, gid_of(verdict->over), verdict->why->holders);
}

static void refused(const struct request *request, const struct verdict *verdict)
{
	struct refusal *why = request->why;

	quota_withdraw(request->word, request->bytes);
	why->used_bytes -= request->bytes < why->used_bytes ? request->bytes : why->used_bytes;
	why->turn = TURN_PASS;
	name_holders(request->word_index, verdict);
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

/* Raised and too much: granted later on, or refused. */
static bool decide(const struct request *request, uint64_t deadline, struct verdict *verdict)
{
	uint64_t suspicious = clock_ns() + SUSPICION_NS;
	unsigned word_index = request->word_index;

	for (;;) {
		bool over = !fits(word_index, request->limits, verdict);
		bool quiet = over && is_quiet(verdict->over, word_index);
		uint64_t now;

		if (!over)
			return settle(request);
		now = clock_ns();
		/* Before a no, and when somebody stays undecided for long: are they alive at all? */
		if ((quiet || now > suspicious) && peers_drop_dead(group.self))
			continue;
		if ((quiet && !fits(word_index, request->limits, verdict)) || now > deadline)
			break;
		if (now > suspicious)
			suspicious = now + SUSPICION_NS;
		if (!quiet)
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
	common_turn = is_common(verdict->over) ? take_turn(true, deadline) : -1;
	granted = raise_own(request) && decide(request, deadline, verdict);
	if (common_turn >= 0)
		close(common_turn);
	if (turn >= 0)
		close(turn);
	errno = saved;
	return granted;
}

/* Raised, too much, and nobody else is undecided: then it is no, without taking turns. */
static bool is_plainly_over(const struct request *request, struct verdict *verdict)
{
	return is_quiet(verdict->over, request->word_index) && !peers_drop_dead(group.self) &&
		!fits(request->word_index, request->limits, verdict);
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
	if (is_plainly_over(request, verdict))
		refused(request, verdict);
	else
		taken = contend(request, verdict);
	pthread_setcancelstate(state, NULL);
	return taken;
}

bool group_take(const struct request *request)
{
	struct verdict verdict = { .why = request->why };

	if (unlikely(!raise_own(request)))
		return false;
	if (likely(fits(request->word_index, request->limits, &verdict)))
		return settle(request);
	return take_over_limit(request, &verdict);
}

void group_open(const char *job, uint32_t self)
{
	share_wipe_on_fork(&group, sizeof(group));
	group.self = self;
	strncpy(group.job, job, sizeof(group.job) - 1);
}

void group_join(const uint32_t *gids, unsigned count)
{
	struct slot *own = &slots()[group.self];

	for (unsigned i = 0; i < count && i < SLOT_GROUPS; i++) {
		group.gids[i] = gids[i];
		own->group_gids[i] = gids[i] + 1;
	}
	/* Whoever counts that group's processes made his list before. */
	if (count)
		share_slot_changed();
}

static void inherit_from(struct slot *own, const struct slot *other)
{
	bool same_job = group.job[0] && is_member(other, JOB);

	for (unsigned d = 0; d < SLOT_DEVICES; d++) {
		if (same_job && other->job_limit_override[d])
			own->job_limit_override[d] = other->job_limit_override[d];
		if (other->user_limit_override[d])
			own->user_limit_override[d] = other->user_limit_override[d];
	}
}

void group_inherit(struct slot *own)
{
	const struct members *list = members(USER);
	int fd = peers_open();

	for (uint32_t i = 0; fd >= 0 && i < list->count; i++) {
		uint32_t number = (const struct slot *)list->words[i] - slots();

		if (number == group.self)
			continue;
		if (peers_take_over(fd, number)) /* it is dead */
			peers_let_go(fd, number);
		else
			inherit_from(own, &slots()[number]);
	}
	if (fd >= 0)
		close(fd);
}

uint64_t group_job_limit(uint32_t slot_device)
{
	const struct members *list = members(USER);
	uint64_t lowest = BYTES_NONE;

	for (uint32_t i = 0; group.job[0] && i < list->count; i++) {
		const struct slot *other = &slots()[(const struct slot *)list->words[i] - slots()];
		uint64_t bytes = __atomic_load_n(&other->job_asked[slot_device], __ATOMIC_RELAXED);

		/* Not one that a run within it has for itself. */
		if (other != &slots()[group.self] && is_member(other, JOB) &&
			other->group_length == strlen(group.job) && bytes && bytes < lowest)
			lowest = bytes;
	}
	return lowest;
}

void group_forget(void)
{
	memset(&group, 0, sizeof(group));
}
