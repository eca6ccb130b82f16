/*
 * ops_memory.c - linear, pitched, managed and pinned memory.
 */
#include "model.h"

#define IS_MANAGED 1u

static void keep(CUresult result, enum table_kind kind, uint32_t random, uint64_t handle,
	uint64_t bytes)
{
	if (result == CUDA_SUCCESS)
		place_fill(kind, place_empty(kind, random), handle, bytes);
}

/* There is no room for one more: free one of those that are there. */
static bool full(enum table_kind kind, uint32_t random)
{
	return place_empty(kind, random) < 0;
}

static void free_memory(const struct step *s)
{
	int place;
	uint64_t pointer = pick(T_MEMORY, s->a, &place);
	CUresult result;

	switch (s->b % 8 + (!world->alone && (CUdeviceptr_v1)pointer != pointer)) {
	case 0:
		result = CALL(cuMemFree, (CUdeviceptr_v1)pointer);
		if ((CUdeviceptr_v1)pointer != pointer)
			place = -1; /* that was another address */
		break;
	case 1:
		result = CALL_TWIN(cuMemFreeAsync, s->c & 1, pointer, any_stream(s->c >> 1));
		break;
	default:
		result = CALL(cuMemFree_v2, pointer);
	}
	place_settle(T_MEMORY, place, result);
}

static void alloc(const struct step *s)
{
	size_t bytes = size_of_random(s->b);
	CUdeviceptr pointer = 0;
	CUdeviceptr_v1 low = 0;
	CUresult result;

	if (full(T_MEMORY, s->a)) {
		free_memory(s);
		return;
	}
	if (s->c % 8 == 0) {
		result = CALL(cuMemAlloc, &low, (unsigned)bytes);
		pointer = low;
	} else {
		result = CALL(cuMemAlloc_v2, s->c % 61 == 1 ? NULL : &pointer, bytes);
	}
	keep(result, T_MEMORY, s->a, pointer, bytes);
}

static void alloc_pitch(const struct step *s)
{
	size_t width = size_of_random(s->b) & 0xffffffffffffull, height = s->c % 200, pitch = 0;
	static const unsigned elements[] = { 4, 8, 16, 4, 8, 16, 0, 3 };
	unsigned element = elements[(s->c >> 9) % 8], low_pitch = 0;
	CUdeviceptr pointer = 0;
	CUdeviceptr_v1 low = 0;
	CUresult result;

	if (full(T_MEMORY, s->a)) {
		free_memory(s);
		return;
	}
	if (s->c % 7 == 0) {
		result = CALL(cuMemAllocPitch, &low, &low_pitch, (unsigned)width, (unsigned)height,
			element);
		pointer = low;
	} else {
		result = CALL(cuMemAllocPitch_v2, &pointer, &pitch, width, height, element);
	}
	keep(result, T_MEMORY, s->a, pointer, pitch * height);
}

static void alloc_managed(const struct step *s)
{
	size_t bytes = size_of_random(s->b);
	CUdeviceptr pointer = 0;

	CUresult result;

	if (full(T_MEMORY, s->a)) {
		free_memory(s);
		return;
	}
	result = CALL(cuMemAllocManaged, &pointer, bytes, s->c % 8 ? 1 + s->c % 2 : s->c % 4);
	keep(result, T_MEMORY, s->a, pointer, bytes);
	if (result == CUDA_SUCCESS)
		table_of(T_MEMORY)->extra[s->a % PLACES] = IS_MANAGED;
}

static void free_host(const struct step *s)
{
	int place;
	uint64_t pointer = pick(T_HOST, s->a, &place);
	CUresult result = CALL(cuMemFreeHost, (void *)pointer);

	if (seen_spoil && result == CUDA_SUCCESS)
		seen_spoilt++;
	place_settle(T_HOST, place, result);
}

static void alloc_host(const struct step *s)
{
	size_t bytes = size_of_random(s->b);
	void *pointer = NULL;
	CUresult result;

	if (full(T_HOST, s->a)) {
		free_host(s);
		return;
	}
	if (s->c % 3 == 0)
		result = CALL(cuMemAllocHost, &pointer, (unsigned)bytes);
	else if (s->c % 3 == 1)
		result = CALL(cuMemAllocHost_v2, &pointer, bytes);
	else
		result = CALL(cuMemHostAlloc, &pointer, bytes, (s->c >> 2) % 9);
	keep(result, T_HOST, s->a, (uint64_t)pointer, bytes);
}

