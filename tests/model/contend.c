/*
 * contend.c - threads that take and give back memory of every charged family as fast as they can:
 * `contend THREADS GRANTS tight|roomy|graphs`, under a limit for device 0.
 *
 * tight: together they want more than there is. Whatever is refused, the driver never gave more than
 * the limit at any moment. roomy: each keeps within its share, and nothing at all is refused. graphs:
 * tight, and between that each launches a graph with memory of its own, frees some of it and trims.
 */
#include <cuda.h>
#include <cudaProfiler.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

#define HELD 8
#define THREADS_MAX 64

enum way { DEVICE, ASYNC, PHYSICAL, MANAGED, ARRAY, PITCH, WAYS };

/* Memory of a graph: what a launch leaves behind, and what is freed in the graph itself. */
#define KEPT (4ull << 20)
#define PASSING (6ull << 20)

struct held {
	uint64_t handle;
	enum way way;
	size_t bytes;
};

static CUcontext context;
static uint64_t limit, wanted;
static int threads;
static bool tight, graphs;
static uint64_t granted, refused, odd;

static const CUmemAllocationProp physical = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

static CUresult take(struct held *held, CUstream stream)
{
	CUDA_ARRAY_DESCRIPTOR shape = { held->bytes / 4, 1, CU_AD_FORMAT_FLOAT, 1 };
	size_t pitch;

	switch (held->way) {
	case ASYNC:
		return cuMemAllocAsync((CUdeviceptr *)&held->handle, held->bytes, stream);
	case PHYSICAL:
		held->bytes = 2 << 20;
		return cuMemCreate((CUmemGenericAllocationHandle *)&held->handle, held->bytes, &physical, 0);
	case MANAGED:
		return cuMemAllocManaged((CUdeviceptr *)&held->handle, held->bytes, CU_MEM_ATTACH_GLOBAL);
	case ARRAY:
		return cuArrayCreate_v2((CUarray *)&held->handle, &shape);
	case PITCH:
		held->bytes = 512 * 64;
		return cuMemAllocPitch_v2((CUdeviceptr *)&held->handle, &pitch, 100, 64, 4);
	default:
		return cuMemAlloc_v2((CUdeviceptr *)&held->handle, held->bytes);
	}
}

static CUresult give_back(struct held *held, CUstream stream)
{
	switch (held->way) {
	case ASYNC:
		return cuMemFreeAsync(held->handle, stream);
	case PHYSICAL:
		return cuMemRelease(held->handle);
	case ARRAY:
		return cuArrayDestroy((CUarray)held->handle);
	default:
		return cuMemFree_v2(held->handle);
	}
}

static size_t size_for(uint64_t random)
{
	size_t most = tight ? limit / (uint64_t)threads / 2 : limit / (uint64_t)threads / HELD;

	most = most > 120000 * 4 ? 120000 * 4 : most; /* no array is wider */
	return (4 + random % (most - 4)) & ~3ull;
}

static void one(struct held *held, uint64_t random, CUstream stream)
{
	CUresult result;

	if (held->bytes) {
		if (give_back(held, stream) != CUDA_SUCCESS)
			__atomic_add_fetch(&odd, 1, __ATOMIC_RELAXED);
		held->bytes = 0;
		return;
	}
	held->way = random >> 32 & 15;
	if (held->way >= WAYS)
		held->way = DEVICE;
	held->bytes = size_for(random & 0xffffffff);
	result = take(held, stream);
	if (result == CUDA_SUCCESS) {
		__atomic_add_fetch(&granted, 1, __ATOMIC_RELAXED);
		return;
	}
	held->bytes = 0;
	__atomic_add_fetch(result == CUDA_ERROR_OUT_OF_MEMORY ? &refused : &odd, 1, __ATOMIC_RELAXED);
}

static CUgraphNode alloc_node(CUgraph graph, size_t bytes, CUdeviceptr *address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } }, .bytesize = bytes };
	CUgraphNode node;

	if (cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc) != CUDA_SUCCESS)
		exit(3);
	*address = alloc.dptr;
	return node;
}

static struct own_graph {
	CUgraphExec exec;
	CUdeviceptr kept;
} own_graphs[THREADS_MAX];

static void make_graph(struct own_graph *own)
{
	CUdeviceptr passing;
	CUgraphNode node, last;
	CUgraph graph;

	cuGraphCreate(&graph, 0);
	alloc_node(graph, KEPT, &own->kept);
	node = alloc_node(graph, PASSING, &passing);
	if (cuGraphAddMemFreeNode(&last, graph, &node, 1, passing) != CUDA_SUCCESS ||
		cuGraphInstantiateWithFlags(&own->exec, graph,
			CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
		exit(3);
	cuGraphDestroy(graph);
}

/* Its memory may be freed already; that is an error of this program's. */
static void one_graph(const struct own_graph *own, uint64_t random, CUstream stream)
{
	switch (random % 8) {
	case 0:
		cuMemFree_v2(own->kept);
		break;
	case 1:
		cuDeviceGraphMemTrim(0);
		break;
	default:
		if (cuGraphLaunch(own->exec, stream) == CUDA_SUCCESS)
			__atomic_add_fetch(&granted, 1, __ATOMIC_RELAXED);
		else
			__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
	}
}

static void *work(void *number)
{
	uint64_t random = (uint64_t)number * 2 + 1;
	struct held held[HELD] = { 0 };
	CUstream stream;

	cuCtxSetCurrent(context);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	while (__atomic_load_n(&granted, __ATOMIC_RELAXED) < wanted) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		if (graphs && random >> 58 & 1)
			one_graph(&own_graphs[(long)number], random >> 20, stream);
		else
			one(&held[random >> 60 & (HELD - 1)], random >> 8, stream);
	}
	if (graphs)
		cuGraphExecDestroy(own_graphs[(long)number].exec);
	for (int i = 0; i < HELD; i++)
		if (held[i].bytes)
			one(&held[i], 0, stream);
	cuStreamDestroy(stream);
	return NULL;
}

int main(int argc, char **argv)
{
	const struct sim_truth_usage *usage;
	pthread_t ids[THREADS_MAX];
	struct seen seen;
	uint64_t over;

	threads = argc == 4 ? atoi(argv[1]) : 0;
	if (threads < 1 || threads > THREADS_MAX || cuInit(0) ||
		cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 2;
	wanted = strtoull(argv[2], NULL, 10);
	graphs = !strcmp(argv[3], "graphs");
	tight = graphs || !strcmp(argv[3], "tight");
	seen_open();
	limit = seen_header->devices[0].limit_bytes;
	for (int i = 0; graphs && i < threads; i++)
		make_graph(&own_graphs[i]);
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	usage = &sim->truth()->device[0];
	cuDeviceGraphMemTrim(0);
	over = usage->taken_high > limit ? usage->taken_high - limit : 0;
	seen_read(&seen);
	printf("%llu over the limit, %llu odd answers, %llu left, %s\n", (unsigned long long)over,
		(unsigned long long)odd, (unsigned long long)(seen.used[0] + usage->requested),
		refused ? "some refused" : "none refused");
	fprintf(stderr, "%llu granted, %llu refused, at most %llu of %llu\n",
		(unsigned long long)granted, (unsigned long long)refused,
		(unsigned long long)usage->taken_high, (unsigned long long)limit);
	return over || odd || seen.used[0] || usage->requested;
}
