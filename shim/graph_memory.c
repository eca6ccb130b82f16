/*
 * graph_memory.c - what graphs declare, and what the driver reserves for them.
 */
#include "graph_memory.h"

#include "grant.h"
#include "lock.h"
#include "quota.h"
#include "share.h"

/* The driver takes memory for graphs in blocks (simulated driver; assumed of others). */
#define BLOCK (2ull << 20)

/*
 * Of the record of an executable graph, in `mappings`. `context` is guest.graph_frees as it was at
 * its last launch, `refs` counts the blocks that a launch takes and its own nodes do not free.
 */
enum {
	EXEC_AUTO_FREE = 1,
	EXEC_LAUNCHED = 2,
	EXEC_FREES_OTHERS = 4, /* some node may free what another graph allocated */
};
#define EXEC_HOLDS (EXEC_AUTO_FREE | EXEC_LAUNCHED)

CUresult graph_memory_node(int device, uint64_t bytes)
{
	return grant_would_fit(device, bytes);
}

void graph_memory_made(void)
{
	__atomic_fetch_add(&guest.graph_allocations, 1, __ATOMIC_RELAXED);
}

/* ---- what a graph declares ---- */

/* Of larger graphs it is not known what a launch leaves behind. */
#define NODES_MAX 256u

struct declared {
	uint64_t bytes;
	int device; /* -1 none yet, -2 several */
	unsigned allocs, frees; /* nodes, also those beyond the tables */
	struct {
		CUdeviceptr address;
		uint64_t bytes;
	} alloc[NODES_MAX];
	CUdeviceptr free[NODES_MAX];
};

static void declare(struct declared *sum, const CUDA_MEM_ALLOC_NODE_PARAMS *alloc)
{
	int device = alloc->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
		guest_device_index(alloc->poolProps.location.id) : -1;
	uint64_t bytes = (alloc->bytesize + BLOCK - 1) & ~(BLOCK - 1);

	if (sum->allocs < NODES_MAX) {
		sum->alloc[sum->allocs].address = alloc->dptr;
		sum->alloc[sum->allocs].bytes = device < 0 ? 0 : bytes;
	}
	sum->allocs++;
	if (device < 0)
		return;
	sum->bytes += bytes;
	sum->device = sum->device == -1 || sum->device == device ? device : -2;
}

static void declare_free(struct declared *sum, CUgraphNode node)
{
	CUdeviceptr address = 0;

	if (real.cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS)
		address = 0; /* of somebody */
	if (sum->frees < NODES_MAX)
		sum->free[sum->frees] = address;
	sum->frees++;
}

static void walk(struct declared *sum, CUgraph graph, int depth);

static void look_at(struct declared *sum, CUgraphNode node, int depth)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };
	CUgraphNodeType type;
	CUgraph child;

	if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		declare_free(sum, node);
	else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
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

static void declared(struct declared *sum, CUgraph graph)
{
	sum->bytes = sum->allocs = sum->frees = 0;
	sum->device = -1;
	walk(sum, graph, 0);
}

/* The allocation of the graph at this address, NODES_MAX if it has none. */
static unsigned alloc_at(const struct declared *sum, CUdeviceptr address)
{
	unsigned i;

	for (i = 0; i < sum->allocs && sum->alloc[i].address != address; i++)
		;
	return i < sum->allocs ? i : NODES_MAX;
}

/* What a launch leaves behind: whatever the graph's own nodes do not free. */
static uint64_t kept(const struct declared *sum, bool *frees_others)
{
	uint64_t bytes = sum->bytes;

	*frees_others = sum->frees != 0;
	if (sum->allocs > NODES_MAX || sum->frees > NODES_MAX)
		return sum->frees ? 0 : bytes;
	*frees_others = false;
	for (unsigned i = 0; i < sum->frees; i++) {
		unsigned alloc = alloc_at(sum, sum->free[i]);

		if (alloc == NODES_MAX)
			*frees_others = true;
		else
			bytes -= sum->alloc[alloc].bytes;
	}
	return bytes;
}

void graph_memory_instantiated(CUgraphExec exec, CUgraph graph, bool auto_free)
{
	uint32_t number = exec_record(exec);
	struct ledger_record *record;
	struct declared sum;
	bool frees_others;

	if (number == LEDGER_NO_RECORD)
		return;
	/* Also where no node was seen to allocate: a newer driver may have calls for it. */
	declared(&sum, graph);
	if (sum.bytes && !graph_memory_possible())
		graph_memory_made();
	record = ledger_record(number);
	set_field(&record->bytes, sum.bytes);
	set_field(&record->device, sum.device >= 0 ? sum.device : UINT8_MAX);
	set_field(&record->refs, kept(&sum, &frees_others) / BLOCK);
	set_field(&record->mappings, (auto_free ? EXEC_AUTO_FREE : 0) |
		(frees_others ? EXEC_FREES_OTHERS : 0));
}