static void unregister_host(const struct step *s)
{
	int place;
	uint64_t pointer = pick(T_REGISTERED, s->a, &place);

	place_settle(T_REGISTERED, place, CALL(cuMemHostUnregister, (void *)pointer));
}

/* Addresses that nobody reads: each thread has a range of its own. */
static void register_host(const struct step *s)
{
	uint64_t base = 0x700000000000ull + (uint64_t)world->thread * (1ull << 30);
	uint64_t pointer = base + (s->a % 40) * 4096;
	size_t bytes = (s->b % 5) * 4096;
	CUresult result;

	if (full(T_REGISTERED, s->a)) {
		unregister_host(s);
		return;
	}
	if (s->c % 2)
		result = CALL(cuMemHostRegister, (void *)pointer, bytes, s->c % 5);
	else
		result = CALL(cuMemHostRegister_v2, (void *)pointer, bytes, s->c % 5);
	keep(result, T_REGISTERED, s->a, pointer, bytes);
}

/* Mostly memory that may be advised on. */
static CUdeviceptr pick_managed(uint32_t random, int *place)
{
	for (unsigned i = 0; i < PLACES && random % 4; i++) {
		*place = (int)((random + i) % PLACES);
		if (table_of(T_MEMORY)->handle[*place] &&
			table_of(T_MEMORY)->extra[*place] == IS_MANAGED)
			return table_of(T_MEMORY)->handle[*place];
	}
	return pick(T_MEMORY, random, place);
}

static void advise(const struct step *s)
{
	int place;
	CUdeviceptr pointer = pick_managed(s->a, &place);
	size_t bytes = place >= 0 ? table_of(T_MEMORY)->bytes[place] : 1;
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(s->c % 2) };
	CUstream stream = any_stream(s->c >> 4);
	size_t first = 0;

	switch (s->b % 9) {
	case 0:
		CALL(cuMemAdvise, pointer, bytes, s->c % 7, (int)(s->c % 3));
		break;
	case 1:
		CALL(cuMemAdvise_v2, pointer, bytes, s->c % 7, here);
		break;
	case 2:
	case 3:
		CALL_TWIN(cuMemPrefetchAsync, s->b & 1, pointer, bytes, here.id, stream);
		break;
	case 4:
	case 5:
		CALL_TWIN(cuMemPrefetchAsync_v2, s->b & 1, pointer, bytes, here, 0, stream);
		break;
	case 6:
		CALL_TWIN(cuMemPrefetchBatchAsync, s->c & 8, &pointer, &bytes, 1, &here, &first, 1, 0,
			stream);
		break;
	case 7:
		CALL_TWIN(cuMemDiscardBatchAsync, s->c & 8, &pointer, &bytes, 1, 0, stream);
		break;
	case 8:
		CALL_TWIN(cuMemDiscardAndPrefetchBatchAsync, s->c & 8, &pointer, &bytes, 1, &here,
			&first, 1, 0, stream);
		break;
	}
}

static void info(const struct step *s)
{
	size_t room, total;
	unsigned low_room, low_total;
	CUdevprop properties;

	switch (s->a % 6) {
	case 0:
		CALL(cuMemGetInfo, &low_room, &low_total);
		break;
	case 1:
		CALL(cuDeviceTotalMem, &low_total, (int)(s->b % 3));
		break;
	case 2:
		CALL(cuDeviceTotalMem_v2, &total, (int)(s->b % 3));
		break;
	case 3:
		CALL(cuDeviceGetProperties, &properties, (int)(s->b % 3));
		break;
	default:
		CALL(cuMemGetInfo_v2, &room, &total);
	}
}

const struct operation operations_memory[] = {
	{ "alloc", FAM_device, 60, alloc, false },
	{ "free", FAM_device, 60, free_memory, false },
	{ "alloc_pitch", FAM_device, 20, alloc_pitch, false },
	{ "alloc_managed", FAM_managed, 15, alloc_managed, false },
	{ "alloc_host", FAM_pinned, 15, alloc_host, false },
	{ "free_host", FAM_pinned, 15, free_host, false },
	{ "register", FAM_pinned, 10, register_host, false },
	{ "unregister", FAM_pinned, 10, unregister_host, false },
	{ "advise", FAM_managed, 6, advise, false },
	{ "info", FAM_device, 4, info, false },
	{ 0 },
};
