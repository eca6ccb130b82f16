/*
 * births.c - what the driver takes for new contexts and modules that are gone again before it is known:
 * `births ROUNDS`. By then the record that was theirs is that of memory, which must not change its size.
 *
 * Give cuMemGetInfo a delay behind what it does, and cuCtxGetCurrent one before.
 */
#include <cuda.h>

#include <pthread.h>
#include <sched.h>

#include "../apps/check.h"
#include "seen.h"

static CUcontext primary, doomed;
static pthread_barrier_t barrier;
static bool stop;
static uint64_t turns; /* of the other thread */
static int wrong;

static void is(const char *when, const char *what, int64_t ours, int64_t theirs)
{
	if (ours == theirs)
		return;
	fprintf(stderr, "%s: %s: %lld instead of %lld\n", when, what, (long long)ours, (long long)theirs);
	wrong++;
}

/* Counters, records and what is charged, while the other thread makes no call that changes them. */
static void compare(const char *when)
{
	int64_t recorded[KIND_COUNT] = { 0 };
	struct seen ours, theirs;

	seen_read(&ours);
	seen_truth(&theirs);
	for (uint32_t i = 0; i < seen_header->record_count; i++) {
		const struct ledger_record *record = &seen_records[i];

		if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == RECORD_LIVE &&
			record->class != CLASS_OBJECT)
			recorded[record->kind] += (int64_t)__atomic_load_n(&record->bytes, __ATOMIC_RELAXED);
	}
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		is(when, seen_kinds[kind], ours.bytes[kind], theirs.bytes[kind]);
		is(when, "records", recorded[kind], theirs.bytes[kind]);
	}
	is(when, "charged", (int64_t)ours.used[0], (int64_t)theirs.used[0]);
}

/* Told as overhead, to the MiB: requests under way blur it. */
static void compare_overhead(const char *when, int64_t mib)
{
	int64_t bytes = __atomic_load_n(&seen_header->devices[0].overhead_bytes, __ATOMIC_RELAXED);

	is(when, "MiB of overhead", (bytes + (int64_t)MiB / 2) / (int64_t)MiB, mib);
}

/* ---- retained, never current on any thread, and released; the next that is current is none we saw made ---- */

static void never_current(void)
{
	CUmemAllocationProp here = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemGenericAllocationHandle memory;
	CUdevResource all;
	CUdevResourceDesc half;
	CUgreenCtx green;
	CUcontext face;

	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemCreate(&memory, 2 * MiB, &here, 0));
	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&half, &all, 1));
	OK(cuGreenCtxCreate(&green, half, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuCtxFromGreenCtx(&face, green));
	OK(cuCtxSetCurrent(face));
	compare("never current");
	OK(cuMemRelease(memory));
	compare("never current, freed");
	OK(cuCtxSetCurrent(NULL));
	OK(cuGreenCtxDestroy(green));
	compare_overhead("never current", 0);
}

/* ---- the measure of one thread's context is taken by another, which is not done when it is gone ---- */

static void *measure(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		OK(cuCtxSetCurrent(primary));
		__atomic_add_fetch(&turns, 1, __ATOMIC_RELEASE);
	}
	return unused;
}

/* Whatever it was at is over. */
static void let_it_turn(void)
{
	uint64_t before = __atomic_load_n(&turns, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&turns, __ATOMIC_ACQUIRE) < before + 2)
		sched_yield();
}

static void measured_by_another(int rounds)
{
	pthread_t thread;
	CUcontext context;
	CUdeviceptr memory;

	pthread_create(&thread, NULL, measure, NULL);
	for (int i = 0; i < rounds && !wrong; i++) {
		OK(cuCtxCreate_v2(&context, 0, 0));
		OK(cuCtxDestroy_v2(context));
		OK(cuCtxSetCurrent(primary));
		OK(cuMemAlloc_v2(&memory, 1000));
		let_it_turn();
		compare("measured by another");
		OK(cuMemFree_v2(memory));
		compare("measured by another, freed");
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	compare_overhead("measured by another", 16);
}

/* ---- a module goes with its context while the thread that loads it asks what it took ---- */

static void *load(void *unused)
{
	static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
		".visible .entry nothing() { ret; }\n";
	CUmodule module;

	OK(cuCtxSetCurrent(doomed));
	pthread_barrier_wait(&barrier);
	OK(cuModuleLoadData(&module, ptx));
	return unused;
}

static void swept_while_loaded(int rounds)
{
	int asked = sim->call("cuMemGetInfo_v2");
	CUdeviceptr memory[4];
	pthread_t thread;
	uint64_t before;

	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < rounds && !wrong; i++) {
		OK(cuCtxCreate_v2(&doomed, 0, 0));
		before = sim->count(asked);
		pthread_create(&thread, NULL, load, NULL);
		pthread_barrier_wait(&barrier);
		while (sim->count(asked) < before + 2) /* before the call, and behind it */
			sched_yield();
		OK(cuCtxDestroy_v2(doomed));
		OK(cuCtxSetCurrent(primary));
		for (int n = 0; n < 4; n++)
			OK(cuMemAlloc_v2(&memory[n], 1000));
		pthread_join(thread, NULL);
		compare("swept");
		for (int n = 0; n < 4; n++)
			OK(cuMemFree_v2(memory[n]));
		compare("swept, freed");
	}
	compare_overhead("swept", 16);
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0;

	if (rounds < 1 || cuInit(0))
		return 2;
	seen_open();
	never_current();
	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	compare_overhead("primary", 16);
	measured_by_another(rounds);
	swept_while_loaded(rounds);
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
