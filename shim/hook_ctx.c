/*
 * hook_ctx.c - contexts: their birth, and what goes with them when they die.
 *
 * A context takes its linear, pitched, managed and pinned memory, its streams, events and modules
 * with it. Stream-ordered and physical memory stays.
 */
#include "gputime.h"
#include "grant.h"
#include "overhead.h"
#include "traced.h"

static void trace_context_event(int what, int device, CUcontext context)
{
	struct event_context event = {
		.what = what, .device = device < 0 ? UINT8_MAX : device, .context = (uint64_t)context,
	};

	if (likely(!trace_on))
		return;
	event.thread = guest_trace_key(guest_thread());
	trace_context(&event);
}

/* ---- until the driver has answered and all is swept, what a context owns may be there or not ---- */

static void doom_done(CUcontext context)
{
	for (unsigned i = 0; guest.header && context && i < LEDGER_DYING_MAX; i++) {
		uint64_t it = (uint64_t)context;

		__atomic_compare_exchange_n(&guest.header->dying[i], &it, 0, false, __ATOMIC_ACQ_REL,
			__ATOMIC_RELAXED);
	}
}

/* Once, also where somebody jumped out of a call that was to end it. */
static void doom(CUcontext context)
{
	doom_done(context);
	for (unsigned i = 0; guest.header && context && i < LEDGER_DYING_MAX; i++) {
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&guest.header->dying[i], &none, (uint64_t)context, false,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return;
	}
}

static void created(CUcontext context, CUdevice handle)
{
	int device = guest_device_index(handle);

	/* Its handle may be an older one's whose sweep is still to come: see grant_sweep(). */
	grant_sweep_epoch();
	grant_object_created(OBJECT_CONTEXT, (uint64_t)context, device, NULL);
	doom_done(context);
	overhead_new_context(device, context);
	trace_context_event(OBJECT_CREATED, device, context);
}

/* ---- usage counts of cuCtxAttach and cuCtxDetach: a context is born with one ---- */

#define ATTACHED_MAX 64

static struct {
	uint32_t lock;
	struct {
		CUcontext context;
		uint32_t extra;
	} entries[ATTACHED_MAX];
} attached;

/* Change the count by one; false when the last usage is given up. */
static bool attached_change(CUcontext context, int by)
{
	int vacant = -1;
	bool left = false;
	int i;

	lock_take(&attached.lock);
	for (i = 0; i < ATTACHED_MAX && attached.entries[i].context != context; i++) {
		if (!attached.entries[i].extra && vacant < 0)
			vacant = i;
	}
	if (i == ATTACHED_MAX && by > 0 && vacant >= 0) {
		i = vacant;
		attached.entries[i].context = context;
		attached.entries[i].extra = 0;
	}
	if (i < ATTACHED_MAX && (by > 0 || attached.entries[i].extra > 0)) {
		attached.entries[i].extra += by;
		left = true;
	}
	lock_give_back(&attached.lock);
	return left;
}

/* Forget the count of a context that is about to die: its handle may stand for another at once. */
static uint32_t attached_take(CUcontext context)
{
	uint32_t extra = 0;

	lock_take(&attached.lock);
	for (int i = 0; i < ATTACHED_MAX; i++) {
		if (attached.entries[i].context == context) {
			extra = attached.entries[i].extra;
			attached.entries[i].extra = 0;
		}
	}
	lock_give_back(&attached.lock);
	return extra;
}

static CUcontext primary_of(CUdevice handle)
{
	int device = guest_device_index(handle);

	return device < 0 ? NULL : __atomic_load_n(&guest.devices[device].primary, __ATOMIC_ACQUIRE);
}

/* A context that the driver is told to destroy. */
struct dying {
	CUcontext context;
	enum call call;
	uint64_t began_ns;
	uint32_t attached; /* usages beside the first */
	int device;
	struct release release;
};

static void dying_open(struct dying *dying, enum call call, CUcontext context)
{
	struct ledger_record record;

	gputime_last_look(context);
	dying->context = context;
	dying->call = call;
	dying->began_ns = traced_begin();
	dying->device = -1;
	if (grant_object_find(OBJECT_CONTEXT, (uint64_t)context, &record) && record.device != UINT8_MAX)
		dying->device = record.device;
	dying->attached = attached_take(context);
	doom(context);
	grant_object_open(&dying->release, OBJECT_CONTEXT, (uint64_t)context);
	dying->release.began_ns = 0;
}

