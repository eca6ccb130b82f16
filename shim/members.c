/*
 * members.c - lists of the slots that count for a limit, and their sums.
 */
#include "members.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "lease.h"
#include "neighbours.h"
#include "peers.h"
#include "quota.h"
#include "share.h"

/* Slots of one limit. A reader checks the generation before and after. */
struct list {
	uint32_t generation; /* of slots_header.taken; 0 while it is made */
	uint32_t count;
	const uint64_t *words[SLOT_COUNT]; /* of each member's slot */
};

_Static_assert(offsetof(struct slot, words) == 0, "a slot is found by its words");

/* Lists take turns, so that one in use is rarely rewritten. */
#define LISTS 4

static struct {
	PAGE_COLOUR(7);
	uint32_t lock; /* of making lists */
	uint32_t self;
	struct list *now[MEMBERS_LIMITS];
	unsigned next[MEMBERS_LIMITS];
	char job[128];
	char inner[128];
	uint32_t gids[SLOT_GROUPS];
	struct list lists[MEMBERS_LIMITS][LISTS];
} WHOLE_PAGES members;

static struct slot *slots(void)
{
	return (struct slot *)(share_slots() + 1);
}

/* ---- who belongs to us ---- */

bool members_is_part(const char *job, const char *of)
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
	case MEMBERS_JOB: return members_is_part(slot->who.job, members.job);
	case MEMBERS_INNER: return members_is_part(slot->who.job, members.inner);
	case MEMBERS_USER:
	case MEMBERS_GPU: return true;
	default: return is_bound(slot, members.gids[which - MEMBERS_UNIX]);
	}
}

static struct list *make_list(int which)
{
	struct slots_header *header = share_slots();
	struct list *list;
	uint32_t generation;

	lock_take(&members.lock);
	list = &members.lists[which][members.next[which]++ % LISTS];
	__atomic_store_n(&list->generation, 0, __ATOMIC_SEQ_CST);
	generation = __atomic_load_n(&header->taken, __ATOMIC_SEQ_CST);
	list->count = 0;
	for (uint32_t i = 0; i < header->slots_used && i < SLOT_COUNT; i++) {
		if (slots()[i].state != SLOT_FREE && is_member(&slots()[i], which))
			list->words[list->count++] = slots()[i].words;
	}
	__atomic_store_n(&list->generation, generation, __ATOMIC_SEQ_CST);
	__atomic_store_n(&members.now[which], list, __ATOMIC_RELEASE);
	lock_give_back(&members.lock);
	return list;
}

/*
 * The members as of now. Whoever took its slot after this reading of the generation raises after it too,
 * and then sees what we raised before.
 */
static struct list *list_now(int which)
{
	struct list *list = __atomic_load_n(&members.now[which], __ATOMIC_ACQUIRE);

	if (unlikely(!list || __atomic_load_n(&share_slots()->taken, __ATOMIC_SEQ_CST) !=
		__atomic_load_n(&list->generation, __ATOMIC_SEQ_CST)))
		list = make_list(which);
	return list;
}

static uint64_t held(const struct list *list, uint32_t i, unsigned word_index)
{
	return __atomic_load_n(&list->words[i][word_index], __ATOMIC_SEQ_CST) & WORD_BYTES_MASK;
}

/* Two sums at once: the loads do not wait for each other's addition. */
static uint64_t sum_list(const struct list *list, unsigned word_index)
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

static uint32_t gid_of(int which)
{
	return which == MEMBERS_GPU ? NEIGHBOURS_ALL : members.gids[which - MEMBERS_UNIX];
}

static uint64_t saturated(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* What other users' processes add; what is kept for somebody is as good as held. */
static uint64_t others(int which, unsigned word_index, struct neighbours_how how, uint64_t *kept)
{
	struct neighbours_sum sum = { 0 };

	neighbours_add(word_index, gid_of(which), how, &sum);
	*kept = sum.reserved;
	return saturated(sum.bytes, sum.reserved);
}

/* Of a list that is not made anew meanwhile. */
static bool is_whole(const struct list *list, uint32_t generation)
{
	return generation && generation == __atomic_load_n(&list->generation, __ATOMIC_SEQ_CST);
}

uint64_t members_sum(int which, unsigned word_index)
{
	struct list *list;
	uint32_t generation;
	uint64_t bytes;

	do {
		list = list_now(which);
		generation = __atomic_load_n(&list->generation, __ATOMIC_SEQ_CST);
		bytes = sum_list(list, word_index);
	} while (unlikely(!is_whole(list, generation)));
	return bytes;
}

/* The lease is read before the word: see lease.h. */
static uint64_t sum_leased(const struct list *list, unsigned word_index, uint64_t now_ns)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct slot *slot = (const struct slot *)list->words[i]; /* its first member */
		uint64_t lease = __atomic_load_n(&slot->leases[word_index], __ATOMIC_SEQ_CST);
		uint64_t word = __atomic_load_n(&slot->words[word_index], __ATOMIC_SEQ_CST);

		bytes += lease_counts(word, lease, now_ns);
	}
	return bytes;
}

uint64_t members_sum_leased(int which, unsigned word_index, bool carefully, uint64_t *kept)
{
	const struct neighbours_how how = { .carefully = carefully, .leased_at = lease_clock_ns() };
	struct list *list;
	uint32_t generation;
	uint64_t bytes;

	do {
		list = list_now(which);
		generation = __atomic_load_n(&list->generation, __ATOMIC_SEQ_CST);
		bytes = sum_leased(list, word_index, how.leased_at);
	} while (unlikely(!is_whole(list, generation)));
	return saturated(bytes, others(which, word_index, how, kept));
}

