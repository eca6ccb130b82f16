/*
 * hook_ctx.c - contexts: their birth, and what goes with them when they die.
 *
 * A context takes its linear, pitched, managed and pinned memory, its streams, events and modules
 * with it. Stream-ordered and physical memory stays.
 */
#include "grant.h"
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

static void created(CUcontext context, CUdevice handle)
{
	int device = guest_device_index(handle);

	grant_object_created(OBJECT_CONTEXT, (uint64_t)context, device, NULL);
	trace_context_event(OBJECT_CREATED, device, context);
}

/* The context is gone: its own entry, and all it owned. */
static void destroyed(CUcontext context, uint32_t epoch)
{
	struct ledger_record record;
	struct release release;
	int device = -1;

	if (grant_object_find(OBJECT_CONTEXT, (uint64_t)context, &record) && record.device != UINT8_MAX)
		device = record.device;
	grant_object_open(&release, OBJECT_CONTEXT, (uint64_t)context);
	release_close(&release, CUDA_SUCCESS);
	grant_sweep(context, epoch);
	trace_context_event(OBJECT_DESTROYED, device, context);
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
		uint64_t cw_began_ns = traced_begin(); \
		uint32_t cw_epoch = grant_sweep_epoch(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			destroyed(ctx, cw_epoch); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

CTX_DESTROY(cuCtxDestroy)
CTX_DESTROY(cuCtxDestroy_v2)

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

CUresult on_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	CUresult result = real.cuCtxAttach(pctx, flags);

	if (result == CUDA_SUCCESS)
		attached_change(*pctx, 1);
	return result;
}

CUresult on_cuCtxDetach(CUcontext ctx)
{
	uint64_t began_ns = traced_begin();
	uint32_t epoch = grant_sweep_epoch();
	CUresult result = real.cuCtxDetach(ctx);

	if (result == CUDA_SUCCESS && !attached_change(ctx, -1))
		destroyed(ctx, epoch);
	return traced_end(CALL_cuCtxDetach, result, began_ns);
}

/* ---- primary contexts: the driver counts their users, some of them unseen by us ---- */

static CUcontext primary[SLOT_DEVICES];

CUresult on_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuDevicePrimaryCtxRetain(pctx, dev);
	struct ledger_record record;
	int device = guest_device_index(dev);

	if (result == CUDA_SUCCESS && device >= 0) {
		__atomic_store_n(&primary[device], *pctx, __ATOMIC_RELEASE);
		if (!grant_object_find(OBJECT_CONTEXT, (uint64_t)*pctx, &record))
			created(*pctx, dev);
	}
	return traced_end(CALL_cuDevicePrimaryCtxRetain, result, began_ns);
}

/* Do not trust a count of our own: ask the driver whether the context is still there. */
static void sweep_primary(CUdevice handle, uint32_t epoch, bool reset)
{
	int device = guest_device_index(handle);
	CUcontext context = device < 0 ? NULL : __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE);
	unsigned int flags = 0;
	int active = 0;

	if (!context)
		return;
	if (!reset &&
	    (real.cuDevicePrimaryCtxGetState(handle, &flags, &active) != CUDA_SUCCESS || active))
		return;
	destroyed(context, epoch);
}

#define PRIMARY_END(name, reset) \
	CUresult on_##name PARAMS_##name \
	{ \
		uint64_t cw_began_ns = traced_begin(); \
		uint32_t cw_epoch = grant_sweep_epoch(); \
		CUresult cw_result = real.name ARGS_##name; \
\
		if (cw_result == CUDA_SUCCESS) \
			sweep_primary(dev, cw_epoch, reset); \
		return traced_end(CALL_##name, cw_result, cw_began_ns); \
	}

PRIMARY_END(cuDevicePrimaryCtxRelease, false)
PRIMARY_END(cuDevicePrimaryCtxRelease_v2, false)
PRIMARY_END(cuDevicePrimaryCtxReset, true)
PRIMARY_END(cuDevicePrimaryCtxReset_v2, true)
