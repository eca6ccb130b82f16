/*
 * denial.c - a request over the limit: counted, remembered, traced. Never on the way of one that fits.
 */
#include "denial.h"

#include <string.h>

#include "ledger.h"
#include "site.h"
#include "traced.h"

/* Requests may be as absurd as SIZE_MAX: their sum stays there. */
static void add_bounded(uint64_t *sum, uint64_t value)
{
	uint64_t old = __atomic_load_n(sum, __ATOMIC_RELAXED);
	uint64_t grown;

	do {
		if (__builtin_add_overflow(old, value, &grown))
			grown = UINT64_MAX;
	} while (!__atomic_compare_exchange_n(sum, &old, grown, true, __ATOMIC_RELAXED,
		__ATOMIC_RELAXED));
}

static bool same_denial(const struct ledger_denial *a, const struct ledger_denial *b)
{
	return a->api == b->api && a->device == b->device && a->site == b->site && a->scope == b->scope;
}

/* Programs probe thousands of times: equal refusals are one entry. False: this one is new. */
static bool count_again(struct ledger_denial *entries, const struct ledger_denial *denial)
{
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX && entries[i].present; i++) {
		if (same_denial(&entries[i], denial)) {
			entries[i].count++;
			entries[i].time_ns = denial->time_ns;
			return true;
		}
	}
	return false;
}

static void note_denial(struct ledger_denial *denial)
{
	struct ledger_denial *entries = guest.header->denials;
	bool known;

	lock_take(&guest.lock);
	known = count_again(entries, denial);
	lock_give_back(&guest.lock);
	if (known)
		return;
	/* Under our own limit we are the holder: say from where. */
	if (denial->scope == SCOPE_PROCESS && denial->device != UINT8_MAX)
		ledger_top_sites(denial->device, denial->holders);
	lock_take(&guest.lock);
	for (unsigned i = 0; !count_again(entries, denial) && i < LEDGER_DENIALS_MAX; i++) {
		if (!entries[i].present) {
			entries[i] = *denial;
			__atomic_store_n(&entries[i].present, 1, __ATOMIC_RELEASE);
			break;
		}
	}
	lock_give_back(&guest.lock);
}

static void note_refusal(struct thread *thread, int device, uint64_t bytes, const struct refusal *why)
{
	struct ledger_denial denial = {
		.bytes = bytes, .limit_bytes = why->limit_bytes, .used_bytes = why->used_bytes, .count = 1,
		.time_ns = guest_realtime_ns(),
		.site = site_of(thread->caller, thread->frame), .api = thread_api(thread),
		.device = device < 0 ? UINT8_MAX : device, .scope = why->scope,
	};

	if (device >= 0) {
		struct guest_device *on = &guest.devices[device];

		__atomic_fetch_add(&on->ledger->denied, 1, __ATOMIC_RELAXED);
		add_bounded(&on->ledger->denied_bytes, bytes);
	}
	memcpy(denial.holders, why->holders, sizeof(denial.holders));
	if (guest.header)
		note_denial(&denial);
	if (unlikely(trace_on)) {
		struct event_denied event = {
			.thread = guest_trace_key(thread), .api = denial.api, .scope = denial.scope,
			.device = denial.device, .site = denial.site, .bytes = bytes,
			.limit_bytes = denial.limit_bytes, .used_bytes = denial.used_bytes,
		};

		trace_define_api(guest.key, denial.api);
		traced_define_site(denial.site);
		trace_denied(&event);
	}
	/* After it is told: whoever takes a snapshot now has it. */
	if (guest.slot)
		__atomic_add_fetch(&guest.slot->denied, 1, __ATOMIC_RELEASE);
}

CUresult denial_refuse(struct thread *thread, int device, uint64_t bytes, const struct refusal *why)
{
	if (why->noted)
		return CUDA_ERROR_OUT_OF_MEMORY;
	note_refusal(thread, device, bytes, why);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
