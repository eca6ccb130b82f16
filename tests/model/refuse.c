/*
 * refuse.c - every call that takes memory, asked for twice the limit: it answers "out of memory", the
 * program's variables are as they were, and the driver was not asked. `refuse ROWS`, under
 * CUWARD_MEMORY=64M and CUWARD_PINNED=64M: each row of ROWS (rows.tsv) that is charged, by itself or as memory of
 * a graph, must be here.
 */
#include <cuda.h>
#include <cudaProfiler.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seen.h"

#define LIMIT (64ull << 20)
#define TWICE (2 * LIMIT)
#define POISON 0x5a5a5a5a5a5a5a5aull

static struct out {
	uint64_t one, two;
} out;

static CUdeviceptr *const pointer = (CUdeviceptr *)&out.one;
static CUdeviceptr_v1 *const pointer_v1 = (CUdeviceptr_v1 *)&out.one;
static CUstream stream;
static CUmemoryPool pool;
static CUgraph graph;
static CUmemPoolProps on_device = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static const CUmemAllocationProp physical = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static void *pages;
static const CUDA_ARRAY_DESCRIPTOR flat = { 8192, 4096, CU_AD_FORMAT_FLOAT, 1 };
static const CUDA_ARRAY_DESCRIPTOR_v1 flat_v1 = { 8192, 4096, CU_AD_FORMAT_FLOAT, 1 };
static const CUDA_ARRAY3D_DESCRIPTOR solid = { 8192, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
static const CUDA_ARRAY3D_DESCRIPTOR_v1 solid_v1 = { 8192, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0 };

#define ROW(name, ...) \
	static CUresult ask_##name(void) \
	{ \
		return name(__VA_ARGS__); \
	}
#define ROWS(X) \
	X(cuMemAlloc, pointer_v1, TWICE) \
	X(cuMemAlloc_v2, pointer, TWICE) \
	X(cuMemAllocPitch, pointer_v1, (unsigned *)&out.two, 16384, 8192, 4) \
	X(cuMemAllocPitch_v2, pointer, &out.two, 16384, 8192, 4) \
	X(cuMemAllocManaged, pointer, TWICE, CU_MEM_ATTACH_GLOBAL) \
	X(cuMemAllocAsync, pointer, TWICE, stream) \
	X(cuMemAllocAsync_ptsz, pointer, TWICE, stream) \
	X(cuMemAllocFromPoolAsync, pointer, TWICE, pool, stream) \
	X(cuMemAllocFromPoolAsync_ptsz, pointer, TWICE, pool, stream) \
	X(cuMemCreate, (CUmemGenericAllocationHandle *)&out.one, TWICE, &physical, 0) \
	X(cuArrayCreate, (CUarray *)&out.one, &flat_v1) \
	X(cuArrayCreate_v2, (CUarray *)&out.one, &flat) \
	X(cuArray3DCreate, (CUarray *)&out.one, &solid_v1) \
	X(cuArray3DCreate_v2, (CUarray *)&out.one, &solid) \
	X(cuMipmappedArrayCreate, (CUmipmappedArray *)&out.one, &solid, 1) \
	X(cuMemAllocHost, (void **)&out.one, TWICE) \
	X(cuMemAllocHost_v2, (void **)&out.one, TWICE) \
	X(cuMemHostAlloc, (void **)&out.one, TWICE, 0) \
	X(cuMemHostRegister, pages, TWICE, 0) \
	X(cuMemHostRegister_v2, pages, TWICE, 0)
ROWS(ROW)

/* ---- graphs: their parameters are in and out ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS alloc;
static CUgraphNodeParams any;

static CUresult ask_cuGraphAddMemAllocNode(void)
{
	return cuGraphAddMemAllocNode((CUgraphNode *)&out.one, graph, NULL, 0, &alloc);
}

static CUresult ask_cuGraphAddNode(void)
{
	return cuGraphAddNode((CUgraphNode *)&out.one, graph, NULL, 0, &any);
}

static CUresult ask_cuGraphAddNode_v2(void)
{
	return cuGraphAddNode_v2((CUgraphNode *)&out.one, graph, NULL, NULL, 0, &any);
}

/* An executable of a graph that wants more than there is; of one that is uploaded at once. */
static CUgraph large;
static CUgraphExec exec;
static CUDA_GRAPH_INSTANTIATE_PARAMS upload = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };

ROW(cuGraphLaunch, exec, stream)
ROW(cuGraphLaunch_ptsz, exec, stream)
ROW(cuGraphUpload, exec, stream)
ROW(cuGraphUpload_ptsz, exec, stream)
ROW(cuGraphInstantiateWithParams, (CUgraphExec *)&out.one, large, &upload)
ROW(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *)&out.one, large, &upload)

static const struct {
	const char *name;
	CUresult (*ask)(void);
} table[] = {
#define NAME(name, ...) { #name, ask_##name },
	ROWS(NAME) NAME(cuGraphAddMemAllocNode) NAME(cuGraphAddNode) NAME(cuGraphAddNode_v2)
	NAME(cuGraphLaunch) NAME(cuGraphLaunch_ptsz) NAME(cuGraphUpload) NAME(cuGraphUpload_ptsz)
	NAME(cuGraphInstantiateWithParams) NAME(cuGraphInstantiateWithParams_ptsz)
};

/* These make an executable of such a graph, and take nothing for it before it is launched. */
ROW(cuGraphInstantiate, (CUgraphExec *)&out.one, large, NULL, NULL, 0)
ROW(cuGraphInstantiate_v2, (CUgraphExec *)&out.one, large, NULL, NULL, 0)
ROW(cuGraphInstantiateWithFlags, (CUgraphExec *)&out.one, large, 0)

