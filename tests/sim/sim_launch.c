/*
 * sim_launch.c - kernels: checked, counted, and done once their simulated time is over.
 */
#include "sim_graph.h"
#include "sim_knobs.h"
#include "sim_module.h"
#include "sim_stream.h"

/* The shape of a launch. */
struct shape {
	unsigned grid[3], block[3], shared;
};

static bool shape_is_valid(const struct shape *shape, const struct function *function)
{
	uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
	unsigned most =
		function->max_dynamic_shared ? (unsigned)function->max_dynamic_shared : 49152;

	if (!threads || threads > 1024 || shape->block[2] > 64)
		return false;
	if (!shape->grid[0] || !shape->grid[1] || !shape->grid[2])
		return false;
	return shape->grid[0] <= INT32_MAX && shape->grid[1] <= 65535 && shape->grid[2] <= 65535 &&
	       shape->shared <= most;
}

/* A queue that is full: the launch waits. What had room before it is not counted one by one. */
static void queue_up(struct stream *stream)
{
	if (stream_idle(stream))
		stream->queued = 0;
	if (atomic_fetch_add(&stream->queued, 1) < knobs.queue)
		return;
	stream_wait(stream);
	stream->queued = 1;
}

static CUresult launch(CUfunction handle, const struct shape *shape, CUstream stream_handle,
	void **params, void **extra)
{
	struct function *function = function_get(handle);
	struct context *context;
	struct stream *stream;
	struct node *node;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!shape_is_valid(shape, function))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_of(stream_handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->object.context != context ||
		(function->object.context && function->object.context != context))
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL, &node, &result)) {
		if (!node)
			return result;
		node->ns = function->ns;
		node->is.kernel = (CUDA_KERNEL_NODE_PARAMS){ handle, shape->grid[0], shape->grid[1],
			shape->grid[2], shape->block[0], shape->block[1], shape->block[2],
			shape->shared, params, extra, NULL, NULL };
		return CUDA_SUCCESS;
	}
	if (unlikely(knobs.queue))
		queue_up(stream);
	stream_append(stream, function->ns);
	count_one(&usage_process()->launches);
	return CUDA_SUCCESS;
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra)
{
	struct shape shape = { { gridDimX, gridDimY, gridDimZ },
		{ blockDimX, blockDimY, blockDimZ }, sharedMemBytes };

	return launch(f, &shape, hStream, kernelParams, extra);
}

CUresult sim_cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	struct shape shape;

	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	shape = (struct shape){ { config->gridDimX, config->gridDimY, config->gridDimZ },
		{ config->blockDimX, config->blockDimY, config->blockDimZ },
		config->sharedMemBytes };
	return launch(f, &shape, config->hStream, kernelParams, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	struct shape shape = { { gridDimX, gridDimY, gridDimZ },
		{ blockDimX, blockDimY, blockDimZ }, sharedMemBytes };

	if ((uint64_t)gridDimX * gridDimY * gridDimZ > 48 * 16)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return launch(f, &shape, hStream, kernelParams, NULL);
}

CUresult sim_cuLaunchCooperativeKernelMultiDevice(
	CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices, unsigned int flags)
{
	const CUDA_LAUNCH_PARAMS *each;
	CUresult result = launchParamsList && numDevices && !(flags & ~3u)
				  ? CUDA_SUCCESS
				  : CUDA_ERROR_INVALID_VALUE;
	struct stream *stream;
	struct shape shape;

	for (each = launchParamsList;
		result == CUDA_SUCCESS && each < launchParamsList + numDevices; each++) {
		stream = object_get(KIND_stream, each->hStream);
		if (!stream)
			return CUDA_ERROR_INVALID_VALUE; /* default streams are not allowed */
		if (each->function && !function_get(each->function))
			return CUDA_ERROR_INVALID_HANDLE;
		shape = (struct shape){ { each->gridDimX, each->gridDimY, each->gridDimZ },
			{ each->blockDimX, each->blockDimY, each->blockDimZ },
			each->sharedMemBytes };
		if (!each->function || !shape_is_valid(&shape, function_get(each->function)))
			return CUDA_ERROR_INVALID_VALUE;
		stream_append(stream, function_get(each->function)->ns);
		count_one(&usage_process()->launches);
	}
	return result;
}

/* ---- the legacy way: state in the function, then a launch ---- */

CUresult sim_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	struct function *function = function_get(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (x <= 0 || y <= 0 || z <= 0 || (int64_t)x * y * z > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	function->block[0] = (unsigned)x;
	function->block[1] = (unsigned)y;
	function->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
	struct function *function = function_get(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	function->shared = bytes;
	return CUDA_SUCCESS;
}

CUresult sim_cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
	struct function *function = function_get(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	function->parameter_bytes = numbytes;
	return CUDA_SUCCESS;
}

static CUresult parameter(CUfunction hfunc, int offset)
{
	if (!function_get(hfunc))
		return CUDA_ERROR_INVALID_HANDLE;
	return offset >= 0 && offset < 4096 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
	(void)value;
	return parameter(hfunc, offset);
}

CUresult sim_cuParamSetf(CUfunction hfunc, int offset, float value)
{
	(void)value;
	return parameter(hfunc, offset);
}

CUresult sim_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	if (numbytes && !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	return parameter(hfunc, offset);
}

CUresult sim_cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef)
{
	(void)texunit, (void)hTexRef;
	return parameter(hfunc, 0);
}

CUresult sim_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	struct function *function = function_get(f);
	struct shape shape;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (grid_width <= 0 || grid_height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	shape = (struct shape){ { (unsigned)grid_width, (unsigned)grid_height, 1 },
		{ function->block[0], function->block[1], function->block[2] }, function->shared };
	return launch(f, &shape, hStream, NULL, NULL);
}

CUresult sim_cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	return sim_cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult sim_cuLaunch(CUfunction f)
{
	return sim_cuLaunchGridAsync(f, 1, 1, NULL);
}
