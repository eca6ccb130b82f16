/*
 * sim_graph_memory.c - memory that graphs allocate: addresses when the node is made, bytes at
 * launch.
 */
#include "sim_gate.h"
#include "sim_graph.h"
#include "sim_knobs.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the graphs of a device use, and what it keeps for them; by physical index. */
static struct {
	uint64_t used, used_high, reserved, reserved_high;
} pools[SIM_DEVICES];

CUresult graph_reserve(struct node *node, struct device *device, CUdeviceptr *address)
{
	CUresult result = CUDA_ERROR_INVALID_DEVICE;

	if (device)
		result = heap_alloc(
			&device->graph_heap, node->is.alloc.bytesize, &node->is.alloc.dptr);
	if (result != CUDA_SUCCESS)
		return result;
	node->device = device;
	*address = node->is.alloc.dptr;
	return CUDA_SUCCESS;
}

static uint64_t physical(const struct node *node)
{
	return round_up(node->is.alloc.bytesize, SIM_BLOCK);
}

static bool obtain(struct node *node)
{
	struct device *device = node->device;
	int i = device->index;
	uint64_t more = 0;
	bool fits = true;

	if (pools[i].used + physical(node) > pools[i].reserved)
		more = pools[i].used + physical(node) - pools[i].reserved;
	pthread_mutex_lock(&device->lock);
	if (more)
		fits = device_take(device, more);
	if (more && fits)
		usage_graph_reserved(device, (int64_t)more);
	pthread_mutex_unlock(&device->lock);
	if (!fits)
		return false;
	node->live = true;
	pools[i].reserved += more;
	pools[i].used += physical(node);
	pools[i].used_high = larger(pools[i].used_high, pools[i].used);
	pools[i].reserved_high = larger(pools[i].reserved_high, pools[i].reserved);
	return true;
}

static void give_up(struct node *node)
{
	node->live = false;
	pools[node->device->index].used -= physical(node);
}

#define EACH_NODE(node, exec) \
	(node) = (exec)->graph->first; \
	(node); \
	(node) = node_next(node)

static void give_up_all(struct exec *exec)
{
	struct node *node;

	for (EACH_NODE(node, exec))
		if (node->live)
			give_up(node);
}

/* Memory that the launch before left behind is an error, unless the graph frees it by itself. */
CUresult graph_memory_before(struct exec *exec)
{
	CUresult result = CUDA_SUCCESS;
	struct node *node;

	pthread_mutex_lock(&lock);
	if (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
		give_up_all(exec);
	if (knobs.auto_free_ns)
		gate_delay(knobs.auto_free_ns);
	for (EACH_NODE(node, exec))
		if (node->live)
			result = CUDA_ERROR_INVALID_VALUE;
	for (node = exec->graph->first; node && result == CUDA_SUCCESS; node = node_next(node))
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !obtain(node)) {
			give_up_all(exec);
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	pthread_mutex_unlock(&lock);
	return result;
}

/* How much of this device those nodes want that hold nothing yet. */
static uint64_t missing(const struct exec *exec, const struct device *device)
{
	uint64_t sum = 0;
	struct node *node;

	for (EACH_NODE(node, exec))
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !node->live && node->device == device)
			sum += physical(node);
	return sum;
}

static bool back(struct exec *exec, struct device *device)
{
	uint64_t want = pools[device->index].used + missing(exec, device), more;
	bool fits = true;

	if (want <= pools[device->index].reserved)
		return true;
	more = want - pools[device->index].reserved;
	pthread_mutex_lock(&device->lock);
	fits = device_take(device, more);
	if (fits)
		usage_graph_reserved(device, (int64_t)more);
	pthread_mutex_unlock(&device->lock);
	if (!fits)
		return false;
	pools[device->index].reserved += more;
	pools[device->index].reserved_high =
		larger(pools[device->index].reserved_high, pools[device->index].reserved);
	return true;
}

/* An upload finds the memory for a launch; nobody uses it before that. */
CUresult graph_memory_upload(struct exec *exec)
{
	CUresult result = CUDA_SUCCESS;
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < device_count && result == CUDA_SUCCESS; i++)
		if (missing(exec, &devices[i]) && !back(exec, &devices[i]))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&lock);
	return result;
}

static bool free_address(struct exec *exec, CUdeviceptr address)
{
	struct node *node;

	for (EACH_NODE(node, exec))
		if (node->live && node->is.alloc.dptr == address) {
			give_up(node);
			return true;
		}
	return false;
}

/* The free nodes have run. */
void graph_memory_after(struct exec *exec)
{
	struct exec *other = NULL;
	struct node *node;

	pthread_mutex_lock(&lock);
	for (EACH_NODE(node, exec))
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && !free_address(exec, node->is.free))
			while ((other = object_next(KIND_exec, other)))
				free_address(other, node->is.free);
	pthread_mutex_unlock(&lock);
}

CUresult graph_memory_free(CUdeviceptr address)
{
	struct exec *exec = NULL;
	bool freed = false;

	pthread_mutex_lock(&lock);
	while (!freed && (exec = object_next(KIND_exec, exec)))
		freed = free_address(exec, address);
	pthread_mutex_unlock(&lock);
	return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct exec *exec = object_get(KIND_exec, hGraphExec);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	give_up_all(exec);
	pthread_mutex_unlock(&lock);
	graph_delete(exec->graph);
	object_delete(exec);
	return CUDA_SUCCESS;
}

/* ---- the device's side of it ---- */

CUresult sim_cuDeviceGraphMemTrim(CUdevice device)
{
	struct device *it = device_get(device);
	uint64_t surplus;

	if (!it)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	surplus = pools[it->index].reserved - pools[it->index].used;
	pthread_mutex_lock(&it->lock);
	device_give(it, surplus);
	usage_graph_reserved(it, -(int64_t)surplus);
	pthread_mutex_unlock(&it->lock);
	/* Now: whoever asks without the lock must not hear of it before it is true. */
	pools[it->index].reserved -= surplus;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static uint64_t *attribute(struct device *device, CUgraphMem_attribute attr)
{
	switch ((int)attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		return &pools[device->index].used;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		return &pools[device->index].used_high;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		return &pools[device->index].reserved;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		return &pools[device->index].reserved_high;
	default:
		return NULL;
	}
}

CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	if (!device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || !attribute(device_get(device), attr))
		return CUDA_ERROR_INVALID_VALUE;
	*(cuuint64_t *)value = *attribute(device_get(device), attr);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	struct device *it = device_get(device);

	if (!it)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || *(cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		pools[it->index].used_high = pools[it->index].used;
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		pools[it->index].reserved_high = pools[it->index].reserved;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
