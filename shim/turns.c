/*
 * turns.c - the entries of threads that wait, what others see of them, and the order of all.
 */
#include "turns.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "neighbours.h"
#include "peers.h"
#include "quota.h"
#include "share.h"
#include "turn_rank.h"

#define STOPPED_NS 1000000000ll   /* not seen for so long: it is stopped, or as good as that */
#define GONE_NS 10000000000ll     /* and so long: nobody keeps it any more */

struct turns turns;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int64_t age(uint64_t since, uint64_t now)
{
	return now > since ? (int64_t)(now - since) : 0;
}

/* ---- ours ---- */

static bool is_kept(int place, uint64_t now, int64_t within)
{
	return turns.all[place].turn.since_ns && age(turns.all[place].seen_ns, now) < within;
}

static bool same_limit(const struct turn *turn, const struct slot_wait *wait)
{
	return wait->scope == turn->scope && wait->device == turn->word && wait->gid == turn->gid;
}

/* The first of each limit goes into the slot. Readers may see half of it, for a moment. */
static void publish(uint64_t now)
{
	struct slot_wait told[SLOT_WAITS] = { 0 };
	const struct turn *first = NULL;
	int count = 0;

	for (int i = 0; i < TURNS_MAX; i++) {
		const struct turn *turn = &turns.all[i].turn;
		int at = 0;

		if (!is_kept(i, now, STOPPED_NS))
			continue;
		if (!first || turn->since_ns < first->since_ns)
			first = turn;
		while (at < count && !same_limit(turn, &told[at]))
			at++;
		if (at == SLOT_WAITS || (at < count && told[at].since_ns <= turn->since_ns))
			continue;
		told[at] = (struct slot_wait){ turn->since_ns, turns.all[i].seen_ns, turn->bytes, turn->gid,
			turn->word, turn->scope };
		count += at == count;
	}
	if (!turns.slot)
		return;
	memcpy(turns.slot->waits, told, sizeof(told));
	turns.slot->waiting_device = first ? first->word : 0;
	turns.slot->waiting_bytes = first ? first->bytes : 0;
	__atomic_store_n(&turns.slot->waiting_since_ns, first ? first->since_ns : 0, __ATOMIC_RELEASE);
	if (first)
		__atomic_store_n(&share_slots()->waiting, 1, __ATOMIC_RELEASE);
}

void turns_open(struct slot *slot)
{
	share_wipe_on_fork(&turns, sizeof(turns));
	turns.slot = slot;
}

static int find_place(uint64_t now)
{
	for (int i = 0; i < TURNS_MAX; i++)
		if (!is_kept(i, now, GONE_NS))
			return i;
	return -1;
}

/* It may have been taken over while its thread, or the whole process, was stopped. */
static bool is_ours(int place, const struct turn *turn)
{
	return place >= 0 && turns.all[place].turn.since_ns == turn->since_ns;
}

static void count_again(void)
{
	uint32_t count = 0;

	for (int i = 0; i < TURNS_MAX; i++)
		count += turns.all[i].turn.since_ns != 0;
	__atomic_store_n(&turns.count, count, __ATOMIC_RELEASE);
}

void turns_keep(int *place, const struct turn *turn, uint64_t now)
{
	lock_take(&turns.lock);
	if (!is_ours(*place, turn))
		*place = find_place(now);
	if (*place >= 0) {
		turns.all[*place].turn = *turn;
		turns.all[*place].seen_ns = now;
	}
	count_again();
	publish(now);
	lock_give_back(&turns.lock);
}

void turns_leave(int place)
{
	lock_take(&turns.lock);
	if (place >= 0)
		turns.all[place].turn.since_ns = 0;
	count_again();
	publish(clock_ns());
	lock_give_back(&turns.lock);
}

bool turns_wait_on(unsigned device)
{
	bool found = false;

	if (!__atomic_load_n(&turns.count, __ATOMIC_ACQUIRE))
		return false;
	lock_take(&turns.lock);
	for (int i = 0; i < TURNS_MAX; i++)
		found |= turns.all[i].turn.since_ns && turns.all[i].turn.device == device;
	lock_give_back(&turns.lock);
	return found;
}

/* ---- whose turn? ---- */

struct look {
	const struct turns_ask *ask;
	struct refusal *why;
	enum turn_answer answer;
	uint64_t now;
	int64_t rank;
	bool holds; /* others may wait for what it has */
	uint64_t process_left;
	struct group_room groups[MEMBERS_LIMITS];
};

/* Somebody comes before us, under a limit of ours that leaves this much. */
static void judge(struct look *look, uint64_t wants, uint64_t left, uint64_t limit,
	const struct refusal *whose)
{
	enum turn_answer answer = wants <= left ? TURN_HAND_OVER :
		!look->holds && look->ask->asker->queues ? TURN_QUEUE : TURN_PASS;

	/* What can never be there is waited for, but not by those behind. */
	if (wants > limit || answer <= look->answer)
		return;
	look->answer = answer;
	look->why->scope = whose->scope;
	look->why->limit_bytes = whose->limit_bytes;
	look->why->used_bytes = whose->used_bytes;
	look->why->gid = whose->gid;
	look->why->source = whose->source;
	look->why->kept_bytes = whose->kept_bytes;
}