/* It is gone: its own entry, and all it owned; or it stays. */
static CUresult dying_close(struct dying *dying, CUresult result, bool gone)
{
	release_close(&dying->release, gone || result != CUDA_SUCCESS ? result : CUDA_ERROR_UNKNOWN);
	if (gone) {
		gputime_gone(dying->context);
		grant_sweep(dying->context);
		trace_context_event(OBJECT_DESTROYED, dying->device, dying->context);
	} else {
		while (dying->attached-- > 0)
			attached_change(dying->context, 1);
	}
	doom_done(dying->context);
	return traced_end(dying->call, result, dying->began_ns);
}

#define CTX_CREATE(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			created(*pctx, dev); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

CTX_CREATE(cuCtxCreate)
CTX_CREATE(cuCtxCreate_v2)
CTX_CREATE(cuCtxCreate_v3)
CTX_CREATE(cuCtxCreate_v4)

#define CTX_DESTROY(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct dying cw_dying; \
		CUresult cw_result; \
\
		dying_open(&cw_dying, CALL_##name, ctx); \
		cw_result = real.name ARGS_##name; \
		return dying_close(&cw_dying, cw_result, cw_result == CUDA_SUCCESS); \
	}

CTX_DESTROY(cuCtxDestroy)
CTX_DESTROY(cuCtxDestroy_v2)

/* ---- usage counts ---- */

CUresult on_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuCtxAttach(pctx, flags);

	if (result == CUDA_SUCCESS)
		attached_change(*pctx, 1);
	return traced_end(CALL_cuCtxAttach, result, began_ns);
}

CUresult on_cuCtxDetach(CUcontext ctx)
{
	struct dying dying;
	CUresult result;
	bool gone;

	dying_open(&dying, CALL_cuCtxDetach, ctx);
	result = real.cuCtxDetach(ctx);
	gone = result == CUDA_SUCCESS && dying.attached == 0;
	if (result == CUDA_SUCCESS && !gone)
		dying.attached--;
	return dying_close(&dying, result, gone);
}

/* ---- primary contexts: the driver counts their users, some of them unseen by us ---- */

CUresult on_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuDevicePrimaryCtxRetain(pctx, dev);
	struct ledger_record record;
	int device = guest_device_index(dev);

	if (result == CUDA_SUCCESS && device >= 0) {
		__atomic_store_n(&guest.devices[device].primary, *pctx, __ATOMIC_RELEASE);
		if (!grant_object_find(OBJECT_CONTEXT, (uint64_t)*pctx, &record))
			created(*pctx, dev);
	}
	return traced_end(CALL_cuDevicePrimaryCtxRetain, result, began_ns);
}

/* One that nobody was seen to retain, as by a private table: it is there, so its handle may be had. */
static CUcontext primary_learn(CUdevice handle)
{
	CUcontext context = primary_of(handle);
	int device = guest_device_index(handle);
	unsigned int flags;
	int active = 0;

	if (context || device < 0 ||
	    real.cuDevicePrimaryCtxGetState(handle, &flags, &active) != CUDA_SUCCESS || !active ||
	    real.cuDevicePrimaryCtxRetain(&context, handle) != CUDA_SUCCESS)
		return context;
	if (driver_has(CALL_cuDevicePrimaryCtxRelease_v2))
		real.cuDevicePrimaryCtxRelease_v2(handle);
	else
		real.cuDevicePrimaryCtxRelease(handle);
	__atomic_store_n(&guest.devices[device].primary, context, __ATOMIC_RELEASE);
	return context;
}

/* Do not trust a count of our own: ask the driver whether the context is still there. */
static void sweep_primary(CUdevice handle, uint32_t epoch, bool reset)
{
	CUcontext context = primary_of(handle);
	struct release release;
	unsigned int flags = 0;
	int active = 0;

	if (!context)
		return;
	if (!reset &&
	    (real.cuDevicePrimaryCtxGetState(handle, &flags, &active) != CUDA_SUCCESS || active))
		return;
	gputime_gone(context);
	grant_object_open(&release, OBJECT_CONTEXT, (uint64_t)context);
	release_close(&release, CUDA_SUCCESS);
	grant_sweep_before(context, epoch);
	trace_context_event(OBJECT_DESTROYED, guest_device_index(handle), context);
}

#define PRIMARY_END(name, reset) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		uint32_t cw_epoch = grant_sweep_epoch(); \
		CUcontext cw_context = primary_learn(dev); \
		CUresult cw_result; \
\
		gputime_look(); \
		doom(cw_context); \
		cw_result = real.name ARGS_##name; \
		if (cw_result == CUDA_SUCCESS) \
			sweep_primary(dev, cw_epoch, reset); \
		doom_done(cw_context); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

PRIMARY_END(cuDevicePrimaryCtxRelease, false)
PRIMARY_END(cuDevicePrimaryCtxRelease_v2, false)
PRIMARY_END(cuDevicePrimaryCtxReset, true)
PRIMARY_END(cuDevicePrimaryCtxReset_v2, true)

