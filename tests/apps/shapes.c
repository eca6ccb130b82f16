/*
 * shapes.c - live memory over time in one shape or another: shapes SHAPE.
 *
 *	leak       one of four allocations is never freed, under a lot that are
 *	wave_leak  memory comes and goes in waves, and a little of each wave stays
 *	warm_up    much at the beginning, then as much freed as allocated
 *	wave       memory comes and goes in waves; the end is on top of one
 *	cache      a cache that fills ever more slowly, up to its size
 *	pool       a cache that fills steadily over half of the time
 *	weights    allocated one by one, then nothing for a long time
 *	few        three allocations
 *	marks      a little of everything around the marks "begin" and "end"
 *	one_mark   the same with one mark only
 *	wait       allocates; on each line of input allocates again and says so
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward/cuward.h"

#define SIZE 4096

static CUdeviceptr slots[4096];

static void must(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "shapes: error %d\n", result);
	exit(1);
}

/* The one call site that the verdict is about. */
static __attribute__((noinline)) CUdeviceptr take(void)
{
	CUdeviceptr pointer;

	must(cuMemAlloc(&pointer, SIZE));
	return pointer;
}

static __attribute__((noinline)) void work(int times)
{
	CUdeviceptr pointer;

	for (int i = 0; i < times; i++) {
		must(cuMemAlloc(&pointer, 256));
		must(cuMemFree(pointer));
	}
}

static void leak(void)
{
	for (int i = 0; i < 400; i++) {
		CUdeviceptr pointer = take();

		if (i % 4)
			must(cuMemFree(pointer));
		work(2);
	}
}

static void wave(int kept, int waves, int left)
{
	for (int i = 0; i < waves; i++) {
		for (int k = 0; k < 40; k++)
			slots[k] = take();
		for (int k = kept; k < 40; k++)
			must(cuMemFree(slots[k]));
		work(5);
	}
	for (int k = 0; k < left; k++)
		take();
}

static void warm_up(void)
{
	for (int i = 0; i < 60; i++)
		take();
	for (int i = 0; i < 400; i++)
		must(cuMemFree(take()));
}

/* Entry n is found in the cache with growing likelihood; what it holds never gets more than 64. */
static void cache(void)
{
	unsigned long random = 1;

	for (int i = 0; i < 2000; i++) {
		int place;

		random = random * 6364136223846793005ul + 1442695040888963407ul;
		place = (int)(random >> 33) % 64;
		if (!slots[place])
			slots[place] = take();
		work(1);
	}
}

static void pool(void)
{
	for (int i = 0; i < 1000; i++) {
		int place = i / 5 % 100;

		if (i % 5 == 0 && slots[place])
			must(cuMemFree(slots[place]));
		if (i % 5 == 0)
			slots[place] = take();
		work(1);
	}
}

static void weights(void)
{
	for (int i = 0; i < 200; i++) {
		take();
		usleep(1000);
	}
	usleep(1800000);
}

static __attribute__((noinline)) CUdeviceptr take_between(void)
{
	CUdeviceptr pointer;

	must(cuMemAlloc(&pointer, 2 * SIZE));
	return pointer;
}

static void mark(const char *name)
{
	if (cuward_mark)
		must(cuward_mark(name) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
}

static void marks(int second)
{
	CUdeviceptr late[3];

	for (int i = 0; i < 7; i++)
		take(); /* before: not between the marks */
	mark("begin");
	for (int i = 0; i < 50; i++)
		must(cuMemFree(take())); /* balanced */
	for (int i = 0; i < 3; i++)
		late[i] = take_between();
	for (int i = 0; i < 2; i++)
		take_between();
	if (second)
		mark("end");
	for (int i = 0; i < 3; i++)
		must(cuMemFree(late[i])); /* live at the mark all the same */
	for (int i = 0; i < 9; i++)
		take(); /* behind the last mark */
}

static void wait_for_lines(void)
{
	char line[64];

	do {
		take();
		printf("took\n");
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "";
	CUcontext context;

	must(cuInit(0));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
	if (!strcmp(shape, "leak"))
		leak();
	else if (!strcmp(shape, "wave_leak"))
		wave(1, 30, 0);
	else if (!strcmp(shape, "wave"))
		wave(0, 30, 30);
	else if (!strcmp(shape, "warm_up"))
		warm_up();
	else if (!strcmp(shape, "cache"))
		cache();
	else if (!strcmp(shape, "pool"))
		pool();
	else if (!strcmp(shape, "weights"))
		weights();
	else if (!strcmp(shape, "few"))
		wave(0, 0, 3);
	else if (!strcmp(shape, "wait"))
		wait_for_lines();
	else
		marks(strcmp(shape, "marks") == 0);
	return 0;
}
