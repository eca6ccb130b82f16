/*
 * sim_stream.c - simulated time: kernels of 20 ms, events, waiting, callbacks in order.
 */
#include "sim_check.h"

#include <time.h>
#include <unistd.h>

static CUfunction slow, quick;

static double ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void launch(CUfunction function, CUstream stream)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void kernels_take_time(CUstream a, CUstream b)
{
	CUevent start, end;
	double before = ms();
	float elapsed;

	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	SAME(cuEventElapsedTime(&elapsed, start, end), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventRecord(start, a));
	launch(slow, a);
	launch(slow, b); /* at the same time */
	OK(cuEventRecord(end, a));
	SAME(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	SAME(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	SAME(cuEventElapsedTime(&elapsed, start, end), CUDA_ERROR_NOT_READY);
	TRUE(ms() - before < 15);
	OK(cuStreamSynchronize(a));
	OK(cuStreamSynchronize(b));
	TRUE(ms() - before >= 20);
	TRUE(ms() - before < 39);
	OK(cuEventElapsedTime(&elapsed, start, end));
	TRUE(elapsed >= 20 && elapsed < 22);
	OK(cuStreamQuery(a));
}

/* b waits for an event in a; the legacy stream waits for blocking streams, not for others. */
static void order(CUstream a, CUstream b)
{
	CUstream apart;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
	launch(slow, a);
	OK(cuEventRecord(event, a));
	OK(cuStreamQuery(b));
	OK(cuStreamWaitEvent(b, event, 0));
	SAME(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	SAME(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	OK(cuStreamQuery(apart));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamQuery(a));
	launch(slow, NULL);
	launch(quick, a);
	SAME(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	OK(cuStreamQuery(apart));
	OK(cuCtxSynchronize());
	OK(cuStreamQuery(a));
	OK(cuStreamDestroy_v2(apart));
	SAME(cuStreamDestroy_v2(apart), CUDA_ERROR_INVALID_HANDLE);
}

static int steps[4], step;

static void note(void *number)
{
	steps[step] = (int)(intptr_t)number;
	__atomic_fetch_add(&step, 1, __ATOMIC_SEQ_CST);
}

static void noted(CUstream stream, CUresult status, void *number)
{
	(void)stream;
	SAME(status, CUDA_SUCCESS);
	note(number);
}

static void callbacks(CUstream a)
{
	launch(slow, a);
	OK(cuLaunchHostFunc(a, note, (void *)1));
	OK(cuStreamAddCallback(a, noted, (void *)2, 0));
	OK(cuLaunchHostFunc(a, note, (void *)3));
	SAME(__atomic_load_n(&step, __ATOMIC_SEQ_CST), 0);
	OK(cuStreamSynchronize(a));
	SAME(__atomic_load_n(&step, __ATOMIC_SEQ_CST), 3);
	SAME(steps[0], 1);
	SAME(steps[1], 2);
	SAME(steps[2], 3);
}

/* The twin's default stream is the thread's own: it is not the legacy one. */
static void twins(void)
{
	CUcontext context;

	OK(cuLaunchKernel_ptsz(slow, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	SAME(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
	SAME(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	OK(cuStreamGetCtx_ptsz(NULL, &context));
	OK(cuStreamSynchronize_ptsz(NULL));
	OK(cuStreamQuery(CU_STREAM_PER_THREAD));
}

static void never(CUfunction endless)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch(endless, stream);
	launch(quick, stream);
	usleep(1000);
	SAME(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
}

/* Two in the queue; the third launch waits until it is empty. A capture queues nothing. */
static void queue(CUstream a, CUfunction endless)
{
	CUstream stream;
	CUgraph graph;
	double before;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch(endless, stream);
	launch(endless, stream);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(slow, stream);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
	before = ms();
	for (int i = 0; i < 5; i++)
		launch(slow, a);
	TRUE(ms() - before >= 80);
	OK(cuStreamSynchronize(a));
	TRUE(ms() - before >= 100);
}

static void shapes(void)
{
	SAME(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
	SAME(cuLaunchKernel(quick, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	SAME(cuLaunchKernel(quick, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	SAME(cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	SAME(cuLaunchKernel(quick, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x1234, NULL, NULL),
		CUDA_ERROR_INVALID_HANDLE);
}

/*
 * Needs CUWARD_SIM_KERNEL_NS=slow=20000000,endless=never; with CUWARD_SIM_QUEUE=2 and an argument it tries
 * that alone.
 */
int main(int argc, char **argv)
{
	CUfunction endless;
	CUmodule module;
	CUstream a, b;

	check_start();
	OK(cuModuleLoadData(&module,
		".version 7.0\n.entry slow() {}\n.entry quick() {}\n.entry endless() {}\n"));
	OK(cuModuleGetFunction(&slow, module, "slow"));
	OK(cuModuleGetFunction(&quick, module, "quick"));
	OK(cuModuleGetFunction(&endless, module, "endless"));
	OK(cuStreamCreate(&a, 0));
	OK(cuStreamCreate(&b, 0));
	(void)argv;
	if (argc > 1) {
		queue(a, endless);
		return 0;
	}
	shapes();
	kernels_take_time(a, b);
	order(a, b);
	callbacks(a);
	twins();
	never(endless);
	return 0;
}