/* ---- what the driver keeps, and what launches under way may make of it ---- */

/*
 * Launches of several threads take from the same memory that the driver keeps idle, and whoever trims it
 * meanwhile takes it from all of them. So a device is charged
 *
 *	max(reserved, used + in_flight - own)
 *
 * of what the driver said last, and what the launches let in since then may take beyond. A launch is let
 * in when the limit has room for what it adds to that.
 *
 * The driver is asked without a lock, so answers may arrive in another order than they were given. A
 * look takes its number before it asks, and a younger one's answer stays. That loses nothing: a launch
 * is only forgotten by a look that began after it, and whatever is younger was asked after it, too.
 */

/* Of no launch: what is under way may free anything at any moment, also what is allocated meanwhile. */
#define FREES_UNSURE UINT64_MAX

/* In this order: a free counts as under way first, and then as begun. */
static uint64_t frees_now(void)
{
	uint64_t frees = __atomic_load_n(&guest.graph_frees, __ATOMIC_SEQ_CST);

	return __atomic_load_n(&guest.graph_freeing, __ATOMIC_SEQ_CST) ? FREES_UNSURE : frees;
}

/* With one that is not let in yet, or NULL; at so many frees. */
static uint64_t wanted(const struct guest_graphs *graphs, const struct graph_use *next, uint64_t frees)
{
	uint64_t used = graphs->used + graphs->in_flight + (next ? next->bytes : 0);
	uint64_t own = 0;

	/* What was freed since is in `used` no longer, and may have been trimmed. */
	if (graphs->own_frees == frees)
		own += graphs->own;
	if (next && next->frees == frees)
		own += next->own;
	used = used > own ? used - own : 0;
	return used > graphs->reserved ? used : graphs->reserved;
}

/* Charge what is wanted now; `taken` bytes were taken for it before. The lock is held. */
static void charge(int device, uint64_t taken)
{
	struct guest_graphs *graphs = &guest.graphs[device];
	uint64_t extra = wanted(graphs, NULL, frees_now()) - graphs->reserved;

	grant_hold(KIND_GRAPH, CLASS_GRAPH, device, device, graphs->reserved,
		graphs->extra + taken - extra);
	graphs->extra = extra;
}

static bool ask(int device, CUgraphMem_attribute what, uint64_t *bytes)
{
	cuuint64_t value = 0;

	if (__atomic_load_n(&guest.captures, __ATOMIC_RELAXED) ||
	    real.cuDeviceGetGraphMemAttribute(guest.devices[device].handle, what, &value) != CUDA_SUCCESS)
		return false;
	*bytes = value;
	return true;
}

/* The driver cannot be asked: all that the launch may have taken is there. */
static void assume(struct guest_graphs *graphs, const struct graph_use *over)
{
	graphs->used += over->bytes > over->own ? over->bytes - over->own : 0;
	if (graphs->reserved < graphs->used)
		graphs->reserved = graphs->used;
}

static void launch_over(struct guest_graphs *graphs, const struct graph_use *over)
{
	graphs->in_flight -= over->bytes;
	if (graphs->own_frees == over->frees)
		graphs->own -= over->own < graphs->own ? over->own : graphs->own;
}

/* Ask the driver; a launch is over, NULL: none. */
static void look(int device, const struct graph_use *over)
{
	struct guest_graphs *graphs = &guest.graphs[device];
	uint32_t number = __atomic_add_fetch(&graphs->asked, 1, __ATOMIC_SEQ_CST);
	uint64_t reserved, used;
	/* In this order: a launch between the two reserved what a free before the second took off `used`. */
	bool answered = ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used) &&
		ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved);

	lock_take(&graphs->lock);
	if (over)
		launch_over(graphs, over);
	if (answered && (int32_t)(number - graphs->known) > 0) {
		graphs->known = number;
		graphs->reserved = reserved;
		graphs->used = used;
		/* A launch may have given up its own by then: it is in no sum that could be lowered by it. */
		graphs->own = 0;
	} else if (!answered && over) {
		assume(graphs, over);
	}
	charge(device, 0);
	lock_give_back(&graphs->lock);
	/* The last capture ended meanwhile: who ended it may have looked before this was assumed. */
	if (!answered && over && __atomic_load_n(&guest.captures, __ATOMIC_SEQ_CST) == 0)
		look(device, NULL);
}

void graph_memory_look(int device)
{
	if (device >= 0 && graph_memory_possible())
		look(device, NULL);
}

void graph_memory_look_everywhere(void)
{
	for (uint32_t i = 0; i < guest.device_count; i++)
		graph_memory_look(i);
}

