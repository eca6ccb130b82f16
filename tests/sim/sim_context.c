/*
 * sim_context.c - cuInit, contexts, and the stack of them that every thread has.
 */
#include "sim_context.h"
#include "sim_array.h"
#include "sim_external.h"
#include "sim_host.h"
#include "sim_knobs.h"
#include "sim_module.h"
#include "sim_pool.h"
#include "sim_semaphore.h"
#include "sim_stream.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long next_id = 1;

CUresult sim_cuInit(unsigned int Flags)
{
	CUresult result = CUDA_SUCCESS;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!sim_is_ready()) {
		result = devices_open();
		if (result == CUDA_SUCCESS)
			sim_ready();
	}
	if (result == CUDA_SUCCESS)
		count_one(&usage_process()->inits);
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- life ---- */

static const size_t limits[LIMITS] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
	[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

static bool occupy(struct context *context)
{
	struct device *device = context->device;
	bool fits;

	pthread_mutex_lock(&device->lock);
	fits = device_take(device, round_up(knobs.context_bytes, SIM_BLOCK));
	if (fits)
		usage_contexts(device, 1);
	context->grown = 0;
	pthread_mutex_unlock(&device->lock);
	return fits;
}

static void vacate(struct context *context)
{
	pthread_mutex_lock(&context->device->lock);
	device_give(context->device, round_up(knobs.context_bytes, SIM_BLOCK) + context->grown);
	usage_contexts(context->device, -1);
	pthread_mutex_unlock(&context->device->lock);
}

static void open_heaps(struct context *context)
{
	struct arena *arenas = context->device->arenas;

	heap_open(&context->memory, &arenas[ARENA_DEVICE], FAMILY_device);
	heap_open(&context->arrays, &arenas[ARENA_DEVICE], FAMILY_array);
	heap_open(&context->globals, &arenas[ARENA_DEVICE], FAMILY_module);
	heap_open(&context->managed, &arenas[ARENA_MANAGED], FAMILY_managed);
	heap_open(&context->host, &host_arena, FAMILY_host);
	context->memory.context = context->arrays.context = context->globals.context = context;
	context->managed.context = context->host.context = context;
}

static void close_heaps(struct context *context)
{
	heap_close(&context->memory);
	heap_close(&context->arrays);
	heap_close(&context->globals);
	heap_close(&context->managed);
	heap_close(&context->host);
	heap_close(&context->low);
}

static CUresult activate(struct context *context, unsigned flags)
{
	if (!occupy(context))
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->flags = flags;
	context->error = CUDA_SUCCESS;
	memcpy(context->limits, limits, sizeof(limits));
	open_heaps(context);
	context->legacy = stream_open(context, CU_STREAM_DEFAULT, 0);
	if (!context->legacy) {
		vacate(context);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->id = next_id++;
	context->owner = context;
	context->active = true;
	return CUDA_SUCCESS;
}

struct context *context_new(struct device *device)
{
	static _Atomic uint64_t serial;
	struct context *context = object_new(KIND_context, NULL);

	if (!context)
		return NULL;
	context->device = device;
	context->serial = ++serial;
	return context;
}

/* What the device keeps for kernels that print and allocate comes with the context, up to here. */
bool context_grow(struct context *context)
{
	uint64_t bytes = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] +
			 context->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
	uint64_t born = limits[CU_LIMIT_MALLOC_HEAP_SIZE] + limits[CU_LIMIT_PRINTF_FIFO_SIZE];
	uint64_t grown = bytes > born ? round_up(bytes - born, SIM_BLOCK) : 0;
	bool fits = true;

	pthread_mutex_lock(&context->device->lock);
	if (grown > context->grown)
		fits = device_take(context->device, grown - context->grown);
	else
		device_give(context->device, context->grown - grown);
	if (fits)
		context->grown = grown;
	pthread_mutex_unlock(&context->device->lock);
	return fits;
}

CUresult context_open(struct context **opened, struct device *device, unsigned flags)
{
	struct context *context = context_new(device);
	CUresult result;

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->references = 1;
	context->api_version = 3020;
	result = activate(context, flags);
	if (result != CUDA_SUCCESS) {
		object_delete(context);
		return result;
	}
	*opened = context;
	return CUDA_SUCCESS;
}

/* Everything a context owns dies with it; pools and what came from them do not. */
static void sweep_one(struct object *object)
{
	switch (object->kind) {
	case KIND_module:
		module_close((struct module *)object);
		break;
	case KIND_stream:
		stream_close((struct stream *)object);
		break;
	case KIND_event:
		event_close((struct event *)object);
		break;
	case KIND_external:
		external_close((struct external *)object);
		break;
	case KIND_semaphore:
		semaphore_close((struct semaphore *)object);
		break;
	case KIND_array:
		array_swept((struct array *)object);
		break;
	case KIND_mipmap:
		mipmap_swept((struct mipmap *)object);
		break;
	default:
		object_delete(object);
	}
}

/* What was made in a green context is its primary's. */
static bool is_of(const struct object *object, const struct context *context)
{
	return object->context &&
	       (object->context == context || object->context->owner == context);
}

static void sweep(struct context *context)
{
	struct object *object = NULL;
	int kind;

	for (kind = 0; kind < KINDS; kind++)
		for (object = NULL; (object = object_next((enum kind)kind, object));)
			if (is_of(object, context))
				sweep_one(object);
}

/* Green contexts are of no use without their primary one. */
static void end_greens(const struct context *primary)
{
	struct context *face = NULL;

	while ((face = object_next(KIND_context, face)))
		if (face->owner == primary && face != primary)
			face->active = false;
}

static void deactivate(struct context *context)
{
	context->active = false;
	if (context->primary)
		end_greens(context);
	host_forget(context);
	external_forget(context);
	ipc_forget(context);
	sparse_forget(NULL, context);
	sweep(context);
	close_heaps(context);
	vacate(context);
}

void context_close(struct context *context)
{
	deactivate(context);
	object_delete(context);
}

void context_fault(CUresult code)
{
	struct context *context;

	if (context_current(&context) == CUDA_SUCCESS &&
		(code == CUDA_ERROR_ILLEGAL_ADDRESS || (code >= CUDA_ERROR_HARDWARE_STACK_ERROR &&
							       code <= CUDA_ERROR_LAUNCH_FAILED)))
		context->error = code;
}

/* ---- the stack ---- */

/* The thread is in what is on top now. */
static void enter_top(void)
{
	int top = sim_thread.depth - 1;

	sim_thread.current = top < 0 ? NULL : sim_thread.stack[top];
	sim_thread.serial = top < 0 ? 0 : sim_thread.serials[top];
}

static void set_top(struct context *context)
{
	if (!sim_thread.depth)
		sim_thread.depth = 1;
	sim_thread.stack[sim_thread.depth - 1] = context;
	sim_thread.serials[sim_thread.depth - 1] = context->serial;
	enter_top();
}

static void pop(void)
{
	sim_thread.depth--;
	enter_top();
}

static CUresult push(struct context *context)
{
	if (sim_thread.depth == SIM_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_thread.depth++;
	set_top(context);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct context *context = context_get(ctx);

	return context && context->active ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxPushCurrent(CUcontext ctx)
{
	return sim_cuCtxPushCurrent_v2(ctx);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!sim_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = (CUcontext)sim_thread.current;
	pop();
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent(CUcontext *pctx)
{
	return sim_cuCtxPopCurrent_v2(pctx);
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
	struct context *context = context_get(ctx);

	if (!ctx && sim_thread.depth)
		pop();
	if (!ctx)
		return CUDA_SUCCESS;
	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	set_top(context);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)sim_thread.current;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct context *context = ctx ? context_get(ctx) : sim_thread.current;

	if (!context || !context->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

/* ---- create and destroy ---- */

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct device *device = device_get(dev);
	struct context *context;
	CUresult result;

	if (!pctx || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	result = context_open(&context, device, flags);
	if (result == CUDA_SUCCESS)
		result = push(context);
	if (result == CUDA_SUCCESS)
		*pctx = (CUcontext)context;
	return result;
}

CUresult sim_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	CUresult result = create(pctx, flags, dev);

	if (result == CUDA_SUCCESS)
		context_get(*pctx)->api_version = 3010;
	return result;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
	unsigned int flags, CUdevice dev)
{
	if (numParams < 0 || (numParams > 0 && !paramsArray))
		return CUDA_ERROR_INVALID_VALUE;
	return numParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(
	CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return create(pctx, flags, dev);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *context = context_get(ctx);

	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_thread.current == context)
		pop();
	context_close(context);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy(CUcontext ctx)
{
	return sim_cuCtxDestroy_v2(ctx);
}

CUresult sim_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct context *context;
	CUresult result = context_current(&context);

	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	context->references++;
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxDetach(CUcontext ctx)
{
	struct context *context = context_get(ctx);

	if (!context || context != sim_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--context->references)
		return CUDA_SUCCESS;
	return sim_cuCtxDestroy_v2(ctx);
}

/* ---- primary contexts ---- */

static CUresult primary_open(struct device *device)
{
	struct context *context = device->primary;

	if (!context) {
		context = context_new(device);
		if (!context)
			return CUDA_ERROR_OUT_OF_MEMORY;
		context->primary = true;
		context->api_version = 3020;
		device->primary = context;
	}
	return context->active ? CUDA_SUCCESS : activate(context, device->primary_flags);
}

CUresult primary_retain(struct device *device)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = primary_open(device);
	if (result == CUDA_SUCCESS)
		device->primary_references++;
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult primary_release(struct device *device)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!device->primary_references)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (!--device->primary_references && device->primary->active)
		deactivate(device->primary);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct device *device = device_get(dev);
	CUresult result;

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	result = primary_retain(device);
	if (result == CUDA_SUCCESS)
		*pctx = (CUcontext)device->primary;
	return result;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return device_get(dev) ? primary_release(device_get(dev)) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return sim_cuDevicePrimaryCtxRelease_v2(dev);
}

/* What it held is gone, whoever else retains it; the references stay. */
CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct device *device = device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (device->primary && device->primary->active)
		deactivate(device->primary);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev)
{
	return sim_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct device *device = device_get(dev);

	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = device->primary_flags;
	*active = device->primary && device->primary->active;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct device *device = device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	device->primary_flags = flags;
	if (device->primary && device->primary->active)
		device->primary->flags = flags;
	return CUDA_SUCCESS;
}

/* The first ABI refuses once the context is active. */
CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	struct device *device = device_get(dev);

	if (device && device->primary && device->primary->active)
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	return sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
