/*
 * hook_launch.c - kernels and graphs. Without tracing a launch is counted by its entry, and here
 * only passes.
 */
#include "capture.h"
#include "gputime.h"
#include "graph_memory.h"
#include "names.h"
#include "traced.h"

struct launch {
	CUfunction function;
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	uint64_t stream;
};

/* One that failed, or is on one stream too many. Returns its correlation. */
static __attribute__((noinline, cold)) uint32_t tell_in_full(enum call call, CUresult result,
	uint64_t duration_ns, const struct launch *launch)
{
	struct event_launch event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .device = traced_device(),
		.result = result, .duration_ns = duration_ns,
		.function = launch->function ? names_of((uint64_t)launch->function) : 0,
		.grid_x = launch->grid[0], .grid_y = launch->grid[1], .grid_z = launch->grid[2],
		.block_x = launch->block[0], .block_y = launch->block[1], .block_z = launch->block[2],
		.shared_bytes = launch->shared_bytes, .stream = launch->stream,
		.correlation = traced_correlation(guest_thread()),
	};

	trace_launch(&event);
	return event.correlation;
}

static __attribute__((noinline)) CUresult traced_launch(enum call call, CUresult result,
	uint64_t began_ns, const struct launch *launch, const struct gputime *time)
{
	struct thread *thread = guest_thread();
	struct event_launched event = {
		.thread = guest_trace_key(thread), .api = call, .duration_ns = traced_duration(began_ns),
		.grid_x = launch->grid[0], .grid_y = launch->grid[1], .grid_z = launch->grid[2],
		.block_x = launch->block[0], .block_y = launch->block[1], .block_z = launch->block[2],
		.shared_bytes = launch->shared_bytes, .number = names_of_stream(launch->stream),
	};

	trace_define_api(guest.key, call);
	if (unlikely(result != CUDA_SUCCESS || !event.number)) {
		event.correlation = tell_in_full(call, result, event.duration_ns, launch);
	} else {
		event.device = traced_device();
		event.function = launch->function ? names_of((uint64_t)launch->function) : 0;
		event.correlation = traced_correlation(thread);
		trace_launched(&event);
	}
	gputime_close(time, event.correlation, result, began_ns + event.duration_ns);
	return result;
}

