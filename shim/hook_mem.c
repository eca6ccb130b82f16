/*
 * hook_mem.c - linear, pitched, managed and pinned memory, and its frees.
 */
#include "grant.h"
#include "ledger.h"

#include "grant_hot.h"

CUresult on_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct grant grant;
	CUresult result = grant_open_here(&grant, KIND_DEVICE, bytesize);

	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemAlloc_v2(dptr, bytesize);
	return grant_close_hot(&grant, result, CLASS_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
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
 * How far the driver pads rows, as learnt from its answers: to a power of two, 1 << least at least and
 * most 1 << most. The least is asked for before the call, so that nothing is refused that would fit; the
 * most is in the ledger while the call is under way, as the process may be killed there.
 */
struct padding {
	uint8_t least;
	uint8_t most;
};

#define PADDING_MOST 16
static struct padding padding = { 0, PADDING_MOST };

static struct padding padding_known(void)
{
	struct padding known;

	__atomic_load(&padding, &known, __ATOMIC_RELAXED);
	return known;
}

static uint64_t padded(uint64_t width, unsigned power)
{
	uint64_t below = (1ull << power) - 1;

	return width <= UINT64_MAX - below ? (width + below) & ~below : UINT64_MAX;
}

static void padding_learn(uint64_t width, uint64_t pitch)
{
	struct padding known = padding_known();
	struct padding now = { 0, 0 };

	if (known.least == known.most && padded(width, known.most) == pitch)
		return;
	while (now.least < PADDING_MOST && padded(width, now.least) < pitch)
		now.least++;
	now.most = now.least;
	while (now.most < PADDING_MOST && padded(width, now.most + 1) <= pitch)
		now.most++;
	if (padded(width, now.least) != pitch) /* not to a power of two: nothing is known */
		now = (struct padding){ 0, PADDING_MOST };
	else if (known.least <= now.most && now.least <= known.most)
		now = (struct padding){ known.least > now.least ? known.least : now.least,
			known.most < now.most ? known.most : now.most };
	__atomic_store(&padding, &now, __ATOMIC_RELAXED);
}

static uint64_t pitched_least(uint64_t width, uint64_t height)
{
	return pitched_bytes(padded(width, padding_known().least), height);
}

/* What is in flight for whoever reads the ledger, until grant_resize() tells what it was. */
static void announce_most(const struct grant *grant, uint64_t width, uint64_t height)
{
	uint64_t bytes = pitched_bytes(padded(width, padding_known().most), height);

	if (grant->record != LEDGER_NO_RECORD && bytes != UINT64_MAX) /* no memory has that size */
		__atomic_store_n(&ledger_record(grant->record)->bytes, bytes, __ATOMIC_RELAXED);
}

/* What was not foreseen is known afterwards; what breaks the limit then is freed again. */
#define PITCHED_ALLOC(name, free_by) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct grant cw_grant; \
		__typeof__(*dptr) cw_pointer = 0; \
		__typeof__(*pPitch) cw_pitch = 0; \
		CUresult cw_result = grant_open(&cw_grant, KIND_DEVICE, \
			pitched_least(WidthInBytes, Height)); \
\
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		announce_most(&cw_grant, WidthInBytes, Height); \
		cw_result = real.name(dptr ? &cw_pointer : NULL, pPitch ? &cw_pitch : NULL, \
			WidthInBytes, Height, ElementSizeBytes); \
		if (cw_result == CUDA_SUCCESS) \
			padding_learn(WidthInBytes, cw_pitch); \
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

	release_open_hot(&release, CLASS_MEMORY, dptr);
	return release_close_hot(&release, real.cuMemFree_v2(dptr));
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
