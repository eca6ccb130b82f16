/*
 * ops_vmm.c - physical memory by handle, the addresses it is mapped at, multicast.
 */
#include "model.h"

#include <unistd.h>

#define RANGE_BLOCKS 16

static void release(const struct step *s)
{
	int place;
	uint64_t handle = pick(T_PHYSICAL, s->a, &place);

	place_settle(T_PHYSICAL, place, CALL(cuMemRelease, handle));
}

static void create(const struct step *s)
{
	static const CUmemLocationType types[] = { CU_MEM_LOCATION_TYPE_DEVICE,
		CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE,
		CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_INVALID };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = types[s->c % 7], .id = (int)((s->c >> 4) % 2) } };
	CUmulticastObjectProp multicast = { .numDevices = 2, .size = BLOCK };
	CUmemGenericAllocationHandle handle = 0;
	int place = place_empty(T_PHYSICAL, s->a);
	size_t bytes = s->b % 13 == 0 ? s->b : s->b % 29 == 0 ? 1ull << 46 : (s->b % 8) * BLOCK;
	CUresult result;

	if (place < 0) {
		release(s);
		return;
	}
	if (prop.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		prop.location.id = 0;
	if (s->c % 37 == 0)
		prop.location.id = 99;
	if (s->c % 41 == 0)
		result = CALL(cuMulticastCreate, &handle, &multicast);
	else
		result = CALL(cuMemCreate, &handle, bytes, &prop, s->c % 43 == 0);
	if (result == CUDA_SUCCESS)
		place_fill(T_PHYSICAL, place, handle, bytes);
}

static void reserve(const struct step *s)
{
	int place = place_empty(T_RANGE, s->a);
	CUdeviceptr address = 0;

	if (place >= 0 && place < 6) {
		if (CALL(cuMemAddressReserve, &address, RANGE_BLOCKS * BLOCK, 0, 0, s->b % 17 == 0) ==
			CUDA_SUCCESS)
			place_fill(T_RANGE, place, address, RANGE_BLOCKS * BLOCK);
		return;
	}
	address = pick(T_RANGE, s->a, &place);
	place_settle(T_RANGE, place,
		CALL(cuMemAddressFree, address, (s->b % 5 ? RANGE_BLOCKS : 1) * BLOCK));
}

/*
 * What lies behind a wrong address may be what another thread maps this very moment: then nobody could
 * tell whose it is.
 */
static uint64_t block_of(uint64_t base, int range, uint32_t block)
{
	return base + (range >= 0 || world->alone ? block % RANGE_BLOCKS * BLOCK : 0);
}

/* One or several blocks of a range, mostly whole mappings since most handles are small. */
static void map(const struct step *s)
{
	int range, place;
	uint64_t base = pick(T_RANGE, s->a, &range);
	uint64_t handle = pick(T_PHYSICAL, s->b, &place);
	size_t bytes = place >= 0 ? table_of(T_PHYSICAL)->bytes[place] : BLOCK;

	if (s->c % 19 == 0)
		bytes += s->c;
	CALL(cuMemMap, block_of(base, range, s->c >> 8), bytes, s->c % 23 == 0 ? BLOCK : 0,
		handle, 0);
}

static void unmap(const struct step *s)
{
	int range;
	uint64_t base = pick(T_RANGE, s->a, &range);
	uint64_t first = s->b % RANGE_BLOCKS, blocks = 1 + s->c % 8;

	if (s->c % 5 == 0) {
		first = 0;
		blocks = RANGE_BLOCKS;
	}
	CALL(cuMemUnmap, block_of(base, range, first), blocks * BLOCK);
}

static void retain(const struct step *s)
{
	int range, place = place_empty(T_PHYSICAL, s->b);
	uint64_t base = pick(T_RANGE, s->a, &range);
	CUmemGenericAllocationHandle handle = 0;

	if (place < 0)
		return;
	if (CALL(cuMemRetainAllocationHandle, &handle,
		(void *)block_of(base, range, s->c)) == CUDA_SUCCESS)
		place_fill(T_PHYSICAL, place, handle, BLOCK);
}

/* Export and import in one process: the same memory with one handle more. */
static void share(const struct step *s)
{
	int fd = -1, place, empty = place_empty(T_PHYSICAL, s->b);
	uint64_t handle = pick(T_PHYSICAL, s->a, &place);
	CUmemGenericAllocationHandle imported = 0;

	if (empty < 0 || CALL(cuMemExportToShareableHandle, &fd, handle,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS)
		return;
	if (cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS)
		place_fill(T_PHYSICAL, empty, imported, BLOCK);
	close(fd);
}

const struct operation operations_vmm[] = {
	{ "vmm_create", FAM_vmm, 14, create, false },
	{ "vmm_release", FAM_vmm, 10, release, false },
	{ "vmm_reserve", FAM_vmm, 2, reserve, false },
	{ "vmm_map", FAM_vmm, 8, map, false },
	{ "vmm_unmap", FAM_vmm, 8, unmap, false },
	{ "vmm_retain", FAM_vmm, 3, retain, false },
	{ "vmm_share", FAM_vmm, 1, share, false },
	{ 0 },
};