/* A launch, told of where somebody attends. */
#define LAUNCH_TOLD(name, attended, ...) \
	{ \
		const struct launch cw_launch = { __VA_ARGS__ }; \
		struct gputime cw_time; \
		uint64_t cw_began_ns; \
		CUresult cw_result; \
\
		if (!attended()) \
			return real.name ARGS_##name; \
		gputime_open(&cw_time, cw_launch.stream); \
		cw_began_ns = guest_clock_ns(); \
		cw_result = real.name ARGS_##name; \
		return traced_launch(CALL_##name, cw_result, cw_began_ns, &cw_launch, &cw_time); \
	}

/* The traced half apart, so that the usual one is a test and a jump. */
#define LAUNCH(name, ...) \
	static __attribute__((noinline)) CUresult traced_##name PARAMS_##name \
	LAUNCH_TOLD(name, attend_slow, __VA_ARGS__) \
	CUresult on_##name PARAMS_##name \
	{ \
		return (attention_wanted() ? traced_##name : real.name) ARGS_##name; \
	}

#define SHAPE \
	.grid = { gridDimX, gridDimY, gridDimZ }, .block = { blockDimX, blockDimY, blockDimZ }, \
	.shared_bytes = sharedMemBytes, .function = f
/* The driver answers to a launch without a configuration. */
static const CUlaunchConfig no_config;
#define CONFIG (config ? config : &no_config)
#define CONFIG_SHAPE \
	.grid = { CONFIG->gridDimX, CONFIG->gridDimY, CONFIG->gridDimZ }, \
	.block = { CONFIG->blockDimX, CONFIG->blockDimY, CONFIG->blockDimZ }, \
	.shared_bytes = CONFIG->sharedMemBytes, .function = f

LAUNCH(cuLaunchKernel, SHAPE, .stream = traced_stream(hStream, false))
LAUNCH(cuLaunchKernel_ptsz, SHAPE, .stream = traced_stream(hStream, true))
LAUNCH(cuLaunchCooperativeKernel, SHAPE, .stream = traced_stream(hStream, false))
LAUNCH(cuLaunchCooperativeKernel_ptsz, SHAPE, .stream = traced_stream(hStream, true))
LAUNCH(cuLaunchKernelEx, CONFIG_SHAPE, .stream = traced_stream(CONFIG->hStream, false))
LAUNCH(cuLaunchKernelEx_ptsz, CONFIG_SHAPE, .stream = traced_stream(CONFIG->hStream, true))
LAUNCH(cuLaunch, .grid = { 1, 1, 1 }, .function = f, .stream = 1)
LAUNCH(cuLaunchGrid, .grid = { grid_width, grid_height, 1 }, .function = f, .stream = 1)
LAUNCH(cuLaunchGridAsync, .grid = { grid_width, grid_height, 1 }, .function = f,
	.stream = traced_stream(hStream, false))

/* ---- one call, a kernel on each of several devices ---- */

struct part {
	const CUDA_LAUNCH_PARAMS *params;
	struct gputime time;
	uint8_t device;
};

/* Its events are of the context of its stream, which need not be the current one. */
static void part_open(struct part *part, const CUDA_LAUNCH_PARAMS *params)
{
	CUcontext context, popped;
	bool pushed = real.cuStreamGetCtx(params->hStream, &context) == CUDA_SUCCESS &&
		real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;

	part->params = params;
	part->device = pushed ? traced_device() : UINT8_MAX;
	gputime_open(&part->time, pushed ? (uint64_t)params->hStream : 0);
	if (pushed)
		real.cuCtxPopCurrent_v2(&popped);
}

/* Each is a launch, and only the first a call. */
static void part_close(const struct part *part, struct event_launch *event, uint64_t returned_ns)
{
	const CUDA_LAUNCH_PARAMS *params = part->params;

	event->function = params->function ? names_of((uint64_t)params->function) : 0;
	event->device = part->device;
	event->grid_x = params->gridDimX;
	event->grid_y = params->gridDimY;
	event->grid_z = params->gridDimZ;
	event->block_x = params->blockDimX;
	event->block_y = params->blockDimY;
	event->block_z = params->blockDimZ;
	event->shared_bytes = params->sharedMemBytes;
	event->stream = (uint64_t)params->hStream;
	event->correlation = traced_correlation(guest_thread());
	trace_launch(event);
	gputime_close(&part->time, event->correlation, event->result, returned_ns);
	event->api = API_SAME_CALL;
	event->duration_ns = 0;
}

static __attribute__((noinline)) CUresult traced_parts PARAMS_cuLaunchCooperativeKernelMultiDevice
{
	/* No two are for one device: of more of them the driver makes an error, of none as well. */
	unsigned count = launchParamsList && numDevices <= guest.device_count ? numDevices : 0;
	struct part parts[SLOT_DEVICES];
	struct event_launch event = { .api = CALL_cuLaunchCooperativeKernelMultiDevice,
		.device = UINT8_MAX };
	uint64_t began_ns, returned_ns;

	if (!attend_slow())
		return real.cuLaunchCooperativeKernelMultiDevice
			ARGS_cuLaunchCooperativeKernelMultiDevice;
	for (unsigned i = 0; i < count; i++)
		part_open(&parts[i], &launchParamsList[i]);
	began_ns = guest_clock_ns();
	event.result = real.cuLaunchCooperativeKernelMultiDevice
		ARGS_cuLaunchCooperativeKernelMultiDevice;
	event.duration_ns = traced_duration(began_ns);
	returned_ns = began_ns + event.duration_ns;
	event.thread = guest_trace_key(guest_thread());
	trace_define_api(guest.key, event.api);
	if (!count)
		trace_launch(&event);
	for (unsigned i = 0; i < count; i++)
		part_close(&parts[i], &event, returned_ns);
	return event.result;
}

CUresult on_cuLaunchCooperativeKernelMultiDevice PARAMS_cuLaunchCooperativeKernelMultiDevice
{
	return (attention_wanted() ? traced_parts : real.cuLaunchCooperativeKernelMultiDevice)
		ARGS_cuLaunchCooperativeKernelMultiDevice;
}

/* ---- graphs ---- */

/* A graph may allocate. On a capturing stream it becomes part of another one, and does not. */
#define GRAPH_LAUNCH(name, exec, per_thread) \
	static CUresult launch_##name PARAMS_##name \
	LAUNCH_TOLD(name, attend, .stream = traced_stream(hStream, per_thread)) \
	CUresult on_##name PARAMS_##name \
	{ \
		struct graph_use cw_use; \
		CUresult cw_result; \
\
		if (likely(!graph_memory_possible()) || capture_is_active(hStream, per_thread)) \
			return launch_##name ARGS_##name; \
		cw_result = graph_memory_open(&cw_use, exec); \
		if (cw_result != CUDA_SUCCESS) \
			return cw_result; \
		return graph_memory_close(&cw_use, launch_##name ARGS_##name, true); \
	}

GRAPH_LAUNCH(cuGraphLaunch, hGraph, false)
GRAPH_LAUNCH(cuGraphLaunch_ptsz, hGraphExec, true)
