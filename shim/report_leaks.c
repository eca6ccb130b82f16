/*
 * report_leaks.c - what is live in a ledger, summed up by where it came from.
 */
#include "report_leaks.h"

#include <string.h>

#include "calls.h"
#include "driver_calls.h"

enum {
	GROUPS_MAX = 4096,
	INDEX_SIZE = 2 * GROUPS_MAX, /* a power of two */
	/* The last places are kept for the groups of the rest: one a kind, one verdict each. */
	GROUPS_PLACED = GROUPS_MAX - KIND_COUNT,
};

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

bool report_record_is_live(const struct ledger_record *record)
{
	return record->state == RECORD_LIVE && record->kind < KIND_COUNT &&
		record->class != CLASS_OBJECT && record->class < CLASS_COUNT;
}

static enum cuward_verdict verdict_of(const struct ledger_view *view, unsigned kind)
{
	if (!report_ended_orderly(view))
		return VERDICT_KILLED;
	if (kind == KIND_IMPORTED)
		return VERDICT_IMPORTED;
	/* The device keeps it for the next launch; whoever wants it back trims. */
	if (kind == KIND_GRAPH)
		return VERDICT_HELD;
	return view->leaks_off ? VERDICT_HELD : VERDICT_LEAK;
}

struct report_leaks report_leak_sum(const struct ledger_view *view)
{
	struct report_leaks sum = { 0, 0 };

	for (size_t i = 0; i < view->record_count; i++) {
		struct ledger_record record = view->records[i];

		if (!report_record_is_live(&record) ||
			verdict_of(view, record.kind) != VERDICT_LEAK)
			continue;
		sum.bytes += record.bytes;
		sum.count++;
	}
	return sum;
}

/* ---- groups ---- */

static bool same_group(const struct leak_group *a, const struct leak_group *b)
{
	return a->site == b->site && a->api == b->api && a->verdict == b->verdict &&
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

static void add_record(const struct ledger_view *view, const struct ledger_record *record)
{
	struct leak_group key = { .site = record->site, .api = record->api, .kind = record->kind,
		.device = record->device, .verdict = (uint8_t)verdict_of(view, record->kind) };
	struct leak_group *group = find_group(&key, GROUPS_PLACED);

	if (!group) {
		key.site = 0;
		key.api = API_NONE;
		key.device = DEVICE_NONE;
		group = find_group(&key, GROUPS_MAX);
	}
	if (!group)
		return;
	group->bytes += record->bytes;
	group->count++;
	if (group->first_ns == 0 || record->time_ns < group->first_ns)
		group->first_ns = record->time_ns;
}

static bool shown_before(const struct leak_group *a, const struct leak_group *b)
{
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

const struct leak_group *report_leak_groups(const struct ledger_view *view, unsigned *count)
{
	group_count = 0;
	memset(group_index, 0, sizeof(group_index));
	for (size_t i = 0; i < view->record_count; i++) {
		struct ledger_record record = view->records[i];

		if (report_record_is_live(&record))
			add_record(view, &record);
	}
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
