/*
 * report_leaks.c - what is live in a ledger, summed up by where it came from.
 */
#include "report_leaks.h"

#include <string.h>

#include "calls.h"
#include "driver_calls.h"
#include "report_growth.h"
#include "report_held.h"
#include "report_suppress.h"

enum {
	GROUPS_MAX = 4096,
	INDEX_SIZE = 2 * GROUPS_MAX, /* a power of two */
	/* The last places are kept for the groups of the rest: one a kind and verdict. */
	GROUPS_PLACED = GROUPS_MAX - KIND_COUNT * VERDICT_COUNT,
};

enum { PART_LIVE, PART_MARKED, PART_REST };

static struct leak_group groups[GROUPS_MAX];
static unsigned group_count;
static uint16_t group_index[INDEX_SIZE]; /* number of the group plus 1, 0 empty */

/* ---- words ---- */

const char *report_call_name(const struct ledger_view *view, unsigned api)
{
	/* A ledger of another build numbers its calls otherwise. */
	if (view->header->call_count != DRIVER_CALL_COUNT || api >= DRIVER_CALL_COUNT)
		return NULL;
	return call_name(api);
}

const char *report_kind_word(unsigned kind)
{
	static const char *const words[] = {
#define X(id, word) word,
		CUWARD_KINDS(X)
#undef X
	};

	return kind < KIND_COUNT ? words[kind] : "unknown";
}

const char *report_verdict_word(unsigned verdict)
{
	static const char *const words[] = {
#define X(id, word) word,
		CUWARD_VERDICTS(X)
#undef X
	};

	return verdict < VERDICT_COUNT ? words[verdict] : "unknown";
}

/* ---- what counts ---- */

bool report_ended_orderly(const struct ledger_view *view)
{
	unsigned ended = view->header->ended;
	bool exited = view->how == END_RUNNING || view->how == END_EXIT || view->how == END_EXEC;

	return exited && (ended == END_EXIT || ended == END_EXEC);
}

static bool is_memory(const struct ledger_record *record)
{
	return record->state == RECORD_LIVE && record->kind < KIND_COUNT &&
		record->class != CLASS_OBJECT && record->class < CLASS_COUNT;
}

bool report_record_is_doomed(const struct ledger_view *view, const struct ledger_record *record)
{
	bool doomed = false;

	if (!(record->flags & RECORD_CONTEXT_OWNED) || !is_memory(record))
		return false;
	for (unsigned i = 0; i < LEDGER_DYING_MAX; i++)
		doomed |= view->header->dying[i] == record->context;
	return doomed;
}

bool report_record_is_live(const struct ledger_view *view, const struct ledger_record *record)
{
	return is_memory(record) && !report_record_is_doomed(view, record);
}

static enum cuward_verdict verdict_at_end(const struct ledger_view *view, uint32_t site)
{
	const struct ledger_growth *growth;

	if (view->leaks_off || report_is_held(view, site))
		return VERDICT_HELD;
	switch (view->header->leak_mode) {
	case LEAK_GROWTH:
		growth = report_growth_find(view, site);
		return growth && report_growth_of(view, growth).grows ? VERDICT_GROWTH : VERDICT_HELD;
	case LEAK_MARKS: return VERDICT_HELD; /* what was live at the marks counts */
	default: return VERDICT_LEAK;
	}
}

static enum cuward_verdict verdict_of(const struct ledger_view *view, unsigned kind, uint32_t site)
{
	if (!report_ended_orderly(view))
		return VERDICT_KILLED;
	if (kind == KIND_IMPORTED)
		return VERDICT_IMPORTED;
	/* The device keeps it for the next launch; whoever wants it back trims. */
	if (kind == KIND_GRAPH)
		return VERDICT_HELD;
	return verdict_at_end(view, site);
}

bool report_counts(const struct leak_group *group)
{
	return (group->verdict == VERDICT_LEAK || group->verdict == VERDICT_GROWTH) &&
		!group->suppressed_by;
}

struct report_leaks report_leak_sum(const struct ledger_view *view)
{
	struct report_leaks sum = { 0, 0 };
	unsigned count;
	const struct leak_group *all = report_leak_groups(view, &count);

	for (unsigned i = 0; i < count; i++)
		if (report_counts(&all[i])) {
			sum.bytes += all[i].bytes;
			sum.count += all[i].count;
		}
	return sum;
}

/* ---- groups ---- */

static bool same_group(const struct leak_group *a, const struct leak_group *b)
{
	return a->site == b->site && a->api == b->api && a->part == b->part &&
		a->kind == b->kind && a->device == b->device;
}

static unsigned hash_group(const struct leak_group *g)
{
	uint64_t key = (uint64_t)g->site << 32 | (uint64_t)g->api << 16 | g->kind << 8 | g->device;

	return (unsigned)(key * 0x9e3779b97f4a7c15ull >> 40) & (INDEX_SIZE - 1);
}

/* The group with this key; NULL if it is new and no more than `most` groups may be. */
static struct leak_group *find_group(const struct leak_group *key, unsigned most)
{
	unsigned slot = hash_group(key);

	while (group_index[slot]) {
		struct leak_group *group = &groups[group_index[slot] - 1];

		if (same_group(group, key))
			return group;
		slot = (slot + 1) & (INDEX_SIZE - 1);
	}
	if (group_count >= most)
		return NULL;
	groups[group_count] = *key;
	group_index[slot] = (uint16_t)++group_count;
	return &groups[group_count - 1];
}

/* Where there is no place left: one group a kind and verdict. */
static struct leak_group *find_rest(const struct ledger_view *view, const struct ledger_record *record)
{
	enum cuward_verdict verdict = verdict_of(view, record->kind, record->site);
	struct leak_group key = { .api = API_NONE, .kind = record->kind, .device = DEVICE_NONE,
		.verdict = (uint8_t)verdict, .part = (uint8_t)(PART_REST + verdict) };

