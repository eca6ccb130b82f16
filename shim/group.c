/*
 * group.c - admission to the limits of a job and a user, without a shared lock on the way of a call.
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

#include "peers.h"
#include "quota.h"
#include "share.h"

#define PATIENCE_NS 1000000000ull
#define DEATHS_EVERY_NS 1000000ull

/* Slots of one group. A reader checks the generation before and after. */
struct members {
	uint32_t generation; /* of slots_header.taken; 0 while it is made */
	uint32_t count;
	const uint64_t *words[SLOT_COUNT]; /* of each member's slot */
};

_Static_assert(offsetof(struct slot, words) == 0, "a slot is found by its words");

enum { JOB, USER, GROUPS };

/* Lists take turns, so that one in use is rarely rewritten. */
#define LISTS 4

static struct {
	PAGE_COLOUR(7);
	uint32_t lock; /* of making lists */
	uint32_t self;
	uint64_t looked_ns; /* when deaths were looked for */
	struct members *now[GROUPS];
	unsigned next[GROUPS];
	char job[128];
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
		if (slots()[i].state == SLOT_TAKEN && (which == USER ||
			group_is_part(slots()[i].who.job, group.job)))
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

/* As consistent as raising is: what we raised is seen by everybody before any word is read. */
static uint64_t sum(int which, unsigned word_index)
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
	return bytes;
}

/* ---- does it fit? ---- */

static bool fits_one(int which, unsigned word_index, uint64_t limit, struct refusal *why)
{
	uint64_t used = limit == BYTES_NONE ? 0 : sum(which, word_index);

	if (likely(used <= limit))
		return true;
	why->scope = which == JOB ? SCOPE_JOB : SCOPE_USER;
	why->limit_bytes = limit;
	why->used_bytes = used;
	return false;
}

static bool fits(unsigned word_index, const struct group_limits *limits, struct refusal *why)
{
	return fits_one(JOB, word_index, limits->job, why) && fits_one(USER, word_index, limits->user, why);
}

