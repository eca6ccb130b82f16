/*
 * hook_pool.c - memory pools. Their memory is accounted for in hook_async.c.
 *
 * A pool holds on to freed memory for the next allocation. By default only what is live counts;
 * CUWARD_POOLS=reserved charges all a pool keeps.
 */
#include "pool.h"
#include "quota.h"
#include "traced.h"

/* ---- what a pool is ---- */

/* Pools are few; nearly always the one asked for is the first. */
static bool pool_find(CUmemoryPool pool, struct guest_pool *found)
{
	bool known = false;

	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < guest.pool_count && !known; i++) {
		known = guest.pools[i].pool == (uint64_t)pool;
		*found = guest.pools[i];
	}
	lock_give_back(&guest.pools_lock);
	return known;
}

/* A new one takes the place of an old one with the same handle. */
static void remember(CUmemoryPool pool, int device, enum cuward_kind kind, bool new)
{
	uint32_t i = 0;

	lock_take(&guest.pools_lock);
	while (i < guest.pool_count && guest.pools[i].pool != (uint64_t)pool)
		i++;
	if (pool && i < POOLS_MAX && (new || i == guest.pool_count)) {
		guest.pools[i] = (struct guest_pool){ (uint64_t)pool, device, kind };
		guest.pool_count += i == guest.pool_count;
	}
	lock_give_back(&guest.pools_lock);
}

/*
 * It was destroyed. Its handle may stand for a new one already: that has a record first, and is
 * remembered then.
 */
static void forget(CUmemoryPool pool)
{
	struct ledger_record heir;

	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < guest.pool_count; i++) {
		if (guest.pools[i].pool == (uint64_t)pool &&
		    !grant_object_find(OBJECT_MEM_POOL, (uint64_t)pool, &heir)) {
			guest.pools[i] = guest.pools[--guest.pool_count];
			break;
		}
	}
	lock_give_back(&guest.pools_lock);
}

/* The pools that devices have from the start. */
static void remember_default(uint32_t device)
{
	CUmemoryPool pool;

	if (real.cuDeviceGetDefaultMemPool(&pool, guest.devices[device].handle) == CUDA_SUCCESS)
		remember(pool, device, KIND_POOL, false);
}

/* One more than the table has room for: its record tells whose it is. */
static bool find_record(CUmemoryPool pool, struct guest_pool *found)
{
	struct ledger_record record;

	if (!grant_object_find(OBJECT_MEM_POOL, (uint64_t)pool, &record) ||
	    record.api != CALL_cuMemPoolCreate)
		return false;
	*found = (struct guest_pool){ .device = -1, .kind = KIND_PINNED };
	if (record.device != UINT8_MAX)
		*found = (struct guest_pool){ .device = record.device, .kind = KIND_POOL };
	return true;
}

void pool_describe(CUmemoryPool pool, struct grant_request *request)
{
	struct guest_pool known;

	for (uint32_t i = 0; !pool_find(pool, &known) && !find_record(pool, &known); i++) {
		if (i == guest.device_count)
			return;
		remember_default(i);
	}
	request->kind = known.kind;
	request->device = known.device;
	if (request->kind == KIND_PINNED ||
	    (request->kind == KIND_MANAGED && guest.policy.managed_ignored))
		request->charged = false;
}

static enum cuward_kind kind_of(CUmemAllocationType type, const CUmemLocation *location)
{
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return KIND_MANAGED;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? KIND_POOL : KIND_PINNED;
}

static int device_of(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? guest_device_index(location->id) : -1;
}

/* ---- what it keeps ---- */

