/*
 * top_sites.c - who holds the memory, by call site: what a refusal under the process's own limit says.
 */
#include <string.h>

#include "ledger.h"

#define PLACES 512 /* sites told apart; those beyond share the last place */

struct site_sum {
	uint64_t bytes;
	uint64_t since_ns;
	uint32_t site;
};

static struct site_sum *place_of(struct site_sum *sums, uint32_t site)
{
	uint32_t at = site * 2654435769u % PLACES;

	for (unsigned tries = 0; tries < 16; tries++, at = (at + 1) % PLACES) {
		if (sums[at].site == site || sums[at].bytes == 0)
			return &sums[at];
	}
	return &sums[at];
}

static void add(struct site_sum *sums, const struct ledger_record *record)
{
	struct site_sum *sum = place_of(sums, record->site);

	sum->site = record->site;
	sum->bytes += record->bytes;
	if (!sum->since_ns || record->time_ns < sum->since_ns)
		sum->since_ns = record->time_ns;
}

static void keep_largest(struct ledger_holder *holders, const struct site_sum *sum)
{
	int place = LEDGER_HOLDERS;

	while (place > 0 && sum->bytes > holders[place - 1].bytes)
		place--;
	if (place == LEDGER_HOLDERS)
		return;
	memmove(&holders[place + 1], &holders[place], (LEDGER_HOLDERS - 1 - place) * sizeof(*holders));
	holders[place] = (struct ledger_holder){
		.bytes = sum->bytes, .since_ns = sum->since_ns, .site = sum->site,
	};
}

/* Records that others write are copied as they are and judged afterwards: no race to report. */
__attribute__((no_sanitize("thread")))
void ledger_top_sites(uint8_t device, struct ledger_holder holders[LEDGER_HOLDERS])
{
	struct site_sum sums[PLACES] = { 0 };
	uint32_t count = __atomic_load_n(&ledger.header->record_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		struct ledger_record record = ledger.records[i];

		if (record.state == RECORD_LIVE && record.flags & RECORD_CHARGED && record.device == device)
			add(sums, &record);
	}
	for (unsigned i = 0; i < PLACES; i++)
		keep_largest(holders, &sums[i]);
}
