/*
 * grant_hot.h - what is on the way of every allocation and free, inline, so that a hook is one function
 * from end to end: for the hooks that programs call most. All others call grant.h.
 *
 * Whatever is rare is a call into grant.c or release.c, and gets a copy: what has no address lives in
 * registers.
 */
#ifndef CUWARD_GRANT_HOT_H
#define CUWARD_GRANT_HOT_H

#include "bounds.h"
#include "grant.h"
#include "growth.h"
#include "ledger.h"
#include "overhead.h"
#include "quota.h"
#include "traced.h"

/* ---- rare ---- */

struct grant_answer {
	CUresult result;
	uint32_t flags; /* of the record */
};

/* Not charged, or not at once. */
struct grant_answer grant_take_slowly(struct thread *thread, struct grant_request request);
/* The driver failed, or there is no record of it. */
CUresult grant_close_oddly(struct grant grant, CUresult result);
/* It is live: who else wants to know? `stale` had the handle before. */
void grant_tell(struct grant grant, uint32_t stale);
/* The same for what is gone, its record still there. */
void release_tell(struct thread *thread, const struct ledger_record *record, uint64_t began_ns);
void release_pool_gone(const struct ledger_record *record);
/* What is freed is not known. */
bool release_open_oddly(enum record_class class, uint64_t handle);
CUresult release_close_oddly(struct release release, CUresult result);
/* Live under a handle that the driver gave out again, or owned by a context that is gone. */
void release_reclaimed(struct thread *thread, uint32_t record);
/* Put in sight of sweeps: was it owned by a context whose sweep is over? */
void grant_sweep_missed(uint32_t record);
uint64_t grant_charged_bytes(int device);
uint32_t grant_find_site(struct thread *thread);
void grant_note_kind_peak(enum cuward_kind kind);
uint64_t grant_held_everywhere(void);

/* ---- taking ---- */

