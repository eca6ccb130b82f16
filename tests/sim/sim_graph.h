/*
 * sim_graph.h - graphs, built by hand or by capturing a stream.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim_context.h"
#include "sim_stream.h"

struct graph;

struct node {
	struct object object;
	struct graph *graph;
	struct node *original; /* of a clone */
	CUgraphNodeType type;
	struct tails needs; /* the nodes it depends on */
	uint64_t ns, done;  /* how long it takes; when it ends, from the start of a launch */
	bool disabled;
	bool live;             /* memory that this launch allocated and nobody freed yet */
	struct device *device; /* of an allocation */
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_HOST_NODE_PARAMS host;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS set;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		CUdeviceptr free;
		CUevent event;
		struct graph *child;
		CUcontext batch_context;
		struct {
			CUgraphConditionalHandle handle;
			CUgraphConditionalNodeType type;
		} condition;
	} is;
	void *kept; /* a list of what the type needs: values, semaphores, bodies, attributes */
	unsigned kept_count;
	size_t kept_bytes; /* of each */
};

struct graph {
	struct object object;
	struct node *first, *last; /* by object.next */
	size_t count;
};

/* The graph of an executable: no program gets its handle. */
struct inner {
	struct graph graph;
};

/* Something of the program's that graphs keep alive. */
struct user {
	struct object object;
	void *pointer;
	CUhostFn destroy;
	unsigned references;
};

struct exec {
	struct object object;
	struct graph *graph; /* a clone of its own */
	cuuint64_t flags;
};

struct capture {
	struct capture *next;
	struct graph *graph;
	CUstreamCaptureMode mode;
	uint64_t thread;
	cuuint64_t id;
	struct stream *origin;
	bool invalidated;
	bool borrowed; /* its graph was there before */
};

static inline struct node *node_next(const struct node *node)
{
	return (struct node *)node->object.next;
}

struct graph *graph_new(bool inner);
void graph_delete(struct graph *graph);
struct graph *graph_clone(const struct graph *graph, bool inner);
struct node *node_new(
	struct graph *graph, CUgraphNodeType type, struct node *const *needs, size_t count);
void node_delete(struct node *node);

bool tails_set(struct tails *tails, struct node *const *nodes, size_t count);
bool tails_add(struct tails *tails, struct node *node);
bool tails_remove(struct tails *tails, const struct node *node);
void tails_drop(struct tails *tails);

/* ---- sim_graph_kept.c ---- */

/* Let the node keep a copy of these. */
CUresult node_keep(struct node *node, const void *items, unsigned count, size_t bytes);
bool node_copy_kept(struct node *copy, const struct node *original, bool inner);
void node_drop_kept(struct node *node);
/* The body that a launch runs, or NULL. */
struct graph *condition_body(const struct node *node);
CUresult condition_set(struct node *node, CUDA_CONDITIONAL_NODE_PARAMS *params);
/* A node of one of these types out of the parameters for all types. */
CUresult kept_add(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	size_t numDependencies, CUgraphNodeParams *params);

/* ---- sim_value.c ---- */

CUresult batch_check(const CUstreamBatchMemOpParams *ops, unsigned count);
/* Without a stream there is nothing to wait on. */
CUresult batch_run(struct stream *stream, const CUstreamBatchMemOpParams *ops, unsigned count);

/* ---- sim_graph_memory.c ---- */

/* Give an allocation node its address; the memory comes with the launch. */
CUresult graph_reserve(struct node *node, struct device *device, CUdeviceptr *address);
CUresult graph_memory_before(struct exec *exec);
CUresult graph_memory_upload(struct exec *exec);
void graph_memory_after(struct exec *exec);
/* Free from outside what a launch allocated and no node frees. */
CUresult graph_memory_free(CUdeviceptr address);

/* ---- sim_capture.c ---- */

bool capture_node_slow(
	struct stream *stream, CUgraphNodeType type, struct node **node, CUresult *result);

/*
 * If the stream is capturing, the call becomes a node: true, and *node is it, or NULL with *result
 * saying why not.
 */
static inline bool capture_node(
	struct stream *stream, CUgraphNodeType type, struct node **node, CUresult *result)
{
	return unlikely(captures_active) && capture_node_slow(stream, type, node, result);
}

#endif