static const struct {
	const char *name;
	CUresult (*ask)(void);
} later[] = {
	NAME(cuGraphInstantiate) NAME(cuGraphInstantiate_v2) NAME(cuGraphInstantiateWithFlags)
};
#define LATER (sizeof(later) / sizeof(later[0]))

#define COUNT (sizeof(table) / sizeof(table[0]))

static unsigned wrong;

static void check(bool holds, const char *name, const char *what)
{
	if (holds)
		return;
	printf("%s: %s\n", name, what);
	wrong++;
}

/* Those of a device, and those of a kind that is on none. */
static uint64_t refusals(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LEDGER_DENIALS_MAX; i++)
		sum += seen_header->denials[i].count;
	return sum;
}

static void refused(const char *name, CUresult (*ask)(void), bool asked)
{
	int number = sim->call(name);
	uint64_t reached = sim->thread_count(number);
	struct seen before, after, truth_before, truth;
	uint64_t before_all = refusals();

	out = (struct out){ POISON, POISON };
	alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){ .poolProps = on_device, .bytesize = TWICE };
	any = (CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = { .poolProps = on_device, .bytesize = TWICE } };
	seen_read(&before);
	seen_truth(&truth_before);
	check(ask() == CUDA_ERROR_OUT_OF_MEMORY, name, "another answer than out of memory");
	seen_read(&after);
	seen_truth(&truth);
	check(out.one == POISON && out.two == POISON, name, "it wrote to the program's variables");
	check(asked || sim->thread_count(number) == reached, name, "the driver was asked");
	check(!memcmp(&truth, &truth_before, sizeof(truth)), name, "the driver gave something");
	check(refusals() == before_all + 1, name, "not counted as one refusal");
	check(after.denied == before.denied + !strstr(name, "Host"), name, "not counted as one of its device");
	after.denied = before.denied;
	check(!memcmp(&after, &before, sizeof(after)), name, "it is in the ledger");
}

/* Each node fits, all together are twice what there is. */
static void make_large(void)
{
	CUgraphNode node;

	check(!cuGraphCreate(&large, 0), "graph", "none");
	for (int i = 0; i < 4; i++) {
		alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){ .poolProps = on_device, .bytesize = LIMIT / 2 };
		check(!cuGraphAddMemAllocNode(&node, large, NULL, 0, &alloc), "graph", "a node that fits");
	}
	check(!cuGraphInstantiateWithFlags(&exec, large, 0), "graph", "no executable");
}

static void harmless(const char *name, CUresult (*ask)(void))
{
	struct seen truth_before, truth;

	seen_truth(&truth_before);
	out.one = 0;
	check(ask() == CUDA_SUCCESS && out.one, name, "no executable");
	check(!cuGraphExecDestroy((CUgraphExec)out.one), name, "it cannot be destroyed");
	seen_truth(&truth);
	check(!memcmp(&truth, &truth_before, sizeof(truth)), name, "it took something");
}

static void captured(void)
{
	int number = sim->call("cuMemAllocAsync");
	uint64_t reached = sim->thread_count(number);
	CUgraph made = NULL;
	size_t nodes = 1;

	out.one = POISON;
	check(!cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "capture", "no begin");
	check(cuMemAllocAsync(pointer, TWICE, stream) == CUDA_ERROR_OUT_OF_MEMORY, "capture", "allowed");
	check(sim->thread_count(number) == reached, "capture", "the driver was asked");
	check(!cuStreamEndCapture(stream, &made), "capture", "the capture is spoilt");
	check(!cuGraphGetNodes(made, NULL, &nodes) && nodes == 0, "capture", "a node was made");
	check(out.one == POISON, "capture", "it wrote to the program's variables");
}

/* Rows of a quota that takes memory: those are refused, or harmless for the reason that stands there. */
static bool takes(const char *quota)
{
	return !strncmp(quota, "charge", 6) || !strncmp(quota, "graph-mem:declare\t", 18) ||
		!strncmp(quota, "graph-mem:charge", 16);
}

static bool is_here(const char *name)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (!strcmp(table[i].name, name))
			return true;
	for (unsigned i = 0; i < LATER; i++)
		if (!strcmp(later[i].name, name))
			return true;
	return false;
}

static void check_rows(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512];
	unsigned charged = 0;

	while (file && fgets(line, sizeof(line), file)) {
		char *quota = strchr(line, '\t');

		if (*line == '#' || !quota || !takes(quota + 1))
			continue;
		*quota = 0;
		check(is_here(line), line, "is charged and was not asked");
		charged++;
	}
	check(charged == COUNT + LATER, path, "fewer rows than are asked here");
}

int main(int argc, char **argv)
{
	CUcontext context;

	if (argc != 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
		cuCtxSetCurrent(context) || cuStreamCreate(&stream, 0) ||
		cuMemPoolCreate(&pool, &on_device) || cuGraphCreate(&graph, 0))
		return 2;
	pages = aligned_alloc(4096, TWICE);
	seen_open();
	sim->call("cuInit"); /* from now on calls are counted */
	make_large();
	for (unsigned i = 0; i < COUNT; i++)
		refused(table[i].name, table[i].ask, false);
	for (unsigned i = 0; i < LATER; i++)
		harmless(later[i].name, later[i].ask);
	captured();
	check_rows(argv[1]);
	check(!cuMemAlloc_v2(pointer, LIMIT), "cuMemAlloc_v2", "what fits is refused afterwards");
	printf("%zu calls refused, %u wrong\n", COUNT, wrong);
	return wrong != 0;
}