	return find_group(&key, GROUPS_MAX);
}

static void add_record(const struct ledger_view *view, const struct ledger_record *record)
{
	struct leak_group key = { .site = record->site, .api = record->api, .kind = record->kind,
		.device = record->device, .part = PART_LIVE };
	struct leak_group *group = find_group(&key, GROUPS_PLACED);

	if (group && group->count == 0)
		group->verdict = (uint8_t)verdict_of(view, record->kind, record->site);
	if (!group)
		group = find_rest(view, record);
	if (!group)
		return;
	group->bytes += record->bytes;
	group->count++;
	if (group->first_ns == 0 || record->time_ns < group->first_ns)
		group->first_ns = record->time_ns;
}

static bool shown_before(const struct leak_group *a, const struct leak_group *b)
{
	if (report_counts(a) != report_counts(b))
		return report_counts(a);
	if (a->verdict != b->verdict)
		return a->verdict < b->verdict;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes;
	if (a->count != b->count)
		return a->count > b->count;
	if (a->site != b->site)
		return a->site < b->site;
	if (a->api != b->api)
		return a->api < b->api;
	return a->kind != b->kind ? a->kind < b->kind : a->device < b->device;
}

/* Shell's sort, since qsort() may call malloc. */
static void sort_groups(void)
{
	static const unsigned gaps[] = { 1750, 701, 301, 132, 57, 23, 10, 4, 1 };

	for (unsigned k = 0; k < sizeof(gaps) / sizeof(gaps[0]); k++) {
		unsigned gap = gaps[k];

		for (unsigned i = gap; i < group_count; i++) {
			struct leak_group group = groups[i];
			unsigned j = i;

			for (; j >= gap && shown_before(&group, &groups[j - gap]); j -= gap)
				groups[j] = groups[j - gap];
			groups[j] = group;
		}
	}
}

static void add_records(const struct ledger_view *view)
{
	for (size_t i = 0; i < view->record_count; i++) {
		struct ledger_record record = view->records[i];

		if (report_record_is_live(view, &record))
			add_record(view, &record);
	}
}

/* What a call site had live at the last mark beyond what it had at the first. */
static void add_marked(const struct ledger_view *view, const struct ledger_growth *entry)
{
	struct leak_group key = { .site = entry->site, .api = entry->api, .kind = entry->kind,
		.device = entry->device, .verdict = VERDICT_LEAK, .part = PART_MARKED,
		.growth = entry };
	struct leak_group *group;

	if (entry->last_mark_bytes <= entry->first_mark_bytes || entry->kind >= KIND_COUNT ||
		entry->kind == KIND_IMPORTED || report_is_held(view, entry->site))
		return;
	group = find_group(&key, GROUPS_PLACED);
	if (!group)
		return;
	group->bytes += entry->last_mark_bytes - entry->first_mark_bytes;
	group->count += entry->last_mark_live > entry->first_mark_live ?
		entry->last_mark_live - entry->first_mark_live : 1;
}

static void add_all_marked(const struct ledger_view *view)
{
	if (view->header->leak_mode != LEAK_MARKS || view->header->mark_count < 2 ||
		view->leaks_off || !report_ended_orderly(view))
		return;
	for (size_t i = 0; i < view->growth_count && view->growth[i].used; i++)
		add_marked(view, &view->growth[i]);
}

static void judge(const struct ledger_view *view, struct leak_group *group)
{
	if (group->verdict == VERDICT_LEAK || group->verdict == VERDICT_GROWTH)
		group->suppressed_by = suppress_match(view, group);
	if (view->header->leak_mode == LEAK_GROWTH && !group->growth)
		group->growth = report_growth_find(view, group->site);
}

static bool same_leak(const struct leak_group *a, const struct leak_group *b)
{
	return a->api == b->api && a->part == b->part && a->kind == b->kind && a->device == b->device &&
		a->verdict == b->verdict;
}

static void add_group(struct leak_group *to, const struct leak_group *from)
{
	to->bytes += from->bytes;
	to->count += from->count;
	if (from->first_ns > 0 && (to->first_ns == 0 || from->first_ns < to->first_ns))
		to->first_ns = from->first_ns;
}

/* A loop that was unrolled, a function that was inlined twice: one line of source, one leak. */
static void merge_lines(const struct ledger_view *view)
{
	static uint64_t sources[GROUPS_MAX];
	unsigned kept = 0, k;

	for (unsigned i = 0; i < group_count; i++) {
		uint64_t source = report_site_source(view, groups[i].site);

		for (k = 0; k < kept; k++)
			if (sources[k] == source && same_leak(&groups[k], &groups[i]))
				break;
		if (k < kept) {
			add_group(&groups[k], &groups[i]);
			continue;
		}
		sources[kept] = source;
		groups[kept++] = groups[i];
	}
	group_count = kept;
}

const struct leak_group *report_leak_groups(const struct ledger_view *view, unsigned *count)
{
	group_count = 0;
	memset(group_index, 0, sizeof(group_index));
	add_records(view);
	add_all_marked(view);
	if (view->symbols)
		merge_lines(view);
	for (unsigned i = 0; i < group_count; i++)
		judge(view, &groups[i]);
	sort_groups();
	*count = group_count;
	return groups;
}

/* ---- hash ---- */

uint64_t report_leak_hash(const struct ledger_view *view, const struct leak_group *group)
{
	const char *api = report_call_name(view, group->api);
	uint64_t hash = report_site_hash(view, group->site, REPORT_HASH_START);

	hash = report_hash_word(hash, report_kind_word(group->kind));
	return report_hash_word(hash, api ? api : "");
}
