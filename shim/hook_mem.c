/*
 * hook_mem.c - linear, pitched, managed and pinned memory, and its frees.
 */
#include "grant.h"

CUresult on_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct grant grant;
	CUresult result = grant_open(&grant, KIND_DEVICE, bytesize);

	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemAlloc_v2(dptr, bytesize);
	return grant_close(&grant, result, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult on_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct grant grant;
	CUresult result = grant_open(&grant, KIND_DEVICE, bytesize);

	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemAlloc(dptr, bytesize);
	return grant_close(&grant, result, result == CUDA_SUCCESS ? *dptr : 0);
}

/* Bytes asked for; the driver pads rows, and only its answer tells how far. */
static uint64_t pitched_bytes(uint64_t pitch, uint64_t height)
{
	uint64_t bytes;

	return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

/*
 * How far the driver pads rows, as learnt from its answers: a power of two, 0 before the first. With
 * it the size is known before the call, so that not even for a moment more is had than allowed.
 */
static uint32_t pitch_unit;

#define PITCH_UNIT_MOST 65536u

static uint64_t pitch_expected(uint64_t width)
{
	uint64_t unit = __atomic_load_n(&pitch_unit, __ATOMIC_RELAXED);

	return unit && width <= UINT64_MAX - unit ? (width + unit - 1) & ~(unit - 1) : width;
}

/* A width that needs no padding says nothing. */
static void pitch_learn(uint64_t width, uint64_t pitch)
{
	uint32_t unit = 1;

	if (pitch == pitch_expected(width) || pitch == width)
		return;
	while (unit < PITCH_UNIT_MOST && ((width + unit - 1) & ~(uint64_t)(unit - 1)) < pitch)
		unit *= 2;
	__atomic_store_n(&pitch_unit, unit, __ATOMIC_RELAXED);
}

/* What was not foreseen is known afterwards; what breaks the limit then is freed again. */
#define PITCHED_ALLOC(name, free_by) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		__typeof__(*dptr) cw_pointer = 0; \
		__typeof__(*pPitch) cw_pitch = 0; \
		CUresult cw_result = grant_open(&cw_grant, KIND_DEVICE, \
			pitched_bytes(pitch_expected(WidthInBytes), Height)); \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name(dptr ? &cw_pointer : NULL, pPitch ? &cw_pitch : NULL, \
			WidthInBytes, Height, ElementSizeBytes); \
		if (cw_result == CUDA_SUCCESS) \
			pitch_learn(WidthInBytes, cw_pitch); \
		if (cw_result == CUDA_SUCCESS && \
			!grant_resize(&cw_grant, pitched_bytes(cw_pitch, Height))) { \
			real.free_by(cw_pointer); \
			cw_result = CUDA_ERROR_OUT_OF_MEMORY; \
		} \
		if (cw_result == CUDA_SUCCESS) { \
			*dptr = cw_pointer; \
			*pPitch = cw_pitch; \
		} \
		return grant_close(&cw_grant, cw_result, cw_pointer); \
	}

PITCHED_ALLOC(cuMemAllocPitch, cuMemFree)
PITCHED_ALLOC(cuMemAllocPitch_v2, cuMemFree_v2)

/* Memory of a kind that may not count against the limit; owned by the current context. */
static CUresult open_uncharged(struct grant *grant, enum cuward_kind kind, uint64_t bytes)
{
	struct grant_request request = {
		.kind = kind, .class = CLASS_MEMORY, .bytes = bytes, .device = -1,
	};

	guest_current_device(guest_thread(), &request.context);
	return grant_open_for(grant, &request);
}

CUresult on_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct grant grant;
	CUresult result = guest.policy.managed_ignored ?
		open_uncharged(&grant, KIND_MANAGED, bytesize) :
		grant_open(&grant, KIND_MANAGED, bytesize);

	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemAllocManaged(dptr, bytesize, flags);
	return grant_close(&grant, result, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult on_cuMemFree_v2(CUdeviceptr dptr)
{
	struct release release;

	release_open(&release, CLASS_MEMORY, dptr);
	return release_close(&release, real.cuMemFree_v2(dptr));
}

CUresult on_cuMemFree(CUdeviceptr_v1 dptr)
{
	struct release release;

	release_open(&release, CLASS_MEMORY, dptr);
	return release_close(&release, real.cuMemFree(dptr));
}

/* ---- host memory: charged to no GPU ---- */

#define PINNED_ALLOC(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result = open_uncharged(&cw_grant, KIND_PINNED, bytesize); \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		cw_result = real.name ARGS_##name; \
		return grant_close(&cw_grant, cw_result, cw_result == CUDA_SUCCESS ? (uint64_t)*pp : 0); \
	}

PINNED_ALLOC(cuMemAllocHost)
PINNED_ALLOC(cuMemAllocHost_v2)
PINNED_ALLOC(cuMemHostAlloc)

#define PINNED_REGISTER(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		CUresult cw_result = open_uncharged(&cw_grant, KIND_PINNED, bytesize); \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		return grant_close(&cw_grant, real.name ARGS_##name, (uint64_t)p); \
	}

PINNED_REGISTER(cuMemHostRegister)
PINNED_REGISTER(cuMemHostRegister_v2)

#define PINNED_FREE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct release cw_release; \
\
		release_open(&cw_release, CLASS_MEMORY, (uint64_t)p); \
		return release_close(&cw_release, real.name ARGS_##name); \
	}

PINNED_FREE(cuMemFreeHost)
PINNED_FREE(cuMemHostUnregister)
