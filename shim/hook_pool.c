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

/* A pool nobody created is some device's default one; -1 for none. */
static int default_pool_device(CUmemoryPool pool)
{
	for (uint32_t i = 0; i < guest.device_count; i++) {
		CUmemoryPool its = NULL;

		if (real.cuDeviceGetDefaultMemPool(&its, guest.devices[i].handle) == CUDA_SUCCESS &&
		    its == pool)
			return i;
	}
	return -1;
}

/* `mappings` of a pool's record is the kind of its memory: host pools are on no GPU. */
void pool_describe(CUmemoryPool pool, struct grant_request *request)
{
	struct ledger_record record;

	if (!grant_object_find(OBJECT_MEM_POOL, (uint64_t)pool, &record)) {
		request->device = default_pool_device(pool);
		return;
	}
	request->kind = record.mappings;
	request->device = record.device == UINT8_MAX ? -1 : record.device;
	if (request->kind == KIND_PINNED ||
	    (request->kind == KIND_MANAGED && guest.policy.managed_ignored))
		request->charged = false;
}

static enum cuward_kind kind_of(const CUmemPoolProps *props)
{
	if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return KIND_MANAGED;
	return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? KIND_POOL : KIND_PINNED;
}

/* ---- what it keeps ---- */

static uint64_t reserved_bytes(CUmemoryPool pool)
{
	cuuint64_t bytes = 0;

	if (real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) != CUDA_SUCCESS)
		return 0;
	return bytes;
}

/* Of those that somebody created. No lock of ours is held while the driver is asked. */
static uint64_t created_pools(int device)
{
	uint64_t pools[POOLS_MAX];
	uint64_t sum = 0;
	unsigned count = 0;

	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < POOLS_MAX; i++) {
		if (guest.pools[i].pool && guest.pools[i].device == device)
			pools[count++] = guest.pools[i].pool;
	}
	lock_give_back(&guest.pools_lock);
	for (unsigned i = 0; i < count; i++)
		sum += reserved_bytes((CUmemoryPool)pools[i]);
	return sum;
}

static uint64_t all_pools(int device)
{
	uint64_t reserved = created_pools(device);
	CUmemoryPool pool;

	if (real.cuDeviceGetDefaultMemPool(&pool, guest.devices[device].handle) == CUDA_SUCCESS)
		reserved += reserved_bytes(pool);
	return reserved;
}

uint64_t pool_surplus(void)
{
	uint64_t reserved = 0;
	int64_t live = 0;

	for (uint32_t i = 0; i < guest.device_count; i++)
		reserved += all_pools(i);
	for (uint32_t i = 0; i < guest.header->thread_count; i++)
		live += __atomic_load_n(&ledger_threads()[i].bytes[KIND_POOL], __ATOMIC_RELAXED);
	return live > 0 && reserved > (uint64_t)live ? reserved - live : live > 0 ? 0 : reserved;
}

void pool_look(int device)
{
	struct guest_device *on;
	uint64_t reserved;
	uint64_t live;
	int64_t surplus;

	if (likely(!guest.policy.pools_reserved) || device < 0 ||
	    __atomic_load_n(&guest.captures, __ATOMIC_RELAXED))
		return;
	on = &guest.devices[device];
	reserved = all_pools(device);
	live = __atomic_load_n(&on->pool_bytes, __ATOMIC_RELAXED);
	surplus = reserved > live ? reserved - live : 0;
	grant_charge(device, surplus - __atomic_exchange_n(&on->pool_surplus, surplus, __ATOMIC_RELAXED));
	if (surplus)
		guest_find_once(FINDING_POOL_RESERVED);
}

void pool_look_everywhere(void)
{
	for (uint32_t i = 0; guest.policy.pools_reserved && i < guest.device_count; i++)
		pool_look(i);
}

static void remember(CUmemoryPool pool, int device)
{
	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < POOLS_MAX; i++) {
		if (!guest.pools[i].pool) {
			guest.pools[i].pool = (uint64_t)pool;
			guest.pools[i].device = device;
			break;
		}
	}
	lock_give_back(&guest.pools_lock);
}

static void forget(CUmemoryPool pool)
{
	lock_take(&guest.pools_lock);
	for (uint32_t i = 0; i < POOLS_MAX; i++) {
		if (guest.pools[i].pool == (uint64_t)pool)
			guest.pools[i].pool = 0;
	}
	lock_give_back(&guest.pools_lock);
}

/* ---- their life ---- */

CUresult on_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemPoolCreate(pool, poolProps);

	if (result == CUDA_SUCCESS) {
		int device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
			guest_device_index(poolProps->location.id) : -1;
		uint32_t record = grant_object_created(OBJECT_MEM_POOL, (uint64_t)*pool, device, NULL);

		if (record != LEDGER_NO_RECORD)
			ledger_record(record)->mappings = kind_of(poolProps);
		if (device >= 0)
			remember(*pool, device);
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
