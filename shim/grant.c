/*
 * grant.c - quota, ledger and trace around one driver call; the only place that knows their order.
 */
#include "grant.h"

#include <string.h>

#include "denial.h"
#include "grant_hot.h"
#include "graph_memory.h"
#include "patience.h"
#include "pool.h"
#include "site.h"

/* ---- taking ---- */

static bool take_from(const struct asker *asker, uint64_t bytes, struct refusal *why)
{
	struct guest_device *on = &guest.devices[asker->device];

	if (unlikely(on->grouped)) {
		const struct request request = {
			.word = on->word, .word_index = on->ledger->slot_device, .bytes = bytes,
			.process_limit = on->limit, .limits = &on->group, .asker = asker, .why = why,
		};

		return group_take(&request);
	}
	if (likely(quota_take(on->word, bytes, on->limit)))
		return true;
	*why = (struct refusal){ .limit_bytes = on->limit, .used_bytes = quota_used(on->word) };
	return false;
}

/* What a pool keeps may be given back by now: look again before saying no. Then what the user wants. */
static __attribute__((noinline)) bool take_again(struct thread *thread, const struct asker *asker,
	uint64_t bytes, struct refusal *why)
{
	if (why->limit_bytes == BYTES_NONE)
		return false;
	if (guest.policy.pools_reserved || graph_memory_possible()) {
		pool_look(asker->device);
		graph_memory_look(asker->device);
		if (take_from(asker, bytes, why))
			return true;
	}
	if (why->turn == TURN_PASS && guest.policy.on_limit == ON_LIMIT_DENY)
		return false;
	return patience_take(thread, asker->device, bytes, why);
}

bool grant_take_once(const struct asker *asker, uint64_t bytes, struct refusal *why)
{
	bounds_look();
	return take_from(asker, bytes, why);
}

static bool take(struct thread *thread, int device, uint64_t bytes, struct refusal *why)
{
	const struct asker asker = { .device = device, .queues = guest.policy.on_limit == ON_LIMIT_WAIT };

	bounds_look();
	return take_from(&asker, bytes, why) || take_again(thread, &asker, bytes, why);
}

static CUresult refuse_all(struct thread *thread, int device, uint64_t bytes)
{
	struct refusal why = { .scope = SCOPE_PROCESS };

	if (device >= 0)
		why.used_bytes = quota_used(guest.devices[device].word);
	return denial_refuse(thread, device, bytes, &why);
}

/* Memory whose kind has a limit of its own. */
static bool take_of_kind(const struct grant_request *request, struct refusal *why)
{
	struct kind_limit *limit = &guest.kinds[request->kind];

	if (quota_take(&limit->word, request->bytes, limit->bytes))
		return true;
	*why = (struct refusal){
		.limit_bytes = limit->bytes, .used_bytes = quota_used(&limit->word),
		.source = request->kind == KIND_PINNED ? "CUWARD_PINNED" : "CUWARD_MANAGED",
	};
	return false;
}

/* What the pool has free is charged already, and becomes the record's. */
static bool take_pooled(struct thread *thread, const struct grant_request *request, struct refusal *why)
{
	uint64_t reused = request->pooled ?
		pool_reuse(request->device, (CUmemoryPool)request->pool, request->bytes) : 0;

	if (reused == request->bytes && reused)
		return true;
	if (take(thread, request->device, request->bytes - reused, why))
		return true;
	if (reused) {
		pool_look(request->device);
		quota_give_back(guest.devices[request->device].word, reused);
	}
	return false;
}

struct grant_answer grant_take_slowly(struct thread *thread, struct grant_request request)
{
	struct refusal why;

	if (unlikely(guest.refused))
		return (struct grant_answer){ refuse_all(thread, request.device, request.bytes), 0 };
	if (request.charged && request.device >= 0) {
		if (take_pooled(thread, &request, &why))
			return (struct grant_answer){ CUDA_SUCCESS, RECORD_CHARGED };
		/* Nobody's quota: a size no GPU has. The driver says so itself. */
		if (why.limit_bytes == BYTES_NONE)
			return (struct grant_answer){ CUDA_SUCCESS, 0 };
	} else if (request.class == CLASS_OBJECT || !guest.kinds[request.kind].bytes) {
		return (struct grant_answer){ CUDA_SUCCESS, 0 };
	} else if (take_of_kind(&request, &why)) {
		return (struct grant_answer){ CUDA_SUCCESS, RECORD_CLASS_LIMITED };
	}
	return (struct grant_answer){ denial_refuse(thread, request.device, request.bytes, &why), 0 };
}

uint32_t grant_find_site(struct thread *thread)
{
	uint32_t site = site_of(thread->caller, thread->frame);

	if (site_is_the_address()) {
		thread->site = site;
		thread->sited = thread->caller;
	}
	return site;
}

CUresult grant_open_for(struct grant *grant, const struct grant_request *request)
{
	return grant_open_hot(grant, guest_thread(), request);
}

