/*
 * sim_semaphore.c - semaphores of other drivers, by descriptor.
 *
 * Nobody else is there to signal one: a wait for a value that was not signalled yet is refused,
 * where a real device would wait for ever.
 */
#include "sim_graph.h"
#include "sim_semaphore.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

CUresult sim_cuImportExternalSemaphore(
	CUexternalSemaphore *extSem_out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc)
{
	struct semaphore *semaphore;
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!extSem_out || !semHandleDesc || semHandleDesc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (semHandleDesc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD &&
		semHandleDesc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fcntl(semHandleDesc->handle.fd, F_GETFD) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	semaphore = object_new(KIND_semaphore, context);
	if (!semaphore)
		return CUDA_ERROR_OUT_OF_MEMORY;
	semaphore->fd = semHandleDesc->handle.fd; /* from now on the driver's */
	semaphore->timeline = semHandleDesc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	object_give(semaphore, GIVEN_external_semaphore);
	*extSem_out = (CUexternalSemaphore)semaphore;
	return CUDA_SUCCESS;
}

void semaphore_close(struct semaphore *semaphore)
{
	close(semaphore->fd);
	object_delete(semaphore);
}

CUresult sim_cuDestroyExternalSemaphore(CUexternalSemaphore extSem)
{
	struct semaphore *semaphore = object_get(KIND_semaphore, extSem);

	if (!semaphore)
		return CUDA_ERROR_INVALID_HANDLE;
	semaphore_close(semaphore);
	return CUDA_SUCCESS;
}

static void signal_one(const struct semaphore_op *op)
{
	struct semaphore *semaphore = object_get(KIND_semaphore, op->handle);

	if (!semaphore)
		return;
	if (!semaphore->timeline)
		atomic_fetch_add(&semaphore->value, 1);
	else if (atomic_load(&semaphore->value) < op->value)
		atomic_store(&semaphore->value, op->value);
}

static CUresult wait_one(const struct semaphore_op *op)
{
	struct semaphore *semaphore = object_get(KIND_semaphore, op->handle);
	uint64_t there;

	if (!semaphore)
		return CUDA_ERROR_INVALID_HANDLE;
	there = atomic_load(&semaphore->value);
	if (semaphore->timeline)
		return there >= op->value ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
	do {
		if (!there)
			return CUDA_ERROR_ILLEGAL_STATE;
	} while (!atomic_compare_exchange_weak(&semaphore->value, &there, there - 1));
	return CUDA_SUCCESS;
}

CUresult semaphores_run(bool wait, const struct semaphore_op *ops, unsigned count)
{
	CUresult result = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (wait)
			result = wait_one(&ops[i]);
		else
			signal_one(&ops[i]);
	return result;
}

CUresult semaphores_read(const CUexternalSemaphore *array, const void *params, size_t stride,
	unsigned count, struct semaphore_op *ops)
{
	unsigned i;

	if (!array || !params || !count || count > SEMAPHORES_MOST)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++) {
		if (!object_get(KIND_semaphore, array[i]))
			return CUDA_ERROR_INVALID_HANDLE;
		ops[i].handle = array[i];
		/* Parameters of both directions begin with the value of a fence. */
		memcpy(&ops[i].value, (const char *)params + i * stride, sizeof(ops[i].value));
	}
	return CUDA_SUCCESS;
}

static CUresult on_stream(bool wait, const CUexternalSemaphore *array, const void *params,
	size_t stride, unsigned count, CUstream handle)
{
	struct semaphore_op ops[SEMAPHORES_MOST];
	struct stream *stream;
	struct node *node;
	CUresult result = stream_of(handle, &stream);

	if (result == CUDA_SUCCESS)
		result = semaphores_read(array, params, stride, count, ops);
	if (result != CUDA_SUCCESS)
		return result;
	if (!capture_node(stream,
		    wait ? CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT : CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
		    &node, &result))
		return semaphores_run(wait, ops, count);
	return node ? node_keep(node, ops, count, sizeof(*ops)) : result;
}

CUresult sim_cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray, unsigned int numExtSems,
	CUstream stream)
{
	return on_stream(
		false, extSemArray, paramsArray, sizeof(*paramsArray), numExtSems, stream);
}

CUresult sim_cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray, unsigned int numExtSems,
	CUstream stream)
{
	return on_stream(true, extSemArray, paramsArray, sizeof(*paramsArray), numExtSems, stream);
}
