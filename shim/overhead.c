/*
 * overhead.c - measuring what the driver takes for itself.
 */
#include "overhead.h"

#include "grant_hot.h"
#include "peers.h"
#include "pool.h"

#define SAMPLE_EVERY_NS 1000000000ull
/* A sample makes system calls: this many allocations share one, or ten seconds. */
#define SAMPLE_ALLOCATIONS 256u
/* Others may have changed what they hold: what differs by more is looked at afresh. */
#define SURPRISE (4ll << 20)
#define FIRST_CONTEXT_MAX (1ll << 30)
/* The driver takes memory in blocks. */
#define BLOCK (2ull << 20)
#define UNTRACKED_WORTH_TELLING (32ll << 20)

/* Charged, but in host memory as often as not: no part of what the driver says is in use. */
static int64_t managed_bytes(void)
{
	uint32_t threads = __atomic_load_n(&guest.header->thread_count, __ATOMIC_ACQUIRE);
	int64_t bytes = 0;

	if (guest.policy.managed_ignored)
		return 0;
	for (uint32_t i = 0; i < threads; i++)
		bytes += __atomic_load_n(&ledger_threads()[i].bytes[KIND_MANAGED], __ATOMIC_RELAXED);
	return bytes;
}

/* Samples of several threads may meet: each value is whole, the last one counts. */
#define get(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define set(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

static int64_t tracked(int device)
{
	const struct guest_device *on = &guest.devices[device];
	int64_t bytes = quota_used(on->word) - managed_bytes();
	int64_t overhead = get(on->ledger->overhead_bytes);

	if (guest.policy.overhead == OVERHEAD_SHOW && overhead > 0)
		bytes += overhead;
	return bytes + get(on->peer_bytes);
}

static void ask_peers(struct guest_device *on)
{
	if (guest.slot)
		set(on->peer_bytes, peers_hold(on->ledger->slot_device, guest.header->slot));
}

/* Less than nothing is possible: requests in flight are tracked and not given out yet. */
static int64_t learn(int device, uint64_t used_bytes)
{
	struct guest_device *on = &guest.devices[device];
	int64_t unattributed;

	ask_peers(on);
	unattributed = used_bytes - tracked(device);

	__atomic_store_n(&on->unattributed, unattributed, __ATOMIC_RELAXED);
	__atomic_store_n(&on->ledger->untracked_bytes, unattributed > 0 ? unattributed : 0,
		__ATOMIC_RELAXED);
	set(on->next_sample_ns, guest_realtime_ns() + SAMPLE_EVERY_NS);
	set(on->due, 0);
	return unattributed;
}

static bool worth_telling(int device, int64_t bytes)
{
	return bytes >= UNTRACKED_WORTH_TELLING && bytes > tracked(device) / 8;
}

/* Small allocations share blocks, so some difference is usual; and pools keep what was freed. */
static void tell(int device, int64_t unattributed)
{
	int64_t kept;

	if (!worth_telling(device, unattributed) || __atomic_load_n(&guest.captures, __ATOMIC_RELAXED))
		return;
	kept = pool_surplus();
	if (kept >= UNTRACKED_WORTH_TELLING)
		guest_find_once(FINDING_POOL_RESERVED);
	if (worth_telling(device, unattributed - kept))
		guest_find_once(FINDING_UNTRACKED);
}

static bool ask(int device, int64_t *unattributed)
{
	size_t free_bytes, total_bytes;

	if (device < 0 || __atomic_load_n(&guest.captures, __ATOMIC_RELAXED) ||
	    real.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS ||
	    free_bytes > total_bytes)
		return false;
	*unattributed = learn(device, total_bytes - free_bytes);
	return true;
}

static int current_device(void)
{
	CUcontext context;

	return guest.attached ? guest_current_device(guest_thread(), &context) : -1;
}

static void add(int device, int64_t bytes)
{
	struct guest_device *on = &guest.devices[device];
	int64_t old = __atomic_load_n(&on->ledger->overhead_bytes, __ATOMIC_RELAXED);
	int64_t sum;

	do {
		sum = (old < 0 ? 0 : old) + bytes;
		if (sum < 0)
			sum = 0;
	} while (!__atomic_compare_exchange_n(&on->ledger->overhead_bytes, &old, sum, true,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED));
	raise_to(&on->ledger->overhead_peak_bytes, sum);
	if (guest.policy.overhead != OVERHEAD_SHOW)
		grant_charge(device, sum - (old < 0 ? 0 : old), 0);
	else if (guest.slot)
		__atomic_store_n(&guest.slot->overhead[on->ledger->slot_device], sum, __ATOMIC_RELAXED);
	/* What goes, the driver has less of as well. */
	if (bytes > 0) {
		int64_t left = get(on->unattributed);

		if (left != INT64_MIN) {
			left -= bytes;
			set(on->unattributed, left);
			set(on->ledger->untracked_bytes, left > 0 ? left : 0);
		}
		guest_find_once(FINDING_CONTEXT_OVERHEAD);
	}
}

/* What an object has more of, or less. */
struct attribution {
	int device;
	int64_t bytes;
	bool first; /* only if nothing was measured for it yet */
};

/* While the record is held: who ends the object gives back what is in it, all that was added. */
static void attribute_held(struct ledger_record *record, void *how)
{
	struct attribution *its = how;

	if (record->device != its->device || (its->first && record->bytes))
		its->bytes = 0;
	if (its->bytes < -(int64_t)record->bytes)
		its->bytes = -(int64_t)record->bytes;
	if (its->bytes == 0)
		return;
	set_field(&record->bytes, record->bytes + its->bytes);
	add(its->device, its->bytes);
}

