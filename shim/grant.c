/*
 * grant.c - quota, ledger and trace around one driver call; the only place that knows their order.
 */
#include "grant.h"

#include <string.h>

#include "ledger.h"
#include "quota.h"
#include "site.h"
#include "traced.h"

hot uint16_t current_api(const struct thread *thread)
{
	return thread->call - THREAD_CALL(0);
}

static uint64_t charged_bytes(int device)
{
	return device >= 0 ? quota_used(guest.devices[device].word) : 0;
}

/* Only this thread writes the counter, others read it: no locked instruction, no torn value. */
hot void add_own(int64_t *counter, int64_t by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *peak, uint64_t value)
{
	uint64_t old = __atomic_load_n(peak, __ATOMIC_RELAXED);

	while (value > old && !__atomic_compare_exchange_n(peak, &old, value, true,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* ---- refusals ---- */

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

/* Programs probe thousands of times: equal refusals are one entry. */
static void note_denial(const struct ledger_denial *denial)
{
	struct ledger_denial *entries = guest.header->denials;

	lock_take(&guest.lock);
	for (unsigned i = 0; i < LEDGER_DENIALS_MAX; i++) {
		if (!entries[i].present) {
			entries[i] = *denial;
			__atomic_store_n(&entries[i].present, 1, __ATOMIC_RELEASE);
			break;
		}
		if (same_denial(&entries[i], denial)) {
			entries[i].count++;
			entries[i].time_ns = denial->time_ns;
			break;
		}
	}
	lock_give_back(&guest.lock);
}

static __attribute__((noinline)) CUresult refuse(struct thread *thread, int device, uint64_t bytes)
{
	struct ledger_denial denial = {
		.bytes = bytes, .limit_bytes = BYTES_NONE, .count = 1, .time_ns = guest_realtime_ns(),
		.site = site_of(thread->caller, thread->frame), .api = current_api(thread),
		.device = device < 0 ? UINT8_MAX : device, .scope = SCOPE_PROCESS,
	};

	if (device >= 0) {
		struct guest_device *on = &guest.devices[device];

		denial.limit_bytes = guest.refused ? 0 : on->limit;
		denial.used_bytes = quota_used(on->word);
		__atomic_fetch_add(&on->ledger->denied, 1, __ATOMIC_RELAXED);
		add_bounded(&on->ledger->denied_bytes, bytes);
	}
	if (guest.header)
		note_denial(&denial);
	if (unlikely(trace_on)) {
		struct event_denied event = {
			.thread = guest_trace_key(thread), .api = denial.api, .scope = denial.scope,
			.device = denial.device, .site = denial.site, .bytes = bytes,
			.limit_bytes = denial.limit_bytes, .used_bytes = denial.used_bytes,
		};

		trace_define_api(guest.key, denial.api);
		trace_denied(&event);
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- taking ---- */

hot void fill_record(const struct grant *grant, const struct grant_request *request)
{
	struct ledger_record *record = ledger_record(grant->record);

	record->handle = 0;
	record->bytes = request->bytes;
	record->context = (uint64_t)request->context;
	record->time_ns = guest_realtime_ns();
	record->site = site_of(grant->thread->caller, grant->thread->frame);
	record->tid = grant->thread->tid;
	record->epoch = guest.epoch;
	record->api = current_api(grant->thread);
	record->kind = request->kind;
	record->class = request->class;
	record->device = request->device < 0 ? UINT8_MAX : request->device;
	record->flags = (grant->charged ? RECORD_CHARGED : 0) |
		(request->context ? RECORD_CONTEXT_OWNED : 0);
	ledger_set_state(record, RECORD_ALLOCATING);
}

hot CUresult open_for(struct grant *grant, struct thread *thread,
	const struct grant_request *request)
{
	grant->thread = thread;
	grant->bytes = request->bytes;
	grant->stream = request->stream;
	grant->device = request->device;
	grant->charged = request->charged && request->device >= 0;
	if (unlikely(guest.refused))
		return refuse(thread, request->device, request->bytes);
	if (grant->charged) {
		struct guest_device *device = &guest.devices[request->device];

		if (unlikely(!quota_take(device->word, request->bytes, device->limit))) {
			/* Nobody's quota: a size no GPU has. The driver says so itself. */
			if (device->limit != BYTES_NONE)
				return refuse(thread, request->device, request->bytes);
			grant->charged = false;
		}
	}
	grant->record = ledger_begin(&thread->spares);
	if (likely(grant->record != LEDGER_NO_RECORD))
		fill_record(grant, request);
	grant->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
	return CUDA_SUCCESS;
}

CUresult grant_open_for(struct grant *grant, const struct grant_request *request)
{
	return open_for(grant, guest_thread(), request);
}

CUresult grant_open(struct grant *grant, enum cuward_kind kind, uint64_t bytes)
{
	struct thread *thread = guest_thread();
	CUcontext context;
	int device;

	if (unlikely(!guest.attached))
		guest_attach();
	device = guest_current_device(thread, &context);
	return open_for(grant, thread, &(struct grant_request){
		.kind = kind, .class = CLASS_MEMORY, .bytes = bytes, .charged = true, .device = device,
		.context = context,
	});
}

bool grant_resize(struct grant *grant, uint64_t bytes)
{
	if (grant->charged && bytes > grant->bytes) {
		struct guest_device *device = &guest.devices[grant->device];

		if (!quota_take(device->word, bytes - grant->bytes, device->limit)) {
			refuse(grant->thread, grant->device, bytes);
			return false;
		}
	} else if (grant->charged) {
		quota_give_back(guest.devices[grant->device].word, grant->bytes - bytes);
	}
	grant->bytes = bytes;
	if (grant->record != LEDGER_NO_RECORD)
		ledger_record(grant->record)->bytes = bytes;
	return true;
}

static void give_back(struct grant *grant)
{
	if (grant->charged)
		quota_give_back(guest.devices[grant->device].word, grant->bytes);
	if (grant->record != LEDGER_NO_RECORD)
		ledger_remove(&grant->thread->spares, grant->record);
}

/* What is live of a kind: exact whenever no other thread is in the middle of a call. */
static __attribute__((noinline)) void note_kind_peak(enum cuward_kind kind)
{
	int64_t live = 0;
	uint32_t threads = __atomic_load_n(&guest.header->thread_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < threads; i++)
		live += __atomic_load_n(&ledger_threads()[i].bytes[kind], __ATOMIC_RELAXED);
	if (live > 0)
		raise_to(&guest.header->kind_peak_bytes[kind], live);
}

hot void count_live(struct grant *grant, enum cuward_kind kind)
{
	struct ledger_thread *counts = grant->thread->counts;
	uint64_t held = 0;

	counts->allocs[kind]++;
	add_own(&counts->bytes[kind], grant->bytes);
	if (grant->charged) {
		struct guest_device *device = &guest.devices[grant->device];
		uint64_t used = quota_used(device->word);

		if (used > __atomic_load_n(&device->ledger->peak_bytes, __ATOMIC_RELAXED))
			raise_to(&device->ledger->peak_bytes, used);
		for (uint32_t i = 0; i < guest.device_count; i++)
			held += quota_used(guest.devices[i].word);
	}
	/* No kind holds more than all together: mostly this comparison says there is no new peak. */
	if (!grant->charged ||
		held > __atomic_load_n(&guest.header->kind_peak_bytes[kind], __ATOMIC_RELAXED))
		note_kind_peak(kind);
}

static void account_gone(struct thread *thread, uint32_t record);

static __attribute__((noinline)) void trace_grant(const struct grant *grant,
	const struct ledger_record *record)
{
	struct event_alloc event = {
		.thread = guest_trace_key(grant->thread), .api = record->api, .kind = record->kind,
		.device = record->device, .duration_ns = traced_duration(grant->began_ns),
		.site = record->site, .pointer = record->handle, .bytes = record->bytes,
		.live_bytes = charged_bytes(grant->device), .stream = grant->stream,
	};

	trace_define_api(guest.key, record->api);
	trace_alloc(&event);
}

CUresult grant_close(struct grant *grant, CUresult result, uint64_t handle)
{
	struct ledger_record *record;
	uint32_t stale;

	if (unlikely(result != CUDA_SUCCESS)) {
		give_back(grant);
		return traced_end(current_api(grant->thread), result, grant->began_ns);
	}
	if (unlikely(grant->record == LEDGER_NO_RECORD))
		return result;
	record = ledger_record(grant->record);
	stale = ledger_commit(grant->record, handle);
	count_live(grant, record->kind);
	/* The driver hands out what we thought was taken: that memory went with its context. */
	if (unlikely(stale != LEDGER_NO_RECORD))
		account_gone(grant->thread, stale);
	if (unlikely(trace_on))
		trace_grant(grant, record);
	return result;
}

/* ---- freeing ---- */

static __attribute__((noinline)) void trace_gone(struct thread *thread,
	const struct ledger_record *record, uint64_t began_ns)
{
	struct event_free event = {
		.thread = guest_trace_key(thread), .api = current_api(thread), .kind = record->kind,
		.device = record->device, .duration_ns = began_ns ? traced_duration(began_ns) : 0,
		.pointer = record->handle, .bytes = record->bytes,
		.live_bytes = record->device == UINT8_MAX ? 0 : charged_bytes(record->device),
	};

	trace_define_api(guest.key, event.api);
	trace_free(&event);
}

hot void account(struct thread *thread, uint32_t number, uint64_t began_ns)
{
	struct ledger_record *record = ledger_record(number);

	if (record->flags & RECORD_CHARGED)
		quota_give_back(guest.devices[record->device].word, record->bytes);
	if (likely(record->class != CLASS_OBJECT)) {
		thread->counts->frees[record->kind]++;
		add_own(&thread->counts->bytes[record->kind], -(int64_t)record->bytes);
		if (unlikely(trace_on))
			trace_gone(thread, record, began_ns);
	} else {
		thread->counts->destroyed[record->kind]++;
	}
	ledger_remove(&thread->spares, number);
}

static void account_gone(struct thread *thread, uint32_t record)
{
	if (ledger_record(record)->class != CLASS_OBJECT)
		guest_find(FINDING_CONTEXT_RECLAIMED);
	account(thread, record, 0);
}

void release_open(struct release *release, enum record_class class, uint64_t handle)
{
	release->thread = guest_thread();
	release->class = class;
	release->handle = handle;
	release->record = likely(guest.header) ? ledger_claim(class, handle) : LEDGER_NO_RECORD;
	release->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
}

/* The driver refused to free something we do not know: say what it probably is. */
static __attribute__((noinline)) void explain_failed_free(const struct release *release,
	CUresult result)
{
	if (release->handle == 0 || release->class == CLASS_OBJECT || !guest.header)
		return;
	if (result == CUDA_ERROR_DEINITIALIZED)
		guest_find(FINDING_FREE_AFTER_SHUTDOWN);
	else if (ledger_was_freed(release->class, release->handle))
		guest_find(FINDING_DOUBLE_FREE);
	else if (release->class == CLASS_MEMORY && guest.header->findings[FINDING_INTERIOR_FREE] < 64 &&
	         ledger_contains(release->handle))
		guest_find(FINDING_INTERIOR_FREE);
	else
		guest_find(FINDING_INVALID_FREE);
}

static void failed(struct release *release, CUresult result)
{
	if (release->record == LEDGER_NO_RECORD) {
		explain_failed_free(release, result);
		return;
	}
	ledger_restore(release->record);
	if (result == CUDA_ERROR_DEINITIALIZED) {
		/* The driver is gone and its memory with it: not live, and no leak. */
		ledger_record(release->record)->state = RECORD_LOST;
		guest_find(FINDING_FREE_AFTER_SHUTDOWN);
	}
}

CUresult release_close(struct release *release, CUresult result)
{
	if (unlikely(result != CUDA_SUCCESS)) {
		failed(release, result);
		traced_end(current_api(release->thread), result, release->began_ns);
	} else if (likely(release->record != LEDGER_NO_RECORD)) {
		account(release->thread, release->record, release->began_ns);
	} else if (release->handle != 0 && release->class != CLASS_OBJECT) {
		/* Freed all the same: made where we did not see it, inside another library, say. */
		guest_find(FINDING_INVALID_FREE);
	}
	return result;
}

/* ---- contexts and objects ---- */

uint32_t grant_sweep_epoch(void)
{
	return __atomic_add_fetch(&guest.epoch, 1, __ATOMIC_ACQ_REL);
}

void grant_sweep(CUcontext context, uint32_t epoch)
{
	struct thread *thread = guest_thread();
	uint32_t position = 0;
	uint32_t record;

	/* Whoever cached this context's device may meet its handle again on another device. */
	__atomic_add_fetch(&guest.epoch, 1, __ATOMIC_ACQ_REL);
	if (!guest.header || !context)
		return;
	while ((record = ledger_claim_owned((uint64_t)context, epoch, &position)) != LEDGER_NO_RECORD)
		account_gone(thread, record);
}

/* Handles of different kinds may be equal numbers. */
static uint64_t object_key(enum cuward_object kind, uint64_t handle)
{
	return handle ^ (uint64_t)(kind + 1) << 56;
}

void grant_object_created(enum cuward_object kind, uint64_t handle, int device, CUcontext owner)
{
	struct thread *thread = guest_thread();
	struct grant grant = { .thread = thread, .device = device };
	struct grant_request request = {
		.kind = (enum cuward_kind)kind, .class = CLASS_OBJECT, .device = device, .context = owner,
	};
	uint32_t stale;

	thread->counts->created[kind]++;
	grant.record = guest.header ? ledger_begin(&thread->spares) : LEDGER_NO_RECORD;
	if (grant.record == LEDGER_NO_RECORD)
		return;
	fill_record(&grant, &request);
	stale = ledger_commit(grant.record, object_key(kind, handle));
	if (stale != LEDGER_NO_RECORD)
		account(thread, stale, 0);
}

void grant_object_open(struct release *release, enum cuward_object kind, uint64_t handle)
{
	release_open(release, CLASS_OBJECT, object_key(kind, handle));
}

bool grant_object_find(enum cuward_object kind, uint64_t handle, struct ledger_record *copy)
{
	return guest.header && ledger_find(CLASS_OBJECT, object_key(kind, handle), copy);
}
