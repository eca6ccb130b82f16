/*
 * ops_pool.c - stream-ordered memory and the pools it comes from.
 */
#include "parts.h"

static void alloc_async(const struct step *s)
{
	size_t bytes = size_of_random(s->b);
	int place = place_empty(T_MEMORY, s->a), its;
	CUdeviceptr pointer = 0;
	CUmemoryPool pool;
	CUresult result;

	if (place < 0)
		return;
	pool = (CUmemoryPool)pick(T_POOL, s->c >> 8, &its);
	if (s->c & 2)
		result = CALL_TWIN(cuMemAllocAsync, s->c & 1, &pointer, bytes, any_stream(s->c >> 4));
	else
		result = CALL_TWIN(cuMemAllocFromPoolAsync, s->c & 1, &pointer, bytes, pool,
			any_stream(s->c >> 4));
	if (result == CUDA_SUCCESS)
		place_fill_free(T_MEMORY, place, pointer, bytes);
}

static void free_async(const struct step *s)
{
	int place;
	uint64_t pointer = pick(T_MEMORY, s->a, &place);

	CUresult result = CALL_TWIN(cuMemFreeAsync, s->c & 1, pointer, any_stream(s->c >> 4));

	place_settle(T_MEMORY, place, result);
}

static void pool_destroy(const struct step *s)
{
	int place;
	CUmemoryPool pool = (CUmemoryPool)pick(T_POOL, s->a, &place);

	if (place >= 0 && table_of(T_POOL)->extra[place]) {
		table_of(T_POOL)->handle[place] = 0; /* a default one */
		return;
	}
	place_settle(T_POOL, place, CALL(cuMemPoolDestroy, pool));
}

static void pool_create(const struct step *s)
{
	static const CUmemLocationType types[] = { CU_MEM_LOCATION_TYPE_DEVICE,
		CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST,
		CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_INVALID };
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = types[s->b % 6], .id = (int)(s->c % 3) } };
	int place = place_empty(T_POOL, s->a);
	CUmemoryPool pool = NULL;
	CUresult result;

	if (place < 0) {
		pool_destroy(s);
		return;
	}
	if (props.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		props.location.id = 0;
	if (family_enabled(FAM_managed_pool) && s->b % 7 == 1)
		props = (CUmemPoolProps){ .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(s->c % 3) } };
	if (s->b % 29 == 1)
		props.maxSize = BLOCK;
	if (s->c % 11 == 4)
		result = CALL(cuDeviceGetDefaultMemPool, &pool, (int)(s->b % 3));
	else
		result = CALL(cuMemPoolCreate, &pool, &props);
	if (result == CUDA_SUCCESS) {
		place_fill(T_POOL, place, (uint64_t)pool, 0);
		table_of(T_POOL)->extra[place] = s->c % 11 == 4;
	}
}

static void pool_tune(const struct step *s)
{
	int place;
	CUmemoryPool pool = (CUmemoryPool)pick(T_POOL, s->a, &place);
	cuuint64_t value = s->b % 3 ? (cuuint64_t)-(s->b & 1) : s->b;
	CUmemPool_attribute attribute = s->c % 10;

	switch (s->b % 5) {
	case 0:
		CALL(cuMemPoolTrimTo, pool, s->c % 3 ? 0 : s->c % (16 * MiB));
		break;
	case 1:
		CALL(cuMemPoolGetAttribute, pool, attribute, &value);
		break;
	case 2:
		/* Its owner may destroy it while others allocate: of no use but to crash. */
		if (world->alone)
			CALL(cuDeviceSetMemPool, (int)(s->c % 2), pool);
		break;
	default:
		CALL(cuMemPoolSetAttribute, pool, s->c % 2 ? CU_MEMPOOL_ATTR_RELEASE_THRESHOLD :
			attribute, &value);
	}
}

const struct operation operations_pool[] = {
	{ "alloc_async", FAM_pool, 60, alloc_async, false },
	{ "free_async", FAM_pool, 50, free_async, false },
	{ "pool_create", FAM_pool, 6, pool_create, false },
	{ "pool_destroy", FAM_pool, 5, pool_destroy, false },
	{ "pool_tune", FAM_pool, 10, pool_tune, false },
	{ 0 },
};