CUresult grant_open(struct grant *grant, enum cuward_kind kind, uint64_t bytes)
{
	return grant_open_here(grant, kind, bytes);
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

CUresult grant_would_fit(int device, uint64_t bytes)
{
	CUresult result;

	if (device < 0) /* nor is there anything to look at before cuInit */
		return CUDA_SUCCESS;
	bounds_look();
	if (guest.devices[device].limit == BYTES_NONE && !guest.devices[device].grouped && !guest.refused)
		return CUDA_SUCCESS;
	result = grant_reserve(device, bytes);
	if (result == CUDA_SUCCESS)
		quota_give_back(guest.devices[device].word, bytes);
	return result;
}

void grant_charge(int device, int64_t bytes, uint64_t freed)
{
	struct guest_device *on = &guest.devices[device];

	quota_give_back(on->word, freed - bytes);
	__atomic_fetch_add(&on->ledger->charged_bytes, bytes, __ATOMIC_RELAXED);
	raise_to(&on->ledger->peak_bytes, quota_used(on->word));
}

bool grant_resize(struct grant *grant, uint64_t bytes)
{
	struct refusal why;

	if (grant->flags & RECORD_CHARGED && bytes > grant->bytes) {
		if (!take(grant->thread, grant->device, bytes - grant->bytes, &why)) {
			denial_refuse(grant->thread, grant->device, bytes, &why);
			return false;
		}
	} else if (grant->flags & RECORD_CHARGED) {
		quota_give_back(guest.devices[grant->device].word, grant->bytes - bytes);
	}
	grant->bytes = bytes;
	if (grant->at)
		set_field(&grant->at->bytes, bytes);
	return true;
}

void grant_withdraw(struct grant *grant)
{
	if (grant->flags & RECORD_CHARGED)
		quota_give_back(guest.devices[grant->device].word, grant->bytes);
	else if (grant->flags & RECORD_CLASS_LIMITED)
		quota_give_back(&guest.kinds[grant->kind].word, grant->bytes);
	if (grant->at)
		ledger_remove(&grant->thread->spares, grant->record, grant->at, NULL);
}

/* ---- taken ---- */

/* What is live of a kind: exact whenever no other thread is in the middle of a call. */
void grant_note_kind_peak(enum cuward_kind kind)
{
	int64_t live = 0;
	uint32_t threads = __atomic_load_n(&guest.header->thread_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < threads; i++)
		live += __atomic_load_n(&ledger_threads()[i].bytes[kind], __ATOMIC_RELAXED);
	if (live > 0)
		raise_to(&guest.header->kind_peak_bytes[kind], live);
}

uint64_t grant_held_everywhere(void)
{
	uint64_t held = 0;

	for (uint32_t i = 0; i < guest.device_count; i++)
		held += quota_used(guest.devices[i].word);
	return held;
}

uint64_t grant_charged_bytes(int device)
{
	return device >= 0 ? quota_used(guest.devices[device].word) : 0;
}

static void trace_grant(const struct grant *grant)
{
	const struct ledger_record *record = grant->at;
	struct event_alloc event = {
		.thread = guest_trace_key(grant->thread), .api = record->api, .kind = record->kind,
		.device = record->device, .duration_ns = traced_duration(grant->began_ns),
		.site = record->site, .pointer = record->handle, .bytes = record->bytes,
		.live_bytes = grant_charged_bytes(grant->device), .stream = grant->stream,
	};

	trace_define_api(guest.key, record->api);
	traced_define_site(record->site);
	trace_alloc(&event);
}

void grant_tell(struct grant grant, uint32_t stale)
{
	growth_taken(grant.at);
	if (stale != LEDGER_NO_RECORD)
		release_reclaimed(grant.thread, stale);
	if (trace_on)
		trace_grant(&grant);
	if (context_died_since(&grant))
		grant_sweep_missed(grant.record);
}

CUresult grant_close_oddly(struct grant grant, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return result;
	grant_withdraw(&grant);
	return traced_end(thread_api(grant.thread), result, grant.began_ns);
}

CUresult grant_close(struct grant *grant, CUresult result, uint64_t handle)
{
	return grant_close_hot(grant, result, grant->at ? grant->at->class : CLASS_MEMORY, handle);
}

/* A live record has another size now; `reserved` bytes were taken for that before. */
static void set_bytes(struct ledger_record *record, uint64_t bytes, uint64_t reserved)
{
	struct thread *thread = guest_thread();
	int64_t more = bytes - record->bytes;

	set_field(&record->bytes, bytes);
	add_own(&thread->counts->bytes[record->kind], more);
	if (record->flags & RECORD_CHARGED) {
		struct guest_device *device = &guest.devices[record->device];

		quota_give_back(device->word, reserved - more);
		if (more > 0) /* what is taken for a call under way is no peak: it may fail */
			raise_to(&device->ledger->peak_bytes, quota_used(device->word));
	}
	grant_note_kind_peak(record->kind);
}

void grant_grow(uint32_t record, uint64_t bytes, uint64_t reserved)
{
	lock_take(&ledger.refs_lock);
	if (bytes < ledger_record(record)->bytes) /* another mapping told more by now */
		bytes = ledger_record(record)->bytes;
	set_bytes(ledger_record(record), bytes, reserved);
	lock_give_back(&ledger.refs_lock);
}

static void learn(struct ledger_record *record, void *bytes)
{
	if (!(record->flags & RECORD_UNSIZED))
		return;
	set_field(&record->flags, record->flags & ~RECORD_UNSIZED);
	set_bytes(record, *(const uint64_t *)bytes, 0);
}

void grant_learn(uint64_t handle, uint64_t bytes)
{
	index_change(CLASS_MEMORY, handle, learn, &bytes);
}

/* A record for what nobody asked for by name, empty at first. */
static uint32_t new_held(enum cuward_kind kind, enum record_class class, int device, uint64_t handle)
{
	struct thread *thread = guest_thread();
	struct grant grant = { .thread = thread, .device = device, .flags = RECORD_CHARGED };
	struct grant_request request = { .kind = kind, .class = class, .device = device };

	grant.record = guest.header ? ledger_begin(&thread->spares) : LEDGER_NO_RECORD;
	if (grant.record == LEDGER_NO_RECORD)
		return grant.record;
	grant.at = ledger_record(grant.record);
	fill_record(&grant, &request);
	ledger_commit(grant.record, grant.at, class, handle);
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

/* ---- contexts and objects ---- */

void grant_gone(uint32_t record)
{
	account(guest_thread(), record, 0);
}

uint32_t grant_sweep_epoch(void)
{
	return __atomic_add_fetch(&guest.epoch, 1, __ATOMIC_ACQ_REL);
}

/* Sweeps meet the records of calls that are under way on other threads neither before nor after them. */
static void note_death(CUcontext context, uint32_t before)
{
	guest.deaths[guest.death_count++ % DEATHS_MAX] = (struct guest_death){
		.context = (uint64_t)context, .before = before,
	};
}

static void sweep(CUcontext context, uint32_t before)
{
	struct thread *thread = guest_thread();
	uint32_t position = 0;
	uint32_t record;

	ledger_fence();
	while ((record = ledger_claim_owned((uint64_t)context, before, &position)) != LEDGER_NO_RECORD)
		release_reclaimed(thread, record);
}

/*
 * The step of the epoch is also for whoever cached this context's device: its handle may be met again on
 * another one. A new context of that handle made a step, too, before its record: nothing of it is older
 * than that. Where it has no record yet, whatever will be in it is younger than our step.
 */
void grant_sweep(CUcontext context)
{
	struct ledger_record heir;
	uint32_t before;

	lock_take(&guest.deaths_lock);
	before = __atomic_add_fetch(&guest.epoch, 1, __ATOMIC_SEQ_CST);
	if (context && grant_object_find(OBJECT_CONTEXT, (uint64_t)context, &heir))
		before = heir.epoch;
	note_death(context, before);
	lock_give_back(&guest.deaths_lock);
	if (guest.header && context)
		sweep(context, before);
}

void grant_sweep_before(CUcontext context, uint32_t epoch)
{
	lock_take(&guest.deaths_lock);
	__atomic_add_fetch(&guest.epoch, 1, __ATOMIC_SEQ_CST);
	note_death(context, epoch);
	lock_give_back(&guest.deaths_lock);
	if (guest.header && context)
		sweep(context, epoch);
}

/* Of the deaths that are remembered: more than those do not happen during one call. */
static bool claim_if_dead(uint32_t record)
{
	uint64_t owner = __atomic_load_n(&ledger_record(record)->context, __ATOMIC_RELAXED);
	bool found = false;

	lock_take(&guest.deaths_lock);
	for (uint32_t i = 0; owner && i < DEATHS_MAX && !found; i++) {
		if (guest.deaths[i].context == owner)
			found = ledger_claim_if_owned(record, owner, guest.deaths[i].before);
	}
	lock_give_back(&guest.deaths_lock);
	return found;
}

void grant_sweep_missed(uint32_t record)
{
	if (claim_if_dead(record))
		release_reclaimed(guest_thread(), record);
}

void grant_owner_gone(uint32_t record, CUcontext context)
{
	uint32_t after = __atomic_load_n(&ledger_record(record)->epoch, __ATOMIC_RELAXED) + 1;

	if (ledger_claim_if_owned(record, (uint64_t)context, after))
		release_reclaimed(guest_thread(), record);
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
	grant.at = ledger_record(grant.record);
	fill_record(&grant, &request);
	stale = ledger_commit(grant.record, grant.at, CLASS_OBJECT, grant_object_key(kind, handle));
	if (stale != LEDGER_NO_RECORD && refs_gone(stale))
		account(thread, stale, 0);
	if (owner && unlikely(context_died_since(&grant)))
		grant_sweep_missed(grant.record);
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
