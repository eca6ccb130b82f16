/*
 * hook_info.c - what the GPU's memory looks like from inside a limit.
 *
 * Frameworks size themselves from these: total = min(limit, real), free = what the limit leaves,
 * never more than the driver has. free + what we hold <= total, always.
 */
#include "grant.h"
#include "quota.h"
#include "traced.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* NULL where no limit applies to the current device. */
static const struct guest_device *limited_device(void)
{
	CUcontext context;
	int device = guest_current_device(guest_thread(), &context);

	return device >= 0 && guest.devices[device].limit != BYTES_NONE ? &guest.devices[device] : NULL;
}

static uint64_t room(const struct guest_device *device)
{
	uint64_t used = quota_used(device->word);

	return used < device->limit ? device->limit - used : 0;
}

#define MEM_GET_INFO(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
		const struct guest_device *cw_device = \
			cw_result == CUDA_SUCCESS ? limited_device() : NULL; \
\
		if (cw_device) { \
			if (total) \
				*total = least(*total, cw_device->limit); \
			if (free) \
				*free = least(*free, room(cw_device)); \
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
			*bytes = least(*bytes, guest.devices[cw_device].limit); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

DEVICE_TOTAL_MEM(cuDeviceTotalMem)
DEVICE_TOTAL_MEM(cuDeviceTotalMem_v2)