/* The launch may begin; the lock is held. */
static void let_in(int device, const struct graph_use *use, uint64_t taken)
{
	struct guest_graphs *graphs = &guest.graphs[device];

	if (graphs->own_frees != use->frees) {
		graphs->own_frees = use->frees;
		graphs->own = 0;
	}
	graphs->own += use->own;
	graphs->in_flight += use->bytes;
	charge(device, taken);
}

static CUresult open_on(int device, const struct graph_use *use)
{
	struct guest_graphs *graphs = &guest.graphs[device];
	uint64_t taken = 0;

	for (bool looked = false;; looked = true) {
		CUresult result;
		uint64_t more, frees;

		lock_take(&graphs->lock);
		frees = frees_now(); /* the same for both */
		more = wanted(graphs, use, frees) - wanted(graphs, NULL, frees);
		if (more <= taken)
			let_in(device, use, taken);
		lock_give_back(&graphs->lock);
		if (more <= taken)
			return CUDA_SUCCESS;
		if (!looked) {
			look(device, NULL);
			continue;
		}
		result = grant_reserve(device, more - taken);
		if (result != CUDA_SUCCESS) {
			quota_give_back(guest.devices[device].word, taken);
			return result;
		}
		taken = more;
	}
}

/* Not let in on the device behind the last. */
static void undo(const struct graph_use *use, uint32_t last)
{
	while (last-- > use->first)
		look(last, use);
}

/* DEVICE: index of the only one, another number if there are several. */
static CUresult open_all(struct graph_use *use, uint32_t device)
{
	CUresult result = CUDA_SUCCESS;

	/* On several devices: which needs how much is not kept; none may lack room for all. */
	use->end = guest.device_count;
	if (device < guest.device_count) {
		use->first = device;
		use->end = device + 1;
	} else {
		use->own = 0;
	}
	for (uint32_t i = use->first; i < use->end && result == CUDA_SUCCESS; i++) {
		result = open_on(i, use);
		if (result != CUDA_SUCCESS)
			undo(use, i);
	}
	return result;
}

CUresult graph_memory_open_new(struct graph_use *use, CUgraph graph)
{
	struct declared sum;

	declared(&sum, graph);
	if (sum.bytes && !graph_memory_possible())
		graph_memory_made();
	*use = (struct graph_use){ .record = LEDGER_NO_RECORD, .bytes = sum.bytes, .frees = frees_now() };
	return use->bytes ? open_all(use, sum.device) : CUDA_SUCCESS;
}

CUresult graph_memory_open(struct graph_use *use, CUgraphExec exec)
{
	const struct ledger_record *record;
	CUresult result;

	*use = (struct graph_use){ .exec = exec, .record = exec_record(exec) };
	if (!graph_memory_possible() || use->record == LEDGER_NO_RECORD)
		return CUDA_SUCCESS;
	record = ledger_record(use->record);
	use->frees_others = record->mappings & EXEC_FREES_OTHERS;
	if (use->frees_others)
		graph_memory_free_begins();
	use->frees = frees_now();
	use->bytes = record->bytes;
	if (use->bytes == 0)
		return CUDA_SUCCESS;
	/* Its own memory of the last launch is given up first, unless others freed some since. */
	if ((record->mappings & EXEC_HOLDS) == EXEC_HOLDS && use->frees != FREES_UNSURE &&
	    __atomic_load_n(&record->context, __ATOMIC_RELAXED) == use->frees)
		use->own = record->refs * BLOCK;
	result = open_all(use, record->device);
	if (result != CUDA_SUCCESS && use->frees_others)
		graph_memory_free_ends();
	return result;
}

struct launch_note {
	const struct graph_use *use;
	CUresult result;
};

/* Another thread may have destroyed it meanwhile, and its handle be another one's. */
static void note_launch(struct ledger_record *record, void *note)
{
	const struct launch_note *launch = note;
	uint32_t marks = record->mappings & ~EXEC_LAUNCHED;

	if (record != ledger_record(launch->use->record))
		return;
	/* One that failed may have given up its own before. */
	set_field(&record->mappings, launch->result == CUDA_SUCCESS ? marks | EXEC_LAUNCHED : marks);
	set_field(&record->context, launch->use->frees);
}

CUresult graph_memory_close(const struct graph_use *use, CUresult result, bool launched)
{
	if (use->frees_others)
		graph_memory_free_ends();
	if (use->bytes == 0)
		return result;
	if (launched)
		index_change(CLASS_OBJECT, grant_object_key(OBJECT_GRAPH_EXEC, (uint64_t)use->exec), note_launch,
			&(struct launch_note){ use, result });
	for (uint32_t i = use->first; i < use->end; i++)
		look(i, use);
	return result;
}
