/*
 * hook_info.c - what the GPU's memory looks like from inside a limit.
 *
 * Frameworks size themselves from these: total = min(limit, real), free = what the limit leaves,
 * never more than the driver has. free + what we hold <= total, always.
 */
#include "grant.h"
#include "bounds.h"
#include "overhead.h"
#include "peers.h"
#include "quota.h"
#include "traced.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int current_device(void)
{
	CUcontext context;

	return guest_current_device(guest_thread(), &context);
}

/* The dead hold nothing: where others seem to leave less, it is looked at who is alive. */
static uint64_t groups_leave(const struct guest_device *device, uint64_t wanted)
{
	uint64_t left;

	if (unlikely(guest.refused)) /* also for want of a slot: then there are no others to be seen */
		return 0;
	left = group_room(device->ledger->slot_device, &device->group);
	if (left >= wanted || !peers_drop_dead(guest.header->slot))
		return left;
	return group_room(device->ledger->slot_device, &device->group);
}

/* Of what the driver has free. */
static uint64_t room(const struct guest_device *device, uint64_t available)
{
	uint64_t used = quota_used(device->word);
	uint64_t own = device->limit == BYTES_NONE ? BYTES_NONE :
		used < device->limit ? device->limit - used : 0;

	available = least(available, own);
	return unlikely(device->grouped) ? least(available, groups_leave(device, available)) : available;
}

static uint64_t limit_of(const struct guest_device *device)
{
	return least(device->limit, group_least(&device->group));
}

#define MEM_GET_INFO(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
		int cw_index = cw_result == CUDA_SUCCESS ? current_device() : -1; \
		const struct guest_device *cw_device = &guest.devices[cw_index < 0 ? 0 : cw_index]; \
\
		if (cw_index >= 0) { \
			if (total && free) \
				overhead_learn(cw_index, *free, *total); \
			bounds_look(); \
			if (total) \
				*total = least(*total, limit_of(cw_device)); \
			if (free) \
				*free = room(cw_device, *free); \
		} \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

MEM_GET_INFO(cuMemGetInfo)
MEM_GET_INFO(cuMemGetInfo_v2)

#define DEVICE_TOTAL_MEM(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
		int cw_device = cw_result == CUDA_SUCCESS ? guest_device_index(dev) : -1; \
\
		if (cw_device >= 0) \
			*bytes = least(*bytes, limit_of(&guest.devices[cw_device])); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

DEVICE_TOTAL_MEM(cuDeviceTotalMem)
DEVICE_TOTAL_MEM(cuDeviceTotalMem_v2)
