/*
 * storm.c - random allocations and frees.
 *
 *	storm kill SEED        four threads at it until SIGKILL comes from within, at a random moment
 *	storm pitch WIDTH...   rows of each width, ten a time; the last by another call than those before
 *	storm context WAY      4096 bytes in the primary context, 8192 in one of its own, then WAY: destroy it,
 *	                       reset or release the primary one
 *	storm known SEED FILE  one thread; what is live at the end is written to FILE as lines of
 *	                       FUNCTION KIND COUNT BYTES; then a random kind of end, whose name is the
 *	                       first line
 */
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define SLOTS 64

static CUcontext context;

static void must(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "storm: error %d\n", result);
	_exit(99);
}

static void start(void)
{
	must(cuInit(0));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
}

static unsigned next(uint64_t *random)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(*random >> 33);
}

/* ---- until killed ---- */

/* A context comes and goes with what is in it. */
static void short_lived(uint64_t *random)
{
	CUdeviceptr pointer;
	CUcontext other;

	must(cuCtxCreate_v4(&other, NULL, 0, 0));
	for (unsigned n = next(random) % 4; n > 0; n--)
		must(cuMemAlloc(&pointer, next(random) % 1000 + 1));
	must(cuCtxDestroy(other));
	must(cuCtxSetCurrent(context));
}

/* Memory of other families, for a moment. */
static void others(uint64_t *random)
{
	CUmemAllocationProp props = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUDA_ARRAY_DESCRIPTOR shape = { .Width = next(random) % 100 + 1, .Height = next(random) % 100,
		.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
	CUmemGenericAllocationHandle physical;
	CUdeviceptr managed;
	CUarray array;

	must(cuArrayCreate(&array, &shape));
	must(cuMemAllocManaged(&managed, next(random) % 10000 + 1, CU_MEM_ATTACH_GLOBAL));
	must(cuMemCreate(&physical, 2 << 20, &props, 0));
	must(cuArrayDestroy(array));
	must(cuMemRelease(physical));
	must(cuMemFree(managed));
}

static void *at_work(void *seed)
{
	uint64_t random = (uint64_t)(uintptr_t)seed;
	CUdeviceptr slots[SLOTS] = { 0 };
	int async[SLOTS] = { 0 };
	size_t pitch;

	must(cuCtxSetCurrent(context));
	for (;;) {
		unsigned i = next(&random) % SLOTS;
		size_t bytes = next(&random) % 100000 + 1;

		if (next(&random) % 50 == 0)
			short_lived(&random);
		if (next(&random) % 20 == 0)
			others(&random);
		if (slots[i] && async[i])
			must(cuMemFreeAsync(slots[i], CU_STREAM_PER_THREAD));
		else if (slots[i])
			must(cuMemFree(slots[i]));
		slots[i] = 0;
		async[i] = next(&random) % 3 == 0;
		if (next(&random) % 8 == 0)
			continue;
		if (async[i])
			must(cuMemAllocAsync(&slots[i], bytes, CU_STREAM_PER_THREAD));
		else if (next(&random) % 3 == 0)
			must(cuMemAllocPitch(&slots[i], &pitch, bytes / 20 + 1, next(&random) % 20 + 1, 4));
		else
			must(cuMemAlloc(&slots[i], bytes));
	}
	return NULL;
}

static void until_killed(uint64_t seed)
{
	struct timespec moment = { 0 };
	pthread_t thread;

	next(&seed);
	moment.tv_nsec = next(&seed) % 20000000;
	start();
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, at_work, (void *)(uintptr_t)(seed + i));
	nanosleep(&moment, NULL);
	kill(getpid(), SIGKILL);
	pause();
}

/* ---- rows ---- */

/* The first ABI, which the header hides. */
extern CUresult take_narrow(unsigned *pointer, unsigned *pitch, unsigned width, unsigned height,
	unsigned element) __asm__("cuMemAllocPitch");

static void in_rows(int count, char **widths)
{
	unsigned narrow, narrow_pitch;
	CUdeviceptr pointer;
	size_t pitch;

	start();
	for (int i = 0; i < count - 1; i++)
		must(take_narrow(&narrow, &narrow_pitch, atoi(widths[i]), 10, 4));
	must(cuMemAllocPitch(&pointer, &pitch, atoi(widths[count - 1]), 10, 4));
}

/* ---- with their context ---- */

static void with_contexts(const char *way)
{
	CUdeviceptr pointer;
	CUcontext other;

	start();
	must(cuMemAlloc(&pointer, 4096));
	must(cuCtxCreate_v4(&other, NULL, 0, 0));
	must(cuMemAlloc(&pointer, 4096));
	must(cuMemAlloc(&pointer, 4096));
	if (write(STDOUT_FILENO, "now\n", 4) != 4)
		exit(2);
	if (!strcmp(way, "destroy"))
		must(cuCtxDestroy(other));
	else if (!strcmp(way, "reset"))
		must(cuDevicePrimaryCtxReset(0));
	else
		must(cuDevicePrimaryCtxRelease(0));
}

