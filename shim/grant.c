/*
 * grant.c - quota, ledger and trace around one driver call; the only place that knows their order.
 */
#include "grant.h"

#include <string.h>

#include "denial.h"
#include "fault.h"
#include "graph_memory.h"
#include "growth.h"
#include "ledger.h"
#include "bounds.h"
#include "mapping.h"
#include "overhead.h"
#include "patience.h"
#include "pool.h"
#include "quota.h"
#include "site.h"
#include "traced.h"

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

/* ---- taking ---- */
#define set_field(field, value) __atomic_store_n(field, value, __ATOMIC_RELAXED)

hot void fill_record(const struct grant *grant, const struct grant_request *request)
{
	struct ledger_record *record = ledger_record(grant->record);

	/* Scans by other threads look at records that are being written: atomic, for what they read. */
	set_field(&record->handle, 0);
	set_field(&record->bytes, request->bytes);
	set_field(&record->context, (uint64_t)request->context);
	record->time_ns = guest_realtime_ns();
	record->site = site_of(grant->thread->caller, grant->thread->frame);
	record->tid = grant->thread->tid;
	set_field(&record->epoch, __atomic_load_n(&guest.epoch, __ATOMIC_RELAXED));
	record->api = thread_api(grant->thread);
	set_field(&record->kind, request->kind);
	set_field(&record->class, request->class);
	record->device = request->device < 0 ? UINT8_MAX : request->device;
	set_field(&record->flags, (grant->charged ? RECORD_CHARGED : 0) |
		(request->context ? RECORD_CONTEXT_OWNED : 0) |
		(grant->limited ? RECORD_CLASS_LIMITED : 0) |
		(request->pooled && grant->charged ? RECORD_IN_POOL : 0));
	record->pending = 0;
	record->refs = 1;
	record->mappings = 0;
	ledger_set_state(record, RECORD_ALLOCATING);
}

static bool take_from(struct guest_device *on, uint64_t bytes, struct refusal *why)
{
	if (unlikely(on->grouped))
		return group_take(on->word, on->ledger->slot_device, bytes, on->limit, &on->group, why);
	if (likely(quota_take(on->word, bytes, on->limit)))
		return true;
	*why = (struct refusal){ .limit_bytes = on->limit, .used_bytes = quota_used(on->word) };
	return false;
}

/* What a pool keeps may be given back by now: look again before saying no. Then what the user wants. */
static __attribute__((noinline)) bool take_again(struct thread *thread, int device, uint64_t bytes,
	struct refusal *why)
{
	struct guest_device *on = &guest.devices[device];

	if (why->limit_bytes == BYTES_NONE)
		return false;
	if (guest.policy.pools_reserved || graph_memory_possible()) {
		pool_look(device);
		graph_memory_look(device);
		if (take_from(on, bytes, why))
			return true;
	}
	return guest.policy.on_limit != ON_LIMIT_DENY && patience_take(thread, device, bytes, why);
}

bool grant_take_once(int device, uint64_t bytes, struct refusal *why)
{
	bounds_look();
	return take_from(&guest.devices[device], bytes, why);
}

hot bool take(struct thread *thread, int device, uint64_t bytes, struct refusal *why)
{
	struct guest_device *on = &guest.devices[device];

	bounds_look();
	if (likely(!on->grouped) && likely(quota_take(on->word, bytes, on->limit)))
		return true;
	return take_from(on, bytes, why) || take_again(thread, device, bytes, why);
}

static __attribute__((noinline)) CUresult refuse_all(struct thread *thread, int device, uint64_t bytes)
{
	struct refusal why = { .scope = SCOPE_PROCESS };

	if (device >= 0)
		why.used_bytes = quota_used(guest.devices[device].word);
	return denial_refuse(thread, device, bytes, &why);
}

/* Memory whose kind has a limit of its own. */
static __attribute__((noinline)) bool take_of_kind(struct grant *grant,
	const struct grant_request *request, struct refusal *why)
{
	struct kind_limit *limit = &guest.kinds[request->kind];

	if (!quota_take(&limit->word, request->bytes, limit->bytes)) {
		*why = (struct refusal){ .limit_bytes = limit->bytes, .used_bytes = quota_used(&limit->word) };
		return false;
	}
	grant->limited = true;
	return true;
}