uint64_t group_room(unsigned word_index, const struct group_limits *limits)
{
	const uint64_t limit[GROUPS] = { limits->job, limits->user };
	uint64_t room = BYTES_NONE;

	for (int which = 0; which < GROUPS; which++) {
		uint64_t used = limit[which] == BYTES_NONE ? 0 : sum(which, word_index);
		uint64_t left = limit[which] == BYTES_NONE ? BYTES_NONE :
			used < limit[which] ? limit[which] - used : 0;

		room = left < room ? left : room;
	}
	return room;
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

/*
 * Fairness only: without the turn, after a while, it is tried all the same. Its own open file, so that
 * threads take turns too, and death gives it back.
 */
static int take_turn(uint64_t deadline)
{
	char why[256];
	int folder = share_folder(why, sizeof(why));
	int fd = folder < 0 ? -1 : openat(folder, "turn", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (folder >= 0)
		close(folder);
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
	return hash;
}

/* Nobody but this request is undecided, and nothing moves. */
static bool is_quiet(int which, unsigned word_index)
{
	unsigned asking = 0, again = 0;
	uint64_t first = reading(which, word_index, &asking);

	return reading(which, word_index, &again) == first && asking == 1 && again == 1;
}

bool group_drop_dead(void)
{
	uint64_t now = clock_ns();
	bool dropped = false;
	int fd;

	/* Programs probe thousands of times a second; nobody dies that often. */
	if (now - __atomic_load_n(&group.looked_ns, __ATOMIC_RELAXED) < DEATHS_EVERY_NS)
		return false;
	__atomic_store_n(&group.looked_ns, now, __ATOMIC_RELAXED);
	fd = peers_open();

	for (uint32_t i = 0; fd >= 0 && i < share_slots()->slots_used; i++) {
		struct slot *slot = &slots()[i];
		uint64_t held = __atomic_load_n(&slot->waiting_since_ns, __ATOMIC_RELAXED);

		for (unsigned d = 0; d < share_slots()->device_count && d < SLOT_DEVICES; d++)
			held |= __atomic_load_n(&slot->words[d], __ATOMIC_RELAXED) << (64 - 56);
		if (i == group.self || slot->state != SLOT_TAKEN || !held || !peers_take_over(fd, i))
			continue;
		memset(slot->words, 0, sizeof(slot->words));
		memset(slot->overhead, 0, sizeof(slot->overhead));
		slot->waiting_since_ns = 0;
		peers_let_go(fd, i);
		dropped = true;
	}
	if (fd >= 0)
		close(fd);
	return dropped;
}

/* Who holds most, for whoever reads the refusal. */
static void name_holders(unsigned word_index, struct refusal *why)
{
	const struct members *list = members(why->scope == SCOPE_JOB ? JOB : USER);
	struct ledger_holder *holders = why->holders;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct slot *slot = (const struct slot *)list->words[i]; /* its first member */
		struct ledger_holder holder = {
			.bytes = quota_used(&slot->words[word_index]), .pid = slot->who.pid,
			.since_ns = slot->who.start_realtime_ns,
		};
		int place = LEDGER_HOLDERS;

		memcpy(holder.command, slot->who.command, sizeof(holder.command) - 1);
		while (place > 0 && holder.bytes > holders[place - 1].bytes)
			place--;
		if (place == LEDGER_HOLDERS)
			continue;
		memmove(&holders[place + 1], &holders[place],
			(LEDGER_HOLDERS - 1 - place) * sizeof(holder));
		holders[place] = holder;
	}
}

static void refused(uint64_t *word, unsigned word_index, uint64_t bytes, struct refusal *why)
{
	quota_withdraw(word, bytes);
	why->used_bytes -= bytes < why->used_bytes ? bytes : why->used_bytes;
	name_holders(word_index, why);
}

#define SUSPICION_NS 2000000ull

/* Raised and too much: granted later on, or refused. */
static bool decide(uint64_t *word, unsigned word_index, uint64_t bytes,
	const struct group_limits *limits, uint64_t deadline, struct refusal *why)
{
	uint64_t suspicious = clock_ns() + SUSPICION_NS;

	for (;;) {
		bool over = !fits(word_index, limits, why);
		bool quiet = over && is_quiet(why->scope == SCOPE_JOB ? JOB : USER, word_index);
		uint64_t now;

		if (!over) {
			quota_settle(word);
			return true;
		}
		now = clock_ns();
		/* Before a no, and when somebody stays undecided for long: are they alive at all? */
		if ((quiet || now > suspicious) && group_drop_dead())
			continue;
		if ((quiet && !fits(word_index, limits, why)) || now > deadline)
			break;
		if (now > suspicious)
			suspicious = now + SUSPICION_NS;
		if (!quiet)
			nap();
	}
	refused(word, word_index, bytes, why);
	return false;
}

static __attribute__((noinline)) bool contend(uint64_t *word, unsigned word_index, uint64_t bytes,
	uint64_t process_limit, const struct group_limits *limits, struct refusal *why)
{
	uint64_t deadline = clock_ns() + PATIENCE_NS;
	int saved = errno;
	bool granted = false;
	int turn;

	quota_withdraw(word, bytes);
	turn = take_turn(deadline);
	if (quota_raise(word, bytes, process_limit))
		granted = decide(word, word_index, bytes, limits, deadline, why);
	else
		*why = (struct refusal){ SCOPE_PROCESS, process_limit, quota_used(word), { { 0 } } };
	if (turn >= 0)
		close(turn);
	errno = saved;
	return granted;
}

/* Raised, too much, and nobody else is undecided: then it is no, without taking turns. */
static bool is_plainly_over(unsigned word_index, const struct group_limits *limits, struct refusal *why)
{
	return is_quiet(why->scope == SCOPE_JOB ? JOB : USER, word_index) && !group_drop_dead() &&
		!fits(word_index, limits, why);
}

/* Files are opened and time passes: a thread cancelled there would stay undecided for ever. */
static __attribute__((noinline)) bool take_over_limit(uint64_t *word, unsigned word_index,
	uint64_t bytes, uint64_t process_limit, const struct group_limits *limits, struct refusal *why)
{
	bool taken = false;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	memset(why->holders, 0, sizeof(why->holders));
	if (is_plainly_over(word_index, limits, why))
		refused(word, word_index, bytes, why);
	else
		taken = contend(word, word_index, bytes, process_limit, limits, why);
	pthread_setcancelstate(state, NULL);
	return taken;
}

bool group_take(uint64_t *word, unsigned word_index, uint64_t bytes, uint64_t process_limit,
	const struct group_limits *limits, struct refusal *why)
{
	if (unlikely(!quota_raise(word, bytes, process_limit))) {
		*why = (struct refusal){ SCOPE_PROCESS, process_limit, quota_used(word), { { 0 } } };
		return false;
	}
	if (likely(fits(word_index, limits, why))) {
		quota_settle(word);
		return true;
	}
	return take_over_limit(word, word_index, bytes, process_limit, limits, why);
}

void group_open(const char *job, uint32_t self)
{
	share_wipe_on_fork(&group, sizeof(group));
	group.self = self;
	strncpy(group.job, job, sizeof(group.job) - 1);
}

void group_inherit(uint64_t job_limit_override[SLOT_DEVICES])
{
	const struct members *list = members(JOB);
	int fd = group.job[0] ? peers_open() : -1;

	for (uint32_t i = 0; fd >= 0 && i < list->count; i++) {
		uint32_t number = (const struct slot *)list->words[i] - slots();

		if (number == group.self)
			continue;
		if (peers_take_over(fd, number)) { /* it is dead */
			peers_let_go(fd, number);
			continue;
		}
		for (unsigned d = 0; d < SLOT_DEVICES; d++) {
			uint64_t bytes = slots()[number].job_limit_override[d];

			job_limit_override[d] = bytes ? bytes : job_limit_override[d];
		}
	}
	if (fd >= 0)
		close(fd);
}

void group_forget(void)
{
	memset(&group, 0, sizeof(group));
}
