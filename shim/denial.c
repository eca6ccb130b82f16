/*
 * denial.c - a request over the limit: counted, remembered, traced. Never on the way of one that fits.
 */
#include "denial.h"

#include <string.h>

#include "holders.h"
#include "ledger.h"
#include "log.h"
#include "report_refusal.h"
#include "share.h"
#include "site.h"
#include "traced.h"
#include "uncancelled.h"

#define TELL_AGAIN_NS 10000000000ull

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

/* Programs probe thousands of times: equal refusals are one entry. NULL: this one is new. */
static struct ledger_denial *count_again(struct ledger_denial *entries,
	const struct ledger_denial *denial)
{
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX && entries[i].present; i++) {
		if (same_denial(&entries[i], denial)) {
			entries[i].count++;
			entries[i].time_ns = denial->time_ns;
			return &entries[i];
		}
	}
	return NULL;
}

static struct ledger_denial *add_entry(const struct ledger_denial *denial)
{
	struct ledger_denial *entries = guest.header->denials;
	struct ledger_denial *entry = count_again(entries, denial);

	for (unsigned i = 0; !entry && i < LEDGER_DENIALS_MAX; i++) {
		if (!entries[i].present) {
			entry = &entries[i];
			*entry = *denial;
			__atomic_store_n(&entry->present, 1, __ATOMIC_RELEASE);
		}
	}
	return entry;
}

/* Who holds it, and from where. Under our own limit we do ourselves. */
static void find_holders(struct ledger_denial *denial)
{
	if (denial->device == UINT8_MAX)
		return;
	if (denial->scope == SCOPE_PROCESS)
		ledger_top_sites(denial->device, denial->holders);
	else
		holders_find_lines(denial->holders, denial->device,
			guest.devices[denial->device].ledger->slot_device);
}

/* True: it is to be told; the first of its kind, and now and then one more. */
static bool note_denial(struct ledger_denial *denial)
{
	struct ledger_denial *entry;
	bool tell;

	lock_take(&guest.lock);
	entry = count_again(guest.header->denials, denial);
	lock_give_back(&guest.lock);
	if (!entry)
		find_holders(denial);
	lock_take(&guest.lock);
	entry = entry ? entry : add_entry(denial);
	tell = entry && denial->time_ns - entry->told_ns >= TELL_AGAIN_NS;
	if (tell) {
		entry->told_ns = denial->time_ns;
		*denial = *entry;
	}
	lock_give_back(&guest.lock);
	return tell;
}

/* In a sentence, into the log. It stays in out. */
static const char *tell(struct report_out *out, const struct ledger_denial *denial)
{
	struct ledger_view view;
	size_t length;

	ledger_view(&view);
	report_refusal_text(out, &view, denial);
	length = out->used < sizeof(out->buffer) ? out->used : sizeof(out->buffer) - 1;
	out->buffer[length] = '\0';
	if (denial->count > 1)
		log_line(LOG_WARN, "%s (%llu times by now)", out->buffer, (unsigned long long)denial->count);
	else
		log_line(LOG_WARN, "%s", out->buffer);
	return out->buffer;
}

static void trace_denial(struct thread *thread, const struct ledger_denial *denial, const char *text)
{
	struct event_denied event = {
		.thread = guest_trace_key(thread), .api = denial->api, .scope = denial->scope,
		.device = denial->device, .site = denial->site, .bytes = denial->bytes,
		.limit_bytes = denial->limit_bytes, .used_bytes = denial->used_bytes, .text = text,
	};

	trace_define_api(guest.key, denial->api);
	traced_define_site(denial->site);
	trace_denied(&event);
}

/* Its entry, which may be of many, in words: not every stack has room for them. Then this one. */
static void tell_all(struct thread *thread, const struct ledger_denial *entry,
	const struct ledger_denial *this)
{
	struct report_out *out = share_private(sizeof(*out));
	const char *text = out ? tell(out, entry) : "";

	if (unlikely(trace_on))
		trace_denial(thread, this, text);
	if (out)
		share_private_done(out, sizeof(*out));
}

static const char *source_of(const struct ledger_device *device, enum cuward_scope scope)
{
	switch (scope) {
	case SCOPE_JOB: return device->job_limit_source;
	case SCOPE_USER: return device->user_limit_source;
	case SCOPE_GROUP: return device->group_limit_source;
	case SCOPE_GPU: return device->gpu_limit_source;
	default: return device->limit_source;
	}
}

static void note_refusal(struct thread *thread, int device, uint64_t bytes, const struct refusal *why)
{
	struct ledger_denial denial = {
		.bytes = bytes, .limit_bytes = why->limit_bytes, .used_bytes = why->used_bytes, .count = 1,
		.kept_bytes = why->kept_bytes, .time_ns = guest_realtime_ns(),
		.site = site_of(thread->caller, thread->frame), .api = thread_api(thread),
		.device = device < 0 ? UINT8_MAX : device, .scope = why->scope,
	};
	struct ledger_denial this = denial;
	const char *source = why->source ? why->source : device < 0 ? "" :
		source_of(guest.devices[device].ledger, why->scope);

	if (device >= 0) {
		struct guest_device *on = &guest.devices[device];

		__atomic_fetch_add(&on->ledger->denied, 1, __ATOMIC_RELAXED);
		add_bounded(&on->ledger->denied_bytes, bytes);
	}
	denial.first_ns = denial.time_ns;
	strncpy(denial.source, source, sizeof(denial.source) - 1);
	memcpy(denial.holders, why->holders, sizeof(denial.holders));
	if (guest.header && note_denial(&denial) && (log_wants(LOG_WARN) || unlikely(trace_on)))
		tell_all(thread, &denial, &this);
	else if (unlikely(trace_on))
		trace_denial(thread, &this, "");
	/* After it is told: whoever takes a snapshot now has it. */
	if (guest.slot)
		__atomic_add_fetch(&guest.slot->denied, 1, __ATOMIC_RELEASE);
}

CUresult denial_refuse(struct thread *thread, int device, uint64_t bytes, const struct refusal *why)
{
	UNCANCELLED_HERE;

	if (why->noted)
		return CUDA_ERROR_OUT_OF_MEMORY;
	note_refusal(thread, device, bytes, why);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
