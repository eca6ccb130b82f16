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

static __attribute__((noinline)) CUresult traced_launch(enum call call, CUresult result,
	uint64_t began_ns, const struct launch *launch, const struct gputime *time)
{
	struct event_launch event = {
		.thread = guest_trace_key(guest_thread()), .api = call, .device = traced_device(),
		.result = result, .duration_ns = traced_duration(began_ns),
		.function = launch->function ? names_of((uint64_t)launch->function) : 0,
		.grid_x = launch->grid[0], .grid_y = launch->grid[1], .grid_z = launch->grid[2],
		.block_x = launch->block[0], .block_y = launch->block[1], .block_z = launch->block[2],
		.shared_bytes = launch->shared_bytes, .stream = launch->stream,
		.correlation = traced_correlation(),
	};

	trace_define_api(guest.key, call);
	trace_launch(&event);
	gputime_close(time, event.correlation, result, began_ns + event.duration_ns);
	return result;
}

/* The traced half apart, so that the usual one is a test and a jump. */
#define LAUNCH(name, ...) \
	static __attribute__((noinline)) CUresult traced_##name PARAMS_##name \
	{ \
		const struct launch cw_launch = { __VA_ARGS__ }; \
		struct gputime cw_time; \
		uint64_t cw_began_ns; \
		CUresult cw_result; \
\
		if (!attend_slow()) \
			return real.name ARGS_##name; \
		gputime_open(&cw_time, cw_launch.stream); \
		cw_began_ns = guest_clock_ns(); \
		cw_result = real.name ARGS_##name; \
		return traced_launch(CALL_##name, cw_result, cw_began_ns, &cw_launch, &cw_time); \
	} \
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
/* Streams of several devices: none of them is the current one's, and none is timed. One kernel. */
LAUNCH(cuLaunchCooperativeKernelMultiDevice, .grid = { numDevices, 1, 1 },
	.function = numDevices && launchParamsList ? launchParamsList->function : NULL)

/* A graph may allocate. On a capturing stream it becomes part of another one, and does not. */
#define GRAPH_LAUNCH(name, exec, per_thread) \
	static CUresult launch_##name PARAMS_##name \
	{ \
		struct launch cw_launch = { .stream = traced_stream(hStream, per_thread) }; \
		struct gputime cw_time; \
		uint64_t cw_began_ns; \
		CUresult cw_result; \
\
		if (!attend()) \
			return real.name ARGS_##name; \
		gputime_open(&cw_time, cw_launch.stream); \
		cw_began_ns = guest_clock_ns(); \
		cw_result = real.name ARGS_##name; \
		return traced_launch(CALL_##name, cw_result, cw_began_ns, &cw_launch, &cw_time); \
	} \
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
