/*
 * growth.c - what is live of each call site over time; the verdict is report_growth.c's.
 *
 * Only under --leak growth and marks, since it costs locked instructions on lines that threads share.
 * A mark that another process asks for is set before the next change of anything, so that it sees
 * what was live when it was asked for.
 */
#include "growth.h"

#include <string.h>
#include <time.h>

#include "ledger.h"
#include "share.h"

#define SITES (LEDGER_SITES_BYTES_MAX / 8 + 2)

struct growth_table growth;

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void growth_start(const char *leak)
{
	struct ledger_header *header = ledger.header;

	share_wipe_on_fork(&growth, sizeof(growth));
	if (!header)
		return;
	header->leak_mode = strcmp(leak, "growth") == 0 ? LEAK_GROWTH :
		strcmp(leak, "marks") == 0 ? LEAK_MARKS :
		strcmp(leak, "off") == 0 ? LEAK_OFF : LEAK_EXIT;
	if (header->leak_mode != LEAK_GROWTH && header->leak_mode != LEAK_MARKS)
		return;
	growth.number_of = share_private(SITES * sizeof(*growth.number_of));
	growth.on = growth.number_of != NULL;
}

void growth_forget(void)
{
	memset(&growth, 0, sizeof(growth));
}

/* ---- entries ---- */

static struct ledger_growth *add_locked(const struct ledger_record *record)
{
	struct ledger_growth *entry = ledger_growth(growth.count);

	if (!entry) {
		ledger.header->growth_dropped++;
		return NULL;
	}
	entry->site = record->site;
	entry->api = record->api;
	entry->kind = record->kind;
	entry->device = record->device;
	entry->step = 1;
	__atomic_store_n(&entry->used, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&growth.number_of[record->site], ++growth.count, __ATOMIC_RELEASE);
	return entry;
}

static struct ledger_growth *entry_of(const struct ledger_record *record, bool add)
{
	uint16_t *number_of = record->site < SITES ? &growth.number_of[record->site] : NULL;
	uint16_t number = number_of ? __atomic_load_n(number_of, __ATOMIC_ACQUIRE) : 0;
	struct ledger_growth *entry = NULL;

	if (number)
		return ledger_growth_at(number - 1);
	if (!number_of || !add)
		return NULL;
	lock_take(&growth.lock);
	entry = *number_of ? ledger_growth_at(*number_of - 1) : add_locked(record);
	lock_give_back(&growth.lock);
	return entry;
}

/* ---- samples ---- */

/* Two become one: room for as many again, twice as far apart. */
static void halve(struct ledger_growth *entry)
{
	for (uint32_t i = 0; i < GROWTH_SAMPLES / 2; i++) {
		const struct ledger_sample *first = &entry->samples[2 * i];
		struct ledger_sample both = first[1];

		if (first->least_bytes < both.least_bytes)
			both.least_bytes = first->least_bytes;
		entry->samples[i] = both;
	}
	entry->sample_count = GROWTH_SAMPLES / 2;
	entry->step *= 2;
}

/* Whoever comes second leaves it to the first. */
static void sample(struct ledger_growth *entry, uint64_t activity)
{
	if (!lock_try(&entry->lock))
		return;
	if (entry->sample_count == GROWTH_SAMPLES)
		halve(entry);
	entry->samples[entry->sample_count] = (struct ledger_sample){
		.activity = activity, .time_ns = realtime_ns(),
		.least_bytes = __atomic_load_n(&entry->least_bytes, __ATOMIC_RELAXED),
	};
	entry->sample_count++;
	__atomic_store_n(&entry->least_bytes, __atomic_load_n(&entry->live_bytes, __ATOMIC_RELAXED),
		__ATOMIC_RELAXED);
	__atomic_store_n(&entry->next, activity + entry->step, __ATOMIC_RELAXED);
	lock_give_back(&entry->lock);
}

