/*
 * sim_context.c - stacks of contexts, primary contexts, and what dies with either.
 */
#include "sim_check.h"

static int is_active(void)
{
	unsigned flags;
	int active;

	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	return active;
}

static void stacks(void)
{
	CUcontext a, b, seen;
	CUdevice device;

	SAME(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxCreate_v2(&a, 0, 0));
	OK(cuCtxCreate_v2(&b, 0, 1));
	OK(cuCtxGetDevice(&device));
	SAME(device, 1);
	OK(cuCtxPopCurrent_v2(&seen));
	TRUE(seen == b);
	OK(cuCtxGetCurrent(&seen));
	TRUE(seen == a);
	OK(cuCtxSetCurrent(b));
	OK(cuCtxPopCurrent_v2(NULL));
	SAME(cuCtxPopCurrent_v2(&seen), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxDestroy_v2(a));
	SAME(cuCtxDestroy_v2(a), CUDA_ERROR_INVALID_CONTEXT);
	SAME(cuCtxPushCurrent_v2(a), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxDestroy_v2(b));
	SAME(cuCtxCreate_v2(&a, 0, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void primary(void)
{
	CUcontext first, second;
	CUdeviceptr p;
	CUstream stream;
	CUevent event;

	SAME(is_active(), 0);
	SAME(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRetain(&first, 0));
	OK(cuDevicePrimaryCtxRetain(&second, 0));
	TRUE(first == second);
	SAME(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(first));
	OK(cuMemAlloc_v2(&p, 100));
	OK(cuStreamCreate(&stream, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	SAME(is_active(), 1);
	OK(cuStreamQuery(stream));
	OK(cuDevicePrimaryCtxReset_v2(0));
	SAME(is_active(), 0);
	SAME(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	SAME(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemAlloc_v2(&p, 100), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	SAME(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxRetain(&first, 0));
	OK(cuMemAlloc_v2(&p, 100));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuCtxSetCurrent(NULL));
}

/* Memory of a destroyed context is gone, pools' memory is not. */
static void sweep(void)
{
	CUcontext context;
	CUdeviceptr p, pooled;
	CUstream stream;

	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuStreamCreate(&stream, 0));
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuMemAllocAsync(&pooled, 10 * MIB, stream));
	OK(cuCtxDestroy_v2(context));
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(pooled));
	SAME(cuMemFree_v2(pooled), CUDA_ERROR_INVALID_VALUE);
}

static void attach(void)
{
	CUcontext context, again;
	unsigned version;

	OK(cuCtxCreate(&context, 0, 0));
	OK(cuCtxGetApiVersion(context, &version));
	SAME(version, 3010);
	OK(cuCtxAttach(&again, 0));
	TRUE(again == context);
	OK(cuCtxDetach(context));
	OK(cuCtxSynchronize());
	OK(cuCtxDetach(context));
	SAME(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

/* Needs two devices. */
int main(void)
{
	OK(cuInit(0));
	stacks();
	primary();
	sweep();
	attach();
	return 0;
}