static uint64_t bytes_of(CUmemoryPool pool, CUmemPool_attribute what)
{
	cuuint64_t bytes = 0;

	return real.cuMemPoolGetAttribute(pool, what, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

static uint64_t reserved_bytes(CUmemoryPool pool)
{
	return bytes_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

/* No lock of ours is held while the driver is asked. */
static uint64_t all_pools(int device)
{
	uint64_t pools[POOLS_MAX];
	uint64_t sum = 0;
	unsigned count = 0;

	remember_default(device);
	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < guest.pool_count; i++) {
		if (guest.pools[i].device == device && guest.pools[i].kind == KIND_POOL)
			pools[count++] = guest.pools[i].pool;
	}
	lock_give_back(&guest.pools_lock);
	for (unsigned i = 0; i < count; i++)
		sum += reserved_bytes((CUmemoryPool)pools[i]);
	return sum;
}

uint64_t pool_surplus(void)
{
	uint32_t threads = __atomic_load_n(&guest.header->thread_count, __ATOMIC_ACQUIRE);
	uint64_t reserved = 0;
	int64_t live = 0;

	for (uint32_t i = 0; i < guest.device_count; i++)
		reserved += all_pools(i);
	for (uint32_t i = 0; i < threads; i++)
		live += __atomic_load_n(&ledger_threads()[i].bytes[KIND_POOL], __ATOMIC_RELAXED);
	return live > 0 && reserved > (uint64_t)live ? reserved - live : live > 0 ? 0 : reserved;
}

static bool may_ask(void)
{
	return __atomic_load_n(&guest.captures, __ATOMIC_RELAXED) == 0;
}

void pool_settle(int device, uint64_t freed)
{
	struct guest_device *on = &guest.devices[device];
	int64_t surplus = __atomic_load_n(&on->pool_surplus, __ATOMIC_RELAXED);

	if (may_ask()) {
		uint64_t reserved = all_pools(device);
		uint64_t live = __atomic_load_n(&on->pool_bytes, __ATOMIC_RELAXED);

		surplus = reserved > live ? reserved - live : 0;
	}
	grant_charge(device,
		surplus - __atomic_exchange_n(&on->pool_surplus, surplus, __ATOMIC_RELAXED), freed);
	if (surplus)
		guest_find_once(FINDING_POOL_RESERVED);
}

void pool_look(int device)
{
	if (unlikely(guest.policy.pools_reserved) && device >= 0 && may_ask())
		pool_settle(device, 0);
}

/* What was freed on a stream that is not there yet is still in use: the driver knows. */
static uint64_t free_in(CUmemoryPool pool)
{
	uint64_t reserved = reserved_bytes(pool);
	uint64_t used = bytes_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	return reserved > used ? reserved - used : 0;
}

uint64_t pool_reuse(int device, CUmemoryPool pool, uint64_t bytes)
{
	struct guest_device *on = &guest.devices[device];
	int64_t surplus = __atomic_load_n(&on->pool_surplus, __ATOMIC_RELAXED);
	int64_t most;

	if (surplus <= 0 || !may_ask() ||
	    (!pool && real.cuDeviceGetMemPool(&pool, on->handle) != CUDA_SUCCESS))
		return 0;
	most = free_in(pool);
	if (most > (int64_t)bytes && bytes <= INT64_MAX)
		most = bytes;
	do {
		if (surplus < most)
			most = surplus;
	} while (most > 0 && !__atomic_compare_exchange_n(&on->pool_surplus, &surplus, surplus - most, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED));
	if (most <= 0)
		return 0;
	__atomic_fetch_sub(&on->ledger->charged_bytes, most, __ATOMIC_RELAXED);
	return most;
}

void pool_look_everywhere(void)
{
	for (uint32_t i = 0; guest.policy.pools_reserved && i < guest.device_count; i++)
		pool_look(i);
}

/* ---- their life ---- */

CUresult on_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemPoolCreate(pool, poolProps);

	if (result == CUDA_SUCCESS) {
		int device = device_of(&poolProps->location);

		grant_object_created(OBJECT_MEM_POOL, (uint64_t)*pool, device, NULL);
		remember(*pool, device, kind_of(poolProps->allocType, &poolProps->location), true);
	}
	return traced_end(CALL_cuMemPoolCreate, result, began_ns);
}

CUresult on_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct release release;
	CUresult result;

	grant_object_open(&release, OBJECT_MEM_POOL, (uint64_t)pool);
	result = release_close(&release, real.cuMemPoolDestroy(pool));
	if (result == CUDA_SUCCESS) {
		forget(pool);
		pool_look_everywhere();
	}
	return result;
}

#define POOL_CHANGE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (unlikely(guest.policy.pools_reserved)) \
			pool_look_everywhere(); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

POOL_CHANGE(cuMemPoolTrimTo)
POOL_CHANGE(cuMemPoolSetAttribute)

/* Pools that are there from the start, by location: not every one is of a GPU. */
#define POOL_BY_LOCATION(name, pool) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS && location) \
			remember(*pool, device_of(location), kind_of(type, location), false); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

POOL_BY_LOCATION(cuMemGetDefaultMemPool, pool_out)
POOL_BY_LOCATION(cuMemGetMemPool, pool)