static void judge_group(struct look *look, uint64_t wants, int which)
{
	const struct group_room *room = which < 0 ? NULL : &look->groups[which];

	if (room && room->why.limit_bytes != BYTES_NONE)
		judge(look, wants, room->left_bytes, room->why.limit_bytes - room->why.kept_bytes, &room->why);
}

/* Threads of ours: in the order in which they came. */
static void look_at_threads(struct look *look)
{
	const struct asker *asker = look->ask->asker;
	const struct refusal process = { .scope = SCOPE_PROCESS, .limit_bytes = look->ask->process_limit,
		.used_bytes = quota_used(look->ask->word) - look->ask->raised };

	lock_take(&turns.lock);
	for (int i = 0; i < TURNS_MAX; i++) {
		const struct turn *turn = &turns.all[i].turn;

		if (turn->device != asker->device || !is_kept(i, look->now, STOPPED_NS) ||
			(asker->since_ns && turn->since_ns >= asker->since_ns))
			continue;
		if (turn->scope == SCOPE_PROCESS)
			judge(look, turn->bytes, look->process_left, process.limit_bytes, &process);
		else
			judge_group(look, turn->bytes, members_which(NULL, turn->scope, turn->gid));
	}
	lock_give_back(&turns.lock);
}

static void look_at_slot(struct look *look, const struct slot *slot, int word, bool trusted)
{
	for (int i = 0; i < SLOT_WAITS; i++) {
		const struct slot_wait wait = slot->waits[i];
		int64_t rank = turn_rank(slot->priority, age(wait.since_ns, look->now), trusted);

		if (wait.since_ns && wait.device == word && age(wait.seen_ns, look->now) < STOPPED_NS &&
			rank > look->rank)
			judge_group(look, wait.bytes, members_which(slot, wait.scope, wait.gid));
	}
}

/* Processes of this user, but for the dead: one system call each, of those few that wait. Did any? */
static bool look_at_slots(struct look *look)
{
	const struct slots_header *header = share_slots();
	const struct slot *slots = (const struct slot *)(header + 1);
	bool somebody = false;
	int fd = peers_open();

	for (uint32_t i = 0; i < header->slots_used && i < SLOT_COUNT; i++) {
		if (!__atomic_load_n(&slots[i].waiting_since_ns, __ATOMIC_ACQUIRE) ||
			slots[i].state == SLOT_FREE || (fd >= 0 && &slots[i] != turns.slot &&
			!share_is_alive(fd, i)))
			continue;
		somebody = true;
		if (&slots[i] != turns.slot)
			look_at_slot(look, &slots[i], look->ask->word_index, true);
	}
	if (fd >= 0)
		close(fd);
	return somebody;
}

static void look_at_neighbour(void *to, const struct slot *slot, int word)
{
	look_at_slot(to, slot, word, false);
}

/* What we hold, on whichever GPU, but for this request. */
static bool holds(const struct turns_ask *ask)
{
	uint64_t held = quota_used(ask->word) - ask->raised;

	for (unsigned i = 0; turns.slot && i < SLOT_DEVICES && !held; i++)
		held |= i == ask->word_index ? 0 : quota_used(&turns.slot->words[i]);
	return held;
}

/* Which limit leaves too little for who waits? */
static bool is_short(struct look *look)
{
	uint64_t bytes = look->ask->bytes;

	if (look->ask->raised)
		return false;
	if (bytes > look->process_left) {
		*look->why = (struct refusal){ .limit_bytes = look->ask->process_limit,
			.used_bytes = quota_used(look->ask->word) };
		return true;
	}
	for (int which = 0; which < MEMBERS_LIMITS; which++) {
		if (bytes > look->groups[which].left_bytes) {
			*look->why = look->groups[which].why;
			return true;
		}
	}
	return false;
}

enum turn_answer turns_look(const struct turns_ask *ask, struct refusal *why)
{
	uint64_t used = quota_used(ask->word) - ask->raised;
	struct look look = {
		.ask = ask, .why = why, .now = clock_ns(), .holds = holds(ask),
		.process_left = ask->process_limit > used ? ask->process_limit - used : 0,
	};
	bool shared = group_rooms(ask->word_index, ask->limits, ask->raised, look.groups);

	if (is_short(&look))
		return TURN_SHORT;
	look.rank = turn_rank(turns.slot ? turns.slot->priority : 0,
		ask->asker->since_ns ? age(ask->asker->since_ns, look.now) : 0, true);
	look_at_threads(&look);
	if (turns.slot && group_least(ask->limits) != BYTES_NONE &&
		__atomic_load_n(&share_slots()->waiting, __ATOMIC_ACQUIRE) && !look_at_slots(&look))
		__atomic_store_n(&share_slots()->waiting, 0, __ATOMIC_RELEASE);
	if (shared)
		neighbours_waiting(ask->word_index, look_at_neighbour, &look);
	return look.answer;
}

void turns_forget(void)
{
	memset(&turns, 0, sizeof(turns));
}