/*
 * Asking the driver took its time: another thread may have ended the object, and its record may stand
 * for anything. False: there is no such object.
 */
static bool attribute(struct attribution *its, enum cuward_object kind, uint64_t handle)
{
	return guest.header &&
		index_change(CLASS_OBJECT, grant_object_key(kind, handle), attribute_held, its);
}

/* Where it is gone meanwhile, so is what the driver took for it. */
static void attribute_new(int device, int64_t bytes, enum cuward_object kind, uint64_t handle)
{
	struct attribution its = { .device = device, .bytes = bytes, .first = true };
	struct guest_device *on = &guest.devices[device];

	if (bytes > 0 && !attribute(&its, kind, handle))
		set(on->unattributed, get(on->unattributed) - bytes);
}

void overhead_open(struct overhead *overhead)
{
	overhead->device = guest.policy.overhead == OVERHEAD_FIXED ? -1 : current_device();
	if (!ask(overhead->device, &overhead->before))
		overhead->device = -1;
}

void overhead_close(const struct overhead *overhead, enum cuward_object kind, uint64_t handle)
{
	int64_t after;

	if (overhead->device < 0 || current_device() != overhead->device ||
	    !ask(overhead->device, &after))
		return;
	attribute_new(overhead->device, after - overhead->before, kind, handle);
}

/* Somebody else may have freed at that moment: no more is given back than was asked for. */
static void give_back(int device, uint64_t bytes, CUcontext context, uint64_t most)
{
	struct guest_device *on = &guest.devices[device];
	struct attribution its = { .device = device };

	most = (most + BLOCK - 1) & ~(BLOCK - 1);
	its.bytes = -(int64_t)(bytes < most ? bytes : most);
	if (!attribute(&its, OBJECT_CONTEXT, (uint64_t)context))
		return;
	/* The driver was asked when this was gone already. */
	set(on->unattributed, get(on->unattributed) - its.bytes);
	set(on->ledger->untracked_bytes, get(on->unattributed) > 0 ? get(on->unattributed) : 0);
}

void overhead_close_context(const struct overhead *overhead, uint64_t shrinks)
{
	struct attribution its = { .device = overhead->device };
	CUcontext context;
	int64_t after;

	if (overhead->device < 0 || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
	    !ask(overhead->device, &after))
		return;
	its.bytes = after - overhead->before;
	if (its.bytes < 0)
		give_back(overhead->device, overhead->before - after, context, shrinks);
	else
		attribute(&its, OBJECT_CONTEXT, (uint64_t)context);
}

/* Fixed: known without asking, and before the context is ever used. */
void overhead_new_context(int device, CUcontext context)
{
	struct attribution its = { .device = device, .bytes = guest.policy.overhead_bytes, .first = true };

	if (device < 0)
		return;
	if (guest.policy.overhead == OVERHEAD_FIXED) {
		attribute(&its, OBJECT_CONTEXT, (uint64_t)context);
		return;
	}
	__atomic_store_n(&guest.devices[device].new_context, context, __ATOMIC_RELAXED);
	__atomic_store_n(&guest.new_contexts, true, __ATOMIC_RELAXED);
	overhead_now_current();
}

void overhead_now_current(void)
{
	struct ledger_record record;
	CUcontext context;
	int device;
	int64_t before;
	int64_t after;

	if (likely(!overhead_is_owed()) || (device = current_device()) < 0)
		return;
	context = __atomic_exchange_n(&guest.devices[device].new_context, NULL, __ATOMIC_RELAXED);
	before = get(guest.devices[device].unattributed);
	/* One that is gone again has taken nothing of what there is. */
	if (!context || !grant_object_find(OBJECT_CONTEXT, (uint64_t)context, &record) ||
	    !ask(device, &after))
		return;
	after -= before == INT64_MIN ? 0 : before;
	if (before == INT64_MIN && after > FIRST_CONTEXT_MAX) {
		/* Others hold most of it, whom we do not see: what the context took cannot be told from that. */
		if (guest.policy.overhead == OVERHEAD_SHOW) {
			tell(device, after);
			return;
		}
		after = FIRST_CONTEXT_MAX;
	}
	attribute_new(device, after, OBJECT_CONTEXT, (uint64_t)context);
}

void overhead_sample(int device)
{
	struct guest_device *on = &guest.devices[device];
	uint64_t next = get(on->next_sample_ns);
	uint64_t now = guest_realtime_ns();
	int64_t unattributed;

	if (next && __atomic_add_fetch(&on->due, 1, __ATOMIC_RELAXED) < SAMPLE_ALLOCATIONS &&
	    now < next + 9 * SAMPLE_EVERY_NS)
		return;
	set(on->next_sample_ns, now + SAMPLE_EVERY_NS);
	if (current_device() == device && ask(device, &unattributed))
		tell(device, unattributed);
}

void overhead_learn(int device, uint64_t free_bytes, uint64_t total_bytes)
{
	struct guest_device *on = &guest.devices[device];
	int64_t change;

	if (device < 0 || free_bytes > total_bytes)
		return;
	change = get(on->unattributed) == INT64_MIN ? INT64_MAX :
		(int64_t)(total_bytes - free_bytes) - tracked(device) - get(on->unattributed);
	if (change > SURPRISE || change < -SURPRISE)
		tell(device, learn(device, total_bytes - free_bytes));
}

void overhead_gone(const struct ledger_record *object)
{
	bool has_overhead = object->kind == OBJECT_CONTEXT || object->kind == OBJECT_MODULE ||
		object->kind == OBJECT_LIBRARY;

	if (has_overhead && object->device < guest.device_count)
		add(object->device, -(int64_t)object->bytes);
}