hot CUresult open_for(struct grant *grant, struct thread *thread,
	const struct grant_request *request)
{
	struct refusal why;

	grant->thread = thread;
	grant->bytes = request->bytes;
	grant->stream = request->stream;
	grant->device = request->device;
	grant->charged = request->charged && request->device >= 0;
	grant->limited = false;
	if (unlikely(guest.refused))
		return refuse_all(thread, request->device, request->bytes);
	if (grant->charged) {
		if (unlikely(!take(thread, request->device, request->bytes, &why))) {
			/* Nobody's quota: a size no GPU has. The driver says so itself. */
			if (why.limit_bytes != BYTES_NONE)
				return denial_refuse(thread, request->device, request->bytes, &why);
			grant->charged = false;
		}
	} else if (unlikely(request->class != CLASS_OBJECT && guest.kinds[request->kind].bytes)) {
		if (!take_of_kind(grant, request, &why))
			return denial_refuse(thread, request->device, request->bytes, &why);
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

CUresult grant_reserve(int device, uint64_t bytes)
{
	struct thread *thread = guest_thread();
	struct refusal why;

	if (unlikely(guest.refused))
		return refuse_all(thread, device, bytes);
	if (bytes == 0 || take(thread, device, bytes, &why))
		return CUDA_SUCCESS;
	return denial_refuse(thread, device, bytes, &why);
}

void grant_give_back(int device, uint64_t bytes)
{
	quota_give_back(guest.devices[device].word, bytes);
}

CUresult grant_would_fit(int device, uint64_t bytes)
{
	CUresult result;

	bounds_look();
	if (device < 0 || (guest.devices[device].limit == BYTES_NONE &&
		!guest.devices[device].grouped && !guest.refused))
		return CUDA_SUCCESS;
	result = grant_reserve(device, bytes);
	if (result == CUDA_SUCCESS)
		quota_give_back(guest.devices[device].word, bytes);
	return result;
}

void grant_charge(int device, int64_t bytes)
{
	struct guest_device *on = &guest.devices[device];

	quota_give_back(on->word, -bytes);
	__atomic_fetch_add(&on->ledger->charged_bytes, bytes, __ATOMIC_RELAXED);
	raise_to(&on->ledger->peak_bytes, quota_used(on->word));
}

bool grant_resize(struct grant *grant, uint64_t bytes)
{
	struct refusal why;

	if (grant->charged && bytes > grant->bytes) {
		if (!take(grant->thread, grant->device, bytes - grant->bytes, &why)) {
			denial_refuse(grant->thread, grant->device, bytes, &why);
			return false;
		}
	} else if (grant->charged) {
		quota_give_back(guest.devices[grant->device].word, grant->bytes - bytes);
	}
	grant->bytes = bytes;
	if (grant->record != LEDGER_NO_RECORD)
		set_field(&ledger_record(grant->record)->bytes, bytes);
	return true;
}

static void give_back(struct grant *grant)
{
	if (grant->charged)
		quota_give_back(guest.devices[grant->device].word, grant->bytes);
	else if (grant->limited)
		quota_give_back(&guest.kinds[ledger_record(grant->record)->kind].word, grant->bytes);
	if (grant->record != LEDGER_NO_RECORD)
		ledger_remove(&grant->thread->spares, grant->record, NULL);
}

void grant_withdraw(struct grant *grant)
{
	give_back(grant);
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

hot void count_live(struct grant *grant, const struct ledger_record *record)
{
	enum cuward_kind kind = record->kind;
	struct ledger_thread *counts = grant->thread->counts;
	uint64_t held = 0;

	guest_active(record->time_ns);
	counts->allocs[kind]++;
	add_own(&counts->bytes[kind], grant->bytes);
	if (likely(grant->charged)) {
		struct guest_device *device = &guest.devices[grant->device];
		uint64_t used = quota_used(device->word);

		if (unlikely(record->flags & RECORD_IN_POOL))
			__atomic_fetch_add(&device->pool_bytes, grant->bytes, __ATOMIC_RELAXED);
		if (unlikely(record->time_ns >= __atomic_load_n(&device->next_sample_ns, __ATOMIC_RELAXED)))
			overhead_sample(grant->device);
		if (used > __atomic_load_n(&device->ledger->peak_bytes, __ATOMIC_RELAXED))
			raise_to(&device->ledger->peak_bytes, used);
		for (uint32_t i = 0; i < guest.device_count; i++)
			held += quota_used(guest.devices[i].word);
		if (unlikely(held > __atomic_load_n(&guest.window_peak, __ATOMIC_RELAXED)))
			raise_to(&guest.window_peak, held);
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
	traced_define_site(record->site);
	trace_alloc(&event);
}

CUresult grant_close(struct grant *grant, CUresult result, uint64_t handle)
{
	struct ledger_record *record;
	uint32_t stale;

	if (unlikely(result != CUDA_SUCCESS)) {
		give_back(grant);
		return traced_end(thread_api(grant->thread), result, grant->began_ns);
	}
	if (unlikely(grant->record == LEDGER_NO_RECORD))
		return result;
	record = ledger_record(grant->record);
	stale = ledger_commit(grant->record, handle);
	count_live(grant, record);
	growth_taken(record);
	/* The driver hands out what we thought was taken: that memory went with its context. */
	if (unlikely(stale != LEDGER_NO_RECORD))
		account_gone(grant->thread, stale);
	if (unlikely(trace_on))
		trace_grant(grant, record);
	return result;
}

/* A live record has another size now; `reserved` bytes were taken for that before. */
static void set_bytes(struct ledger_record *record, uint64_t bytes, uint64_t reserved)
{
	struct thread *thread = guest_thread();
	int64_t more = bytes - record->bytes;

	record->bytes = bytes;
	add_own(&thread->counts->bytes[record->kind], more);
	if (record->flags & RECORD_CHARGED) {
		struct guest_device *device = &guest.devices[record->device];

		quota_give_back(device->word, reserved - more);
		raise_to(&device->ledger->peak_bytes, quota_used(device->word));
	}
	note_kind_peak(record->kind);
}

void grant_grow(uint32_t record, uint64_t bytes, uint64_t reserved)
{
	lock_take(&ledger.refs_lock);
	/* Another mapping may have told more by now. */
	if (bytes > ledger_record(record)->bytes)
		set_bytes(ledger_record(record), bytes, reserved);
	else if (reserved)
		grant_give_back(ledger_record(record)->device, reserved);
	lock_give_back(&ledger.refs_lock);
}

/* A record for what nobody asked for by name, empty at first. */
static uint32_t new_held(enum cuward_kind kind, enum record_class class, int device, uint64_t handle)
{
	struct thread *thread = guest_thread();
	struct grant grant = { .thread = thread, .device = device, .charged = true };
	struct grant_request request = { .kind = kind, .class = class, .device = device };

	grant.record = guest.header ? ledger_begin(&thread->spares) : LEDGER_NO_RECORD;
	if (grant.record == LEDGER_NO_RECORD)
		return grant.record;
	fill_record(&grant, &request);
	ledger_commit(grant.record, handle);
	thread->counts->allocs[kind]++;
	return grant.record;
}

uint64_t grant_held(enum record_class class, uint64_t handle)
{
	struct ledger_record copy;

	return guest.header && ledger_find(class, handle, &copy) ? copy.bytes : 0;
}

void grant_hold(enum cuward_kind kind, enum record_class class, int device, uint64_t handle,
	uint64_t bytes, uint64_t reserved)
{
	uint32_t gone = LEDGER_NO_RECORD;
	uint32_t record;

	lock_take(&ledger.refs_lock);
	record = guest.header ? index_lookup(class, handle) : LEDGER_NO_RECORD;
	if (record == LEDGER_NO_RECORD && bytes)
		record = new_held(kind, class, device, handle);
	if (record == LEDGER_NO_RECORD)
		quota_give_back(guest.devices[device].word, reserved);
	else
		set_bytes(ledger_record(record), bytes, reserved);
	if (record != LEDGER_NO_RECORD && bytes == 0)
		gone = ledger_claim(class, handle);
	lock_give_back(&ledger.refs_lock);
	if (gone != LEDGER_NO_RECORD)
		grant_gone(gone);
}

/* ---- freeing ---- */

static __attribute__((noinline)) void trace_gone(struct thread *thread,
	const struct ledger_record *record, uint64_t began_ns)
{
	struct event_free event = {
		.thread = guest_trace_key(thread), .api = thread_api(thread), .kind = record->kind,
		.device = record->device, .duration_ns = began_ns ? traced_duration(began_ns) : 0,
		.pointer = record->handle, .bytes = record->bytes,
		.live_bytes = record->device == UINT8_MAX ? 0 : charged_bytes(record->device),
	};

	trace_define_api(guest.key, event.api);
	trace_free(&event);
}

static __attribute__((noinline)) void pool_freed(const struct ledger_record *record)
{
	__atomic_fetch_sub(&guest.devices[record->device].pool_bytes, record->bytes, __ATOMIC_RELAXED);
	pool_look(record->device);
}

hot void account(struct thread *thread, uint32_t number, uint64_t began_ns)
{
	struct ledger_record *record = ledger_record(number);

	/* First what its pool keeps of it, then the credit: never less than the truth. */
	if (unlikely(record->flags & RECORD_IN_POOL))
		pool_freed(record);
	if (likely(record->flags & RECORD_CHARGED))
		quota_give_back(guest.devices[record->device].word, record->bytes);
	else if (record->flags & RECORD_CLASS_LIMITED)
		quota_give_back(&guest.kinds[record->kind].word, record->bytes);
	if (likely(record->class != CLASS_OBJECT)) {
		thread->counts->frees[record->kind]++;
		add_own(&thread->counts->bytes[record->kind], -(int64_t)record->bytes);
		growth_given(record);
		if (unlikely(trace_on))
			trace_gone(thread, record, began_ns);
	} else {
		thread->counts->destroyed[record->kind]++;
		if (unlikely(record->bytes))
			overhead_gone(record);
	}
	ledger_remove(&thread->spares, number, thread->caller);
}

static void account_gone(struct thread *thread, uint32_t record)
{
	if (ledger_record(record)->class != CLASS_OBJECT)
		guest_find(FINDING_CONTEXT_RECLAIMED);
	if (ledger_record(record)->class == CLASS_ARRAY && ledger_record(record)->link)
		mapping_array_remove(record, NULL);
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
		fault_note(release->thread, FINDING_FREE_AFTER_SHUTDOWN, release->handle, NULL);
	else
		fault_explain(release->thread, release->class, release->handle);
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
		fault_note(release->thread, FINDING_FREE_AFTER_SHUTDOWN, release->handle,
			ledger_record(release->record));
	}
}

CUresult release_close(struct release *release, CUresult result)
{
	if (unlikely(result != CUDA_SUCCESS)) {
		failed(release, result);
		traced_end(thread_api(release->thread), result, release->began_ns);
	} else if (likely(release->record != LEDGER_NO_RECORD)) {
		account(release->thread, release->record, release->began_ns);
	} else if (graph_memory_possible()) {
		/* The allocations of graphs are no records. */
		graph_memory_freed();
	} else if (release->handle != 0 && release->class != CLASS_OBJECT) {
		/* Freed all the same: made where we did not see it, inside another library, say. */
		fault_note(release->thread, FINDING_INVALID_FREE, release->handle, NULL);
	}
	return result;
}

void release_open_ref(struct release *release, enum record_class class, uint64_t handle, enum ref what)
{
	release->thread = guest_thread();
	release->class = class;
	release->handle = handle;
	release->change.record = LEDGER_NO_RECORD;
	if (likely(guest.header))
		refs_open(&release->change, class, handle, what, false);
	release->record = release->change.record;
	release->began_ns = unlikely(trace_on) ? guest_clock_ns() : 0;
}

CUresult release_close_ref(struct release *release, CUresult result)
{
	if (refs_close(&release->change, result == CUDA_SUCCESS))
		account(release->thread, release->record, release->began_ns);
	else if (result != CUDA_SUCCESS)
		traced_end(thread_api(release->thread), result, release->began_ns);
	if (result != CUDA_SUCCESS && release->record == LEDGER_NO_RECORD)
		explain_failed_free(release, result);
	return result;
}

void grant_gone(uint32_t record)
{
	account(guest_thread(), record, 0);
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
uint64_t grant_object_key(enum cuward_object kind, uint64_t handle)
{
	return handle ^ (uint64_t)(kind + 1) << 56;
}

uint32_t grant_object_created(enum cuward_object kind, uint64_t handle, int device, CUcontext owner)
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
		return grant.record;
	fill_record(&grant, &request);
	stale = ledger_commit(grant.record, grant_object_key(kind, handle));
	if (stale != LEDGER_NO_RECORD)
		account(thread, stale, 0);
	return grant.record;
}

void grant_object_open(struct release *release, enum cuward_object kind, uint64_t handle)
{
	release_open(release, CLASS_OBJECT, grant_object_key(kind, handle));
}

bool grant_object_find(enum cuward_object kind, uint64_t handle, struct ledger_record *copy)
{
	return guest.header && ledger_find(CLASS_OBJECT, grant_object_key(kind, handle), copy);
}
