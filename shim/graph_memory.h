/*
 * graph_memory.h - memory that graphs allocate.
 *
 * Its addresses are fixed when a node is made, its bytes are taken when the graph is launched or
 * uploaded, and they stay with the device until they are trimmed. So a node that can never fit is
 * refused at once, a launch when what it declares does not fit into what is left, and what counts
 * is what the driver says it has reserved for graphs, looked at after each such call.
 */
#ifndef CUWARD_GRAPH_MEMORY_H
#define CUWARD_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "guest.h"

/* May a node for this be made? CUDA_ERROR_OUT_OF_MEMORY: refused and noted. */
CUresult graph_memory_node(int device, uint64_t bytes);
/* One was made. */
void graph_memory_made(void);

/* An executable graph was made of a graph: what does it declare? */
void graph_memory_instantiated(CUgraphExec exec, CUgraph graph, bool auto_free);

struct graph_use {
	CUgraphExec exec;
	uint64_t bytes; /* it may take, ... */
	uint64_t own;   /* ... after it gave up these of its last launch */
	uint64_t frees; /* of graph memory, before it */
	uint32_t first, end; /* devices */
	uint32_t record; /* of the exec, if it is there yet */
	bool frees_others;
};

/* It is about to be launched or uploaded. Not CUDA_SUCCESS: refused; do not call the driver. */
CUresult graph_memory_open(struct graph_use *use, CUgraphExec exec);
/* An executable graph is about to be made of this one, and uploaded at once. */
CUresult graph_memory_open_new(struct graph_use *use, CUgraph graph);
CUresult graph_memory_close(const struct graph_use *use, CUresult result, bool launched);

/* Has any graph of this process memory of its own? */
static inline bool graph_memory_possible(void)
{
	return __atomic_load_n(&guest.graph_allocations, __ATOMIC_RELAXED) != 0;
}

/* Memory that may be a graph's is about to be freed; and was, or was not. */
static inline void graph_memory_free_begins(void)
{
	__atomic_fetch_add(&guest.graph_freeing, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&guest.graph_frees, 1, __ATOMIC_SEQ_CST);
}

static inline void graph_memory_free_ends(void)
{
	__atomic_fetch_sub(&guest.graph_freeing, 1, __ATOMIC_SEQ_CST);
}

/* What the driver keeps for graphs may have changed. */
void graph_memory_look(int device);
void graph_memory_look_everywhere(void);

#endif