/* Only this thread writes the counter, others read it: no locked instruction, no torn value. */
hot void add_own(int64_t *counter, int64_t by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

static inline void raise_to(uint64_t *peak, uint64_t value)
{
	uint64_t old = __atomic_load_n(peak, __ATOMIC_RELAXED);

	while (value > old && !__atomic_compare_exchange_n(peak, &old, value, true,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Most programs have one place that allocates: in a library of theirs. */
hot uint32_t call_site(struct thread *thread)
{
	return likely(thread->caller == thread->sited) ? thread->site : grant_find_site(thread);
}

hot void fill_record(struct grant *grant, const struct grant_request *request)
{
	struct ledger_record *record = grant->at;
	uint8_t device = request->device < 0 ? UINT8_MAX : request->device;
	uint8_t flags = grant->flags | (request->context ? RECORD_CONTEXT_OWNED : 0);

	if (request->pooled && grant->flags & RECORD_CHARGED) {
		grant->flags |= RECORD_IN_POOL;
		flags |= RECORD_IN_POOL;
	}
	/* Scans by other threads look at records that are being written: atomic, for what they read. */
	set_field(&record->handle, 0);
	set_field(&record->bytes, request->bytes);
	set_field(&record->context, (uint64_t)request->context);
	set_field(&record->time_ns, guest_realtime_ns());
	record->site = call_site(grant->thread);
	record->tid = grant->thread->tid;
	set_field(&record->epoch, __atomic_load_n(&guest.epoch, __ATOMIC_RELAXED));
	record->api = thread_api(grant->thread);
	record->pending = 0;
	record->refs = 1;
	record->mappings = 0;
	__atomic_store_n(&record->what, RECORD_WHAT(request->kind, request->class, device,
		RECORD_ALLOCATING, flags), __ATOMIC_RELEASE);
}

hot bool take_at_once(const struct grant_request *request)
{
	struct guest_device *on;

	if (unlikely(!request->charged || request->device < 0 || request->pooled || guest.refused))
		return false;
	bounds_look();
	on = &guest.devices[request->device];
	return likely(!on->grouped) && likely(quota_take(on->word, request->bytes, on->limit));
}

hot CUresult grant_open_hot(struct grant *grant, struct thread *thread,
	const struct grant_request *request)
{
	grant->thread = thread;
	grant->bytes = request->bytes;
	grant->stream = request->stream;
	grant->device = request->device;
	grant->kind = request->kind;
	grant->flags = RECORD_CHARGED;
	grant->at = NULL;
	if (unlikely(!take_at_once(request))) {
		struct grant_answer answer = grant_take_slowly(thread, *request);

		if (answer.result != CUDA_SUCCESS)
			return answer.result;
		grant->flags = answer.flags;
	}
	grant->record = ledger_begin(&thread->spares);
	if (likely(grant->record != LEDGER_NO_RECORD)) {
		grant->at = ledger_record(grant->record);
		fill_record(grant, request);
	}
	grant->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
	return CUDA_SUCCESS;
}

/* For the current device. */
hot CUresult grant_open_here(struct grant *grant, enum cuward_kind kind, uint64_t bytes)
{
	struct thread *thread = guest_thread();
	struct grant_request request = {
		.kind = kind, .class = CLASS_MEMORY, .bytes = bytes, .charged = true,
	};
	CUcontext context;

	if (attention_wanted())
		guest_look();
	request.device = guest_current_device(thread, &context);
	request.context = context;
	return grant_open_hot(grant, thread, &request);
}

hot void count_live(const struct grant *grant)
{
	struct ledger_thread *counts = grant->thread->counts;
	uint64_t time_ns = __atomic_load_n(&grant->at->time_ns, __ATOMIC_RELAXED);
	uint64_t held = UINT64_MAX;

	guest_active(time_ns);
	counts->allocs[grant->kind]++;
	add_own(&counts->bytes[grant->kind], grant->bytes);
	if (likely(grant->flags & RECORD_CHARGED)) {
		struct guest_device *device = &guest.devices[grant->device];
		uint64_t used = quota_used(device->word);

		if (unlikely(grant->flags & RECORD_IN_POOL))
			__atomic_fetch_add(&device->pool_bytes, grant->bytes, __ATOMIC_RELAXED);
		if (unlikely(time_ns >= __atomic_load_n(&device->next_sample_ns, __ATOMIC_RELAXED)))
			overhead_sample(grant->device);
		if (used > __atomic_load_n(&device->ledger->peak_bytes, __ATOMIC_RELAXED))
			raise_to(&device->ledger->peak_bytes, used);
		held = likely(guest.device_count == 1) ? used : grant_held_everywhere();
		if (unlikely(held > __atomic_load_n(&guest.window_peak, __ATOMIC_RELAXED)))
			raise_to(&guest.window_peak, held);
	}
	/* No kind holds more than all together: mostly this comparison says there is no new peak. */
	if (unlikely(held > __atomic_load_n(&guest.header->kind_peak_bytes[grant->kind], __ATOMIC_RELAXED)))
		grant_note_kind_peak(grant->kind);
}

/*
 * The sweep of a context that another thread destroyed meanwhile may have passed by before the record
 * was live. Either it finds the record, which may stand for something else then, or its step of the
 * epoch, made before it began, is seen here.
 */
hot bool context_died_since(const struct grant *grant)
{
	ledger_fence();
	return __atomic_load_n(&grant->at->epoch, __ATOMIC_RELAXED) !=
		__atomic_load_n(&guest.epoch, __ATOMIC_RELAXED);
}

hot CUresult grant_close_hot(struct grant *grant, CUresult result, enum record_class class,
	uint64_t handle)
{
	uint32_t stale;

	if (unlikely(result != CUDA_SUCCESS || !grant->at))
		return grant_close_oddly(*grant, result);
	/* From here on the record may go with its context, and stand for something else. */
	stale = ledger_commit(grant->record, grant->at, class, handle);
	count_live(grant);
	/* The driver hands out what we thought was taken: that memory went with its context. */
	if (unlikely(trace_on || growth.on || stale != LEDGER_NO_RECORD || context_died_since(grant)))
		grant_tell(*grant, stale);
	return result;
}

/* ---- freeing ---- */

hot void account(struct thread *thread, uint32_t number, uint64_t began_ns)
{
	struct ledger_record *record = ledger_record(number);

	if (unlikely(record->flags & RECORD_IN_POOL)) /* charged as long as its pool keeps it */
		release_pool_gone(record);
	else if (likely(record->flags & RECORD_CHARGED))
		quota_give_back(guest.devices[record->device].word, record->bytes);
	else if (record->flags & RECORD_CLASS_LIMITED)
		quota_give_back(&guest.kinds[record->kind].word, record->bytes);
	if (likely(record->class != CLASS_OBJECT)) {
		thread->counts->frees[record->kind]++;
		add_own(&thread->counts->bytes[record->kind], -(int64_t)record->bytes);
		if (unlikely(trace_on || growth.on))
			release_tell(thread, record, began_ns);
	} else {
		thread->counts->destroyed[record->kind]++;
		if (unlikely(record->bytes))
			overhead_gone(record);
	}
	ledger_remove(&thread->spares, number, record, thread->caller);
}

hot void release_open_hot(struct release *release, enum record_class class, uint64_t handle)
{
	release->thread = guest_thread();
	release->class = class;
	release->handle = handle;
	release->record = likely(guest.header) ? ledger_claim(class, handle) : LEDGER_NO_RECORD;
	if (unlikely(release->record == LEDGER_NO_RECORD))
		release->freeing = release_open_oddly(class, handle);
	release->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
}

hot CUresult release_close_hot(struct release *release, CUresult result)
{
	if (unlikely(result != CUDA_SUCCESS || release->record == LEDGER_NO_RECORD))
		return release_close_oddly(*release, result);
	account(release->thread, release->record, release->began_ns);
	return result;
}

#endif