/* ---- with known truth ---- */

static struct site {
	const char *name, *kind;
	void *(*take)(size_t bytes);
	void (*give)(void *pointer);
	unsigned long count, bytes;
} sites[];

#define SITE __attribute__((noinline)) static

SITE void *take_device(size_t bytes)
{
	CUdeviceptr pointer;

	must(cuMemAlloc(&pointer, bytes));
	return (void *)pointer;
}

SITE void *take_more(size_t bytes)
{
	CUdeviceptr pointer = 0;

	must(cuMemAlloc(&pointer, bytes * 2));
	return (void *)pointer;
}

SITE void *take_managed(size_t bytes)
{
	CUdeviceptr pointer;

	must(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
	return (void *)pointer;
}

SITE void *take_pinned(size_t bytes)
{
	void *pointer;

	must(cuMemHostAlloc(&pointer, bytes, 0));
	return pointer;
}

SITE void *take_async(size_t bytes)
{
	CUdeviceptr pointer;

	must(cuMemAllocAsync(&pointer, bytes, NULL));
	return (void *)pointer;
}

static void give_device(void *pointer)
{
	must(cuMemFree((CUdeviceptr)pointer));
}

static void give_pinned(void *pointer)
{
	must(cuMemFreeHost(pointer));
}

static void give_async(void *pointer)
{
	must(cuMemFreeAsync((CUdeviceptr)pointer, NULL));
}

static struct site sites[] = {
	{ "take_device", "device", take_device, give_device, 0, 0 },
	{ "take_more", "device", take_more, give_device, 0, 0 },
	{ "take_managed", "managed", take_managed, give_device, 0, 0 },
	{ "take_pinned", "pinned", take_pinned, give_pinned, 0, 0 },
	{ "take_async", "pool", take_async, give_async, 0, 0 },
};

#define SITES (sizeof(sites) / sizeof(sites[0]))

struct slot {
	struct site *site;
	void *pointer;
	size_t bytes;
};

static void change(struct slot *slot, uint64_t *random)
{
	if (slot->site) {
		slot->site->give(slot->pointer);
		slot->site->count--;
		slot->site->bytes -= slot->bytes;
		slot->site = NULL;
		return;
	}
	slot->site = &sites[next(random) % SITES];
	slot->bytes = next(random) % 50000 + 1;
	slot->pointer = slot->site->take(slot->bytes);
	slot->bytes *= slot->site->take == take_more ? 2 : 1;
	slot->site->count++;
	slot->site->bytes += slot->bytes;
}

/* What a context of its own takes along is no leak. */
static void with_context(uint64_t *random)
{
	CUcontext other;

	must(cuCtxCreate_v4(&other, NULL, 0, 0));
	for (unsigned n = next(random) % 4; n > 0; n--)
		take_device(next(random) % 1000 + 1);
	must(cuCtxDestroy(other));
	must(cuCtxSetCurrent(context));
}

static void *exit_here(void *unused)
{
	(void)unused;
	exit(0);
}

static const char *const ends[] = { "return", "exit", "_exit", "thread", "kill", "abort", "quick_exit" };

static void end(const char *how)
{
	pthread_t thread;

	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "quick_exit"))
		quick_exit(0);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "thread") && pthread_create(&thread, NULL, exit_here, NULL) == 0)
		pthread_join(thread, NULL);
}

static void with_known_truth(uint64_t seed, const char *file)
{
	static struct slot slots[SLOTS];
	const char *how;
	FILE *out;

	next(&seed);
	how = ends[next(&seed) % (sizeof(ends) / sizeof(ends[0]))];
	start();
	for (unsigned n = next(&seed) % 2000; n > 0; n--) {
		if (next(&seed) % 200 == 0)
			with_context(&seed);
		change(&slots[next(&seed) % SLOTS], &seed);
	}
	/* Some clean up behind themselves, fully or nearly. */
	if (next(&seed) % 3 == 0)
		for (unsigned i = next(&seed) % 3; i < SLOTS; i++)
			if (slots[i].site)
				change(&slots[i], &seed);
	out = fopen(file, "w");
	fprintf(out, "%s\n", how);
	for (unsigned i = 0; i < SITES; i++)
		if (sites[i].count > 0)
			fprintf(out, "%s %s %lu %lu\n", sites[i].name, sites[i].kind, sites[i].count,
				sites[i].bytes);
	fclose(out);
	end(how);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "kill"))
		until_killed(strtoul(argv[2], NULL, 10));
	else if (!strcmp(argv[1], "pitch"))
		in_rows(argc - 2, argv + 2);
	else if (!strcmp(argv[1], "context"))
		with_contexts(argv[2]);
	else if (argc > 3)
		with_known_truth(strtoul(argv[2], NULL, 10), argv[3]);
	return 0;
}
