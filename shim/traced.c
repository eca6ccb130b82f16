/*
 * traced.c - events that any hook may emit; only reached while tracing is on.
 */
#include "traced.h"

#include <string.h>

#include "ledger.h"
#include "report.h"
#include "report_sites.h"
#include "share.h"

CUresult traced_call(enum call call, CUresult result, uint64_t began_ns)
{
	struct event_call event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .result = result,
		.duration_ns = traced_duration(began_ns),
	};

	trace_define_api(guest.key, call);
	trace_call(&event);
	return result;
}

/* ---- call sites ---- */

#define SITES_MAX (LEDGER_SITES_BYTES_MAX / 8 + 1)

static struct {
	PAGE_COLOUR(11);
	uint32_t lock;
	uint32_t trace; /* in that one, trace_number, */
	uint64_t *told; /* a bit a site */
} WHOLE_PAGES sites;

static uint64_t *told_bits(void)
{
	lock_take(&sites.lock);
	if (!sites.told) {
		share_wipe_on_fork(&sites, sizeof(sites));
		sites.told = share_private(SITES_MAX / 8 + 8);
	} else if (sites.trace != trace_number) {
		memset(sites.told, 0, SITES_MAX / 8 + 8);
	}
	sites.trace = trace_number;
	lock_give_back(&sites.lock);
	return sites.told;
}

/* No site is longer than the buffer; what would be is cut. */
static bool keep(struct report_out *out, const char *bytes, size_t count)
{
	(void)out;
	(void)bytes;
	return count == 0;
}

/* Told before its bit is set: two threads may tell it twice, none uses it untold. */
static __attribute__((noinline)) void tell_site(uint32_t site, uint64_t *word)
{
	struct report_out *out = share_private(sizeof(*out)); /* not every stack has room for it */
	struct event_site event = { .process = guest.key, .site = site, .frames = "" };
	struct ledger_view view;

	if (out) {
		out->flush = keep;
		ledger_view(&view);
		report_site_text(out, &view, site);
		out->buffer[out->used < sizeof(out->buffer) ? out->used : sizeof(out->buffer) - 1] = '\0';
		event.frames = out->buffer;
	}
	trace_site(&event);
	if (out)
		share_private_done(out, sizeof(*out));
	__atomic_fetch_or(word, 1ull << site % 64, __ATOMIC_RELEASE);
}

void traced_define_site(uint32_t site)
{
	uint64_t *bits = site && site < SITES_MAX ? told_bits() : NULL;

	if (bits && !(__atomic_load_n(&bits[site / 64], __ATOMIC_ACQUIRE) >> site % 64 & 1))
		tell_site(site, &bits[site / 64]);
}

void traced_forget(void)
{
	memset(&sites, 0, sizeof(sites));
}

void traced_more_correlations(struct thread *thread)
{
	thread->correlation = __atomic_fetch_add(&guest.correlation, CORRELATIONS, __ATOMIC_RELAXED);
}