/* ---- a context becomes current: only then can what it costs be measured ---- */

#define MADE_CURRENT(name) \
	CUresult on_##name PARAMS_##name \
	{ \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (unlikely(overhead_is_owed()) && cw_result == CUDA_SUCCESS) \
			overhead_now_current(); \
		return cw_result; \
	}

MADE_CURRENT(cuCtxSetCurrent)
MADE_CURRENT(cuCtxPushCurrent)
MADE_CURRENT(cuCtxPushCurrent_v2)

/* The heaps of kernels may grow, and shrink again. */
CUresult on_cuCtxSetLimit(CUlimit limit, size_t value)
{
	uint64_t began_ns = traced_begin();
	struct overhead overhead;
	size_t before = 0;
	CUresult result;

	overhead_open(&overhead);
	if (overhead.device >= 0 && real.cuCtxGetLimit(&before, limit) != CUDA_SUCCESS)
		before = 0;
	result = real.cuCtxSetLimit(limit, value);
	if (result == CUDA_SUCCESS)
		overhead_close_context(&overhead, before > value ? before - value : 0);
	return traced_end(CALL_cuCtxSetLimit, result, began_ns);
}

/* ---- green contexts: a part of the primary one, which owns whatever is made in them ---- */

/* As a CUcontext it may become current by ways that we do not see. */
static void learn_face(CUgreenCtx green, CUdevice handle)
{
	int device = guest_device_index(handle);
	CUcontext context;

	if (device >= 0 && real.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS)
		guest_is_green(context, green, device);
}

CUresult on_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuGreenCtxCreate(phCtx, desc, dev, flags);

	if (result == CUDA_SUCCESS) {
		primary_learn(dev); /* which it holds */
		grant_object_created(OBJECT_GREEN_CONTEXT, (uint64_t)*phCtx, guest_device_index(dev), NULL);
		learn_face(*phCtx, dev);
	}
	return traced_end(CALL_cuGreenCtxCreate, result, began_ns);
}

/* As a CUcontext it is current like any other: know it by that too. */
CUresult on_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuCtxFromGreenCtx(pContext, hCtx);
	struct ledger_record green;

	if (result == CUDA_SUCCESS && grant_object_find(OBJECT_GREEN_CONTEXT, (uint64_t)hCtx, &green) &&
	    green.device != UINT8_MAX)
		guest_is_green(*pContext, hCtx, green.device);
	return traced_end(CALL_cuCtxFromGreenCtx, result, began_ns);
}

/* The stream refers to its green context, which is not over well before it is. */
CUresult on_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
	int priority)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuGreenCtxStreamCreate(phStream, greenCtx, flags, priority);
	struct ledger_record green;
	struct ref_change change;

	if (result == CUDA_SUCCESS && grant_object_find(OBJECT_GREEN_CONTEXT, (uint64_t)greenCtx, &green)) {
		int device = green.device == UINT8_MAX ? -1 : green.device;
		uint32_t stream = grant_object_created(OBJECT_STREAM, (uint64_t)*phStream, device,
			device < 0 ? NULL : guest.devices[device].primary);

		if (stream != LEDGER_NO_RECORD &&
		    refs_open(&change, CLASS_OBJECT, grant_object_key(OBJECT_GREEN_CONTEXT,
			(uint64_t)greenCtx), REF_MAPPING, true)) {
			set_field(&ledger_record(stream)->link, change.record + 1);
			guest.green_streams = true;
			refs_close(&change, true);
		}
	}
	return traced_end(CALL_cuGreenCtxStreamCreate, result, began_ns);
}

/* With the last one the primary context may go, and all that was made in either. */
CUresult on_cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	uint32_t epoch = grant_sweep_epoch();
	struct ledger_record record = { .device = UINT8_MAX };
	bool left_streams = grant_object_find(OBJECT_GREEN_CONTEXT, (uint64_t)hCtx, &record) &&
		record.mappings > 0;
	CUcontext context = record.device == UINT8_MAX ? NULL : guest.devices[record.device].primary;
	struct release release;
	CUresult result;

	doom(context);
	grant_object_open(&release, OBJECT_GREEN_CONTEXT, (uint64_t)hCtx);
	result = release_close(&release, real.cuGreenCtxDestroy(hCtx));
	if (result == CUDA_SUCCESS) {
		if (left_streams)
			guest_find(FINDING_GREEN_CONTEXT);
		guest_green_gone(hCtx);
		grant_sweep_epoch();
		if (record.device != UINT8_MAX)
			sweep_primary(guest.devices[record.device].handle, epoch, false);
	}
	doom_done(context);
	return result;
}