static void note_least(struct ledger_growth *entry, uint64_t live_bytes)
{
	uint64_t least = __atomic_load_n(&entry->least_bytes, __ATOMIC_RELAXED);

	while (live_bytes < least && !__atomic_compare_exchange_n(&entry->least_bytes, &least,
		live_bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void sample_if_due(struct ledger_growth *entry)
{
	uint64_t activity = __atomic_add_fetch(&ledger.header->activity, 1, __ATOMIC_RELAXED);

	if (activity >= __atomic_load_n(&entry->next, __ATOMIC_RELAXED))
		sample(entry, activity);
}

void growth_note_taken(const struct ledger_record *record)
{
	struct ledger_growth *entry;

	growth_mark_pending();
	entry = entry_of(record, true);
	if (!entry)
		return;
	__atomic_add_fetch(&entry->live_bytes, record->bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&entry->live, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->last_time_ns, realtime_ns(), __ATOMIC_RELAXED);
	sample_if_due(entry);
}

void growth_note_given(const struct ledger_record *record)
{
	struct ledger_growth *entry;

	growth_mark_pending();
	entry = entry_of(record, false);
	if (!entry)
		return;
	note_least(entry, __atomic_sub_fetch(&entry->live_bytes, record->bytes, __ATOMIC_RELAXED));
	__atomic_sub_fetch(&entry->live, 1, __ATOMIC_RELAXED);
	sample_if_due(entry);
}

/* ---- marks ---- */

static void mark_entry(struct ledger_growth *entry, bool first, struct ledger_mark *mark)
{
	uint64_t bytes = __atomic_load_n(&entry->live_bytes, __ATOMIC_RELAXED);
	uint64_t live = __atomic_load_n(&entry->live, __ATOMIC_RELAXED);

	if (first) {
		entry->first_mark_bytes = bytes;
		entry->first_mark_live = live;
	}
	entry->last_mark_bytes = bytes;
	entry->last_mark_live = live;
	mark->live_bytes += bytes;
	mark->live += live;
}

static void mark_locked(const char *name)
{
	struct ledger_header *header = ledger.header;
	uint32_t number = header->mark_count;
	struct ledger_mark mark = { .time_ns = realtime_ns() };

	strncpy(mark.name, name, sizeof(mark.name) - 1);
	for (uint32_t i = 0; i < growth.count; i++)
		mark_entry(ledger_growth_at(i), number == 0, &mark);
	header->marks[number < LEDGER_MARKS_MAX ? number : LEDGER_MARKS_MAX - 1] = mark;
	__atomic_store_n(&header->mark_count, number + 1, __ATOMIC_RELEASE);
}

void growth_mark(const char *name)
{
	if (!growth.on)
		return;
	lock_take(&growth.lock);
	mark_locked(name);
	lock_give_back(&growth.lock);
}

/* What others write into our ledger is not trusted: a count may be anything. */
static __attribute__((noinline)) void mark_asked(void)
{
	struct ledger_header *header = ledger.header;
	char name[sizeof(header->mark_asked[0])];
	uint32_t asked;

	lock_take(&growth.lock);
	asked = __atomic_load_n(&header->marks_asked, __ATOMIC_ACQUIRE);
	if (asked - header->marks_taken > LEDGER_MARKS_ASKED)
		header->marks_taken = asked - LEDGER_MARKS_ASKED;
	while (header->marks_taken != asked) {
		memcpy(name, header->mark_asked[header->marks_taken % LEDGER_MARKS_ASKED], sizeof(name));
		name[sizeof(name) - 1] = '\0';
		mark_locked(name);
		__atomic_store_n(&header->marks_taken, header->marks_taken + 1, __ATOMIC_RELEASE);
	}
	lock_give_back(&growth.lock);
}

void growth_mark_pending(void)
{
	if (growth.on && unlikely(__atomic_load_n(&ledger.header->marks_asked, __ATOMIC_ACQUIRE) !=
		__atomic_load_n(&ledger.header->marks_taken, __ATOMIC_RELAXED)))
		mark_asked();
}
