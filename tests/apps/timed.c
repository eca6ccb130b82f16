/*
 * timed.c - work that is hard to time on the GPU: `timed STORY`.
 *
 *	contexts N	N contexts, one after the other, a kernel in each
 *	together N	N contexts at the same time, two kernels in each
 *	flood N		N kernels that cannot begin before all are launched, and ten more when they are over
 *	streams N	N streams, each destroyed while its kernel runs
 *	abandoned	a context destroyed while its kernel runs, and while another one is current
 *	capture		a capture begun while kernels run that are timed
 *	green		five kernels in a green context, five in the primary one
 *	forked N	N kernels, as many in a forked child, and as many again
 *	gaps N		N kernels that begin 8 ms after an event before them; the event behind is 7 ms late
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"

#define MUST(call) \
	do { \
		CUresult must_result = call; \
		if (must_result) { \
			fprintf(stderr, "%s: %d\n", #call, must_result); \
			exit(1); \
		} \
	} while (0)

static CUfunction work_of_current(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry work() { ret; }\n";
	CUfunction function;
	CUmodule module;

	MUST(cuModuleLoadData(&module, ptx));
	MUST(cuModuleGetFunction(&function, module, "work"));
	return function;
}

static void launch(CUfunction function, CUstream stream)
{
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static CUcontext new_context(void)
{
	CUctxCreateParams none = { 0 };
	CUcontext context;

	MUST(cuCtxCreate(&context, &none, 0, 0));
	return context;
}

static void contexts(int count)
{
	for (int i = 0; i < count; i++) {
		CUcontext context = new_context();

		launch(work_of_current(), NULL);
		MUST(cuCtxSynchronize());
		MUST(cuCtxDestroy(context));
	}
}

static void together(int count)
{
	CUcontext context[256];
	CUfunction function[256];

	for (int i = 0; i < count; i++) {
		context[i] = new_context();
		function[i] = work_of_current();
	}
	for (int i = 0; i < 2 * count; i++) {
		MUST(cuCtxSetCurrent(context[i % count]));
		launch(function[i % count], NULL);
		MUST(cuCtxSynchronize());
	}
}

static atomic_bool all_launched;

static void wait_for_launches(void *unused)
{
	(void)unused;
	while (!all_launched)
		usleep(1000);
}

static void flood(int count)
{
	CUfunction function = (new_context(), work_of_current());

	MUST(cuLaunchHostFunc(NULL, wait_for_launches, NULL));
	for (int i = 0; i < count; i++)
		launch(function, NULL);
	all_launched = true;
	while (cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY)
		usleep(1000);
	for (int i = 0; i < 10; i++)
		launch(function, NULL);
	MUST(cuCtxSynchronize());
}

static void streams(int count)
{
	CUfunction function = (new_context(), work_of_current());

	for (int i = 0; i < count; i++) {
		CUstream stream;

		MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		launch(function, stream);
		MUST(cuStreamDestroy(stream));
	}
	MUST(cuCtxSynchronize());
}

static void abandoned(void)
{
	for (int i = 0; i < 4; i++) {
		CUcontext first = new_context();

		launch(work_of_current(), NULL);
		new_context();
		launch(work_of_current(), NULL);
		MUST(cuCtxDestroy(first));
		MUST(cuCtxSynchronize());
	}
}

static void capture(void)
{
	CUfunction function = (new_context(), work_of_current());
	CUstream stream, other;
	CUgraph graph;
	size_t nodes;

	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 20; i++)
		launch(function, i % 2 ? stream : other);
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(function, stream);
	launch(function, other);
	launch(function, stream);
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphGetNodes(graph, NULL, &nodes));
	printf("%zu nodes\n", nodes);
	MUST(cuCtxSynchronize());
}

static void green(void)
{
	CUdevResource all;
	CUdevResourceDesc desc;
	CUcontext primary, current;
	CUgreenCtx context;

	MUST(cuDevicePrimaryCtxRetain(&primary, 0));
	MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevResourceGenerateDesc(&desc, &all, 1));
	MUST(cuGreenCtxCreate(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	MUST(cuCtxFromGreenCtx(&current, context));
	for (int i = 0; i < 2; i++) {
		CUfunction function;

		MUST(cuCtxSetCurrent(i ? primary : current));
		function = work_of_current();
		for (int k = 0; k < 5; k++)
			launch(function, NULL);
		MUST(cuCtxSynchronize());
	}
}

static void several(int count)
{
	CUfunction function = (new_context(), work_of_current());

	for (int i = 0; i < count; i++)
		launch(function, NULL);
	MUST(cuCtxSynchronize());
}

static void forked(int count)
{
	pid_t child;
	int status;

	several(count);
	child = fork();
	if (child == 0) {
		MUST(cuInit(0));
		several(count);
		exit(0);
	}
	several(count);
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

static void gaps(int count)
{
	const struct sim_control *sim = dlsym(RTLD_DEFAULT, "cuward_simulated_driver_control");
	CUfunction function = (new_context(), work_of_current());

	if (!sim)
		exit(1);
	/* Once without: the clocks are tied to each other. */
	launch(function, NULL);
	MUST(cuCtxSynchronize());
	sim->delay(sim->call("cuLaunchKernel"), 8000000);
	sim->delay(sim->call("cuEventRecord"), 7000000);
	for (int i = 0; i < count; i++) {
		launch(function, NULL);
		MUST(cuCtxSynchronize());
	}
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;

	if (argc < 2)
		return 2;
	MUST(cuInit(0));
	if (strcmp(argv[1], "contexts") == 0)
		contexts(count);
	else if (strcmp(argv[1], "together") == 0)
		together(count);
	else if (strcmp(argv[1], "flood") == 0)
		flood(count);
	else if (strcmp(argv[1], "streams") == 0)
		streams(count);
	else if (strcmp(argv[1], "abandoned") == 0)
		abandoned();
	else if (strcmp(argv[1], "capture") == 0)
		capture();
	else if (strcmp(argv[1], "green") == 0)
		green();
	else if (strcmp(argv[1], "forked") == 0)
		forked(count);
	else if (strcmp(argv[1], "gaps") == 0)
		gaps(count);
	else
		return 2;
	return 0;
}