uint64_t members_sum_held(int which, unsigned word_index, uint64_t *kept)
{
	const struct neighbours_how how = { .carefully = true };
	uint64_t bytes = members_sum(which, word_index);

	*kept = 0;
	return members_are_common(which) ? saturated(bytes, others(which, word_index, how, kept)) : bytes;
}

/* ---- who else asks, and who holds most ---- */

uint64_t members_reading(int which, unsigned word_index, unsigned *asking)
{
	const struct list *list = list_now(which);
	uint64_t hash = list->generation;

	for (uint32_t i = 0; i < list->count; i++) {
		uint64_t word = __atomic_load_n(&list->words[i][word_index], __ATOMIC_SEQ_CST);

		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
		*asking += quota_asking(word);
	}
	if (members_are_common(which)) {
		struct neighbours_sum sum = { .hash = hash };

		neighbours_add(word_index, gid_of(which), (struct neighbours_how){ .carefully = true }, &sum);
		*asking += sum.asking;
		hash = sum.hash;
	}
	return hash;
}

void members_name(int which, unsigned word_index, struct ledger_holder *holders)
{
	const struct list *list = list_now(which);

	for (uint32_t i = 0; i < list->count; i++) {
		const struct slot *slot = (const struct slot *)list->words[i]; /* its first member */

		neighbours_place(holders, slot, quota_used(&slot->words[word_index]));
	}
	if (members_are_common(which))
		neighbours_name(word_index, gid_of(which), holders);
}

/* ---- which of them ---- */

uint32_t members_self(void)
{
	return members.self;
}

uint32_t members_gid(int which)
{
	return which < MEMBERS_UNIX ? which == MEMBERS_INNER : members.gids[which - MEMBERS_UNIX];
}

enum cuward_scope members_scope(int which)
{
	static const enum cuward_scope scopes[] = { SCOPE_JOB, SCOPE_JOB, SCOPE_USER, SCOPE_GPU };

	return which < MEMBERS_UNIX ? scopes[which] : SCOPE_GROUP;
}

/* Is it bound by that limit of ours? */
static bool shares(const struct slot *slot, int which)
{
	switch (which) {
	case MEMBERS_JOB: return slot->group_length == strlen(members.job) && is_member(slot, which);
	case MEMBERS_INNER: return slot->inner_length == strlen(members.inner) && is_member(slot, which);
	default: return true;
	}
}

int members_which(const struct slot *slot, unsigned scope, uint32_t gid)
{
	for (int which = 0; which < MEMBERS_LIMITS; which++)
		if (members_scope(which) == scope && members_gid(which) == gid)
			return !slot || shares(slot, which) ? which : -1;
	return -1;
}

/* ---- the start ---- */

void members_open(const char *job, uint32_t self)
{
	share_wipe_on_fork(&members, sizeof(members));
	members.self = self;
	strncpy(members.job, job, sizeof(members.job) - 1);
}

void members_open_inner(const char *job)
{
	strncpy(members.inner, job, sizeof(members.inner) - 1);
}

void members_join(const uint32_t *gids, unsigned count)
{
	struct slot *own = &slots()[members.self];

	for (unsigned i = 0; i < count && i < SLOT_GROUPS; i++) {
		members.gids[i] = gids[i];
		own->group_gids[i] = gids[i] + 1;
	}
	/* Whoever counts that group's processes made his list before. */
	if (count)
		share_slot_changed();
}

/* Of which nobody says anything: what we have stays. */
static bool is_other(uint64_t own, uint64_t other)
{
	return other && other != own;
}

/* Has it a limit that we would take over? */
static bool has_other(const struct slot *own, const struct slot *other, bool same_job)
{
	uint32_t devices = share_slots()->device_count;
	bool any = false;

	for (unsigned d = 0; d < devices && d < SLOT_DEVICES; d++) {
		any |= is_other(own->user_limit_override[d], other->user_limit_override[d]);
		any |= same_job && is_other(own->job_limit_override[d], other->job_limit_override[d]);
	}
	return any;
}

static void inherit_from(struct slot *own, const struct slot *other, bool same_job)
{
	for (unsigned d = 0; d < SLOT_DEVICES; d++) {
		if (same_job && other->job_limit_override[d])
			own->job_limit_override[d] = other->job_limit_override[d];
		if (other->user_limit_override[d])
			own->user_limit_override[d] = other->user_limit_override[d];
	}
}

/* Whether somebody lives is a system call: only where he has something that the one before had not. */
void members_inherit(struct slot *own)
{
	const struct list *list = list_now(MEMBERS_USER);
	int fd = -1;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct slot *other = (const struct slot *)list->words[i]; /* its first member */
		bool same_job = members.job[0] && is_member(other, MEMBERS_JOB);

		if (other == own || !has_other(own, other, same_job))
			continue;
		if (fd < 0 && (fd = peers_open()) < 0)
			break;
		if (share_is_alive(fd, other - slots()))
			inherit_from(own, other, same_job);
	}
	if (fd >= 0)
		close(fd);
}

uint64_t members_job_limit(uint32_t slot_device)
{
	const struct list *list = list_now(MEMBERS_USER);
	uint64_t lowest = BYTES_NONE;

	for (uint32_t i = 0; members.job[0] && i < list->count; i++) {
		const struct slot *other = &slots()[(const struct slot *)list->words[i] - slots()];
		uint64_t bytes = __atomic_load_n(&other->job_asked[slot_device], __ATOMIC_RELAXED);

		/* Not one that a run within it has for itself. */
		if (other != &slots()[members.self] && is_member(other, MEMBERS_JOB) &&
			other->group_length == strlen(members.job) && bytes && bytes < lowest)
			lowest = bytes;
	}
	return lowest;
}

void members_forget(void)
{
	memset(&members, 0, sizeof(members));
}
