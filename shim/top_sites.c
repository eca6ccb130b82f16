/*
 * top_sites.c - who holds the memory, by call site: what a refusal under the process's own limit says.
 */
#include "top_sites.h"

#include <string.h>

#include "ledger.h"
#include "share.h"

static uint32_t place_of(const struct top_sites *sums, uint32_t site)
{
	uint32_t at = site * 2654435769u % TOP_SITES;

	for (unsigned tries = 0; tries < 16; tries++, at = (at + 1) % TOP_SITES) {
		if (sums->all[at].site == site || sums->all[at].bytes == 0)
			return at;
	}
	return at;
}

void top_sites_add(struct top_sites *sums, const struct ledger_record *record, uint8_t device)
{
	uint32_t at = place_of(sums, record->site);

	if (record->state != RECORD_LIVE || !(record->flags & RECORD_CHARGED) || record->device != device)
		return;
	sums->all[at].site = record->site;
	sums->all[at].bytes += record->bytes;
	if (!sums->all[at].since_ns || record->time_ns < sums->all[at].since_ns)
		sums->all[at].since_ns = record->time_ns;
}

void top_sites_largest(const struct top_sites *sums, struct ledger_holder holders[LEDGER_HOLDERS])
{
	for (unsigned i = 0; i < TOP_SITES; i++) {
		int place = LEDGER_HOLDERS;

		while (place > 0 && sums->all[i].bytes > holders[place - 1].bytes)
			place--;
		if (place == LEDGER_HOLDERS)
			continue;
		memmove(&holders[place + 1], &holders[place],
			(LEDGER_HOLDERS - 1 - place) * sizeof(*holders));
		holders[place] = (struct ledger_holder){
			.bytes = sums->all[i].bytes, .since_ns = sums->all[i].since_ns,
			.site = sums->all[i].site,
		};
	}
}

/* Records that others write are copied as they are and judged afterwards: no race to report. */
__attribute__((no_sanitize("thread")))
void ledger_top_sites(uint8_t device, struct ledger_holder holders[LEDGER_HOLDERS])
{
	struct top_sites *sums = share_private(sizeof(*sums)); /* not every stack has room for it */
	uint32_t count = __atomic_load_n(&ledger.header->record_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; sums && i < count; i++) {
		struct ledger_record record = ledger.records[i];

		top_sites_add(sums, &record, device);
	}
	if (!sums)
		return;
	top_sites_largest(sums, holders);
	share_private_done(sums, sizeof(*sums));
}
