/*
 * graph_memory.c - what graphs declare, and what the driver reserves for them.
 */
#include "graph_memory.h"

#include "grant.h"
#include "quota.h"
#include "share.h"

/* The driver takes memory for graphs in blocks (simulated driver; assumed of others). */
#define BLOCK (2ull << 20)

/*
 * Of the record of an executable graph, in `mappings`. `context` is guest.graph_frees as it was at
 * its last launch.
 */
enum {
	EXEC_AUTO_FREE = 1,
	EXEC_LAUNCHED = 2,
	EXEC_KEEPS = 4, /* no node of it frees anything */
};
#define EXEC_HOLDS_ALL (EXEC_AUTO_FREE | EXEC_LAUNCHED | EXEC_KEEPS)

CUresult graph_memory_node(int device, uint64_t bytes)
{
	return grant_would_fit(device, bytes);
}

void graph_memory_made(void)
{
	__atomic_fetch_add(&guest.graph_allocations, 1, __ATOMIC_RELAXED);
}

/* ---- what a graph declares ---- */

struct declared {
	uint64_t bytes;
	int device; /* -1 none yet, -2 several */
	bool frees;
};

static void declare(struct declared *sum, const CUDA_MEM_ALLOC_NODE_PARAMS *alloc)
{
	int device = alloc->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
		guest_device_index(alloc->poolProps.location.id) : -1;

	if (device < 0)
		return;
	sum->bytes += (alloc->bytesize + BLOCK - 1) & ~(BLOCK - 1);
	sum->device = sum->device == -1 || sum->device == device ? device : -2;
}

static void walk(struct declared *sum, CUgraph graph, int depth);

static void look_at(struct declared *sum, CUgraphNode node, int depth)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };
	CUgraphNodeType type;
	CUgraph child;

	if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return;
	sum->frees |= type == CU_GRAPH_NODE_TYPE_MEM_FREE;
	if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	    real.cuGraphMemAllocNodeGetParams(node, &alloc) == CUDA_SUCCESS)
		declare(sum, &alloc);
	else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
	         real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
		walk(sum, child, depth + 1);
}

static void walk(struct declared *sum, CUgraph graph, int depth)
{
	CUgraphNode *nodes;
	size_t count = 0, room;

	if (depth > 16 || real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
		return;
	room = count * sizeof(*nodes);
	nodes = share_private(room);
	if (!nodes)
		return;
	if (real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
		for (size_t i = 0; i < count && i < room / sizeof(*nodes); i++)
			look_at(sum, nodes[i], depth);
	}
	share_private_done(nodes, room);
}

static uint32_t exec_record(CUgraphExec exec)
{
	return guest.header ? index_lookup(CLASS_OBJECT, grant_object_key(OBJECT_GRAPH_EXEC,
		(uint64_t)exec)) : LEDGER_NO_RECORD;
}

void graph_memory_instantiated(CUgraphExec exec, CUgraph graph, bool auto_free)
{
	uint32_t record = graph_memory_possible() ? exec_record(exec) : LEDGER_NO_RECORD;
	struct declared sum = { .device = -1 };

	if (record == LEDGER_NO_RECORD)
		return;
	walk(&sum, graph, 0);
	__atomic_store_n(&ledger_record(record)->bytes, sum.bytes, __ATOMIC_RELAXED);
	ledger_record(record)->device = sum.device >= 0 ? sum.device : UINT8_MAX;
	ledger_record(record)->mappings = (auto_free ? EXEC_AUTO_FREE : 0) |
		(sum.frees ? 0 : EXEC_KEEPS);
}

/* ---- what the driver keeps ---- */

static bool ask(int device, CUgraphMem_attribute what, uint64_t *bytes)
{
	cuuint64_t value = 0;

	if (__atomic_load_n(&guest.captures, __ATOMIC_RELAXED) ||
	    real.cuDeviceGetGraphMemAttribute(guest.devices[device].handle, what, &value) != CUDA_SUCCESS)
		return false;
	*bytes = value;
	return true;
}

/* Charged so far; `reserved` more were taken for a launch that is over now. */
static void settle(int device, uint64_t reserved)
{
	uint64_t bytes, now;

	if (!ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes)) {
		bytes = grant_held(CLASS_GRAPH, device) + reserved;
		grant_hold(KIND_GRAPH, CLASS_GRAPH, device, device, bytes, reserved);
		return;
	}
	grant_hold(KIND_GRAPH, CLASS_GRAPH, device, device, bytes, reserved);
	/* Another thread may have asked after us and be done before: nothing old stays. */
	while (ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) && now != bytes) {
		bytes = now;
		grant_hold(KIND_GRAPH, CLASS_GRAPH, device, device, bytes, 0);
	}
}

void graph_memory_look(int device)
{
	if (device >= 0 && graph_memory_possible())
		settle(device, 0);
}

void graph_memory_look_everywhere(void)
{
	for (uint32_t i = 0; i < guest.device_count; i++)
		graph_memory_look(i);
}

/* How much more than it has would the device need? */
static uint64_t needed(int device, const struct ledger_record *exec)
{
	uint64_t kept = 0, used = 0;

	/*
	 * Its own memory of the last launch is given up first. What its nodes or others freed since
	 * may have been trimmed: then it must be had again.
	 */
	if (exec->mappings == EXEC_HOLDS_ALL &&
	    exec->context == __atomic_load_n(&guest.graph_frees, __ATOMIC_ACQUIRE))
		return 0;
	if (!ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &kept) ||
	    !ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) || kept < used)
		return exec->bytes;
	return exec->bytes > kept - used ? exec->bytes - (kept - used) : 0;
}

CUresult graph_memory_open(struct graph_use *use, CUgraphExec exec)
{
	const struct ledger_record *record;
	CUresult result = CUDA_SUCCESS;

	*use = (struct graph_use){ .exec = exec_record(exec), .device = -1 };
	if (graph_memory_possible() && use->exec != LEDGER_NO_RECORD &&
	    !(ledger_record(use->exec)->mappings & EXEC_KEEPS))
		graph_memory_freed();
	use->frees = __atomic_load_n(&guest.graph_frees, __ATOMIC_ACQUIRE);
	if (use->exec == LEDGER_NO_RECORD || ledger_record(use->exec)->bytes == 0) {
		use->exec = LEDGER_NO_RECORD;
		return CUDA_SUCCESS;
	}
	record = ledger_record(use->exec);
	if (record->device < guest.device_count) {
		use->device = record->device;
		use->reserved = needed(use->device, record);
		return grant_reserve(use->device, use->reserved);
	}
	/* On several devices: which needs how much is not kept; none may lack room for all. */
	for (uint32_t i = 0; i < guest.device_count && result == CUDA_SUCCESS; i++)
		result = grant_would_fit(i, record->bytes);
	return result;
}

CUresult graph_memory_close(const struct graph_use *use, CUresult result, bool launched)
{
	if (use->exec == LEDGER_NO_RECORD)
		return result;
	if (launched && result == CUDA_SUCCESS) {
		ledger_record(use->exec)->mappings |= EXEC_LAUNCHED;
		ledger_record(use->exec)->context = use->frees;
	}
	if (use->device >= 0) {
		settle(use->device, use->reserved);
		return result;
	}
	for (uint32_t i = 0; i < guest.device_count; i++)
		settle(i, 0);
	return result;
}
