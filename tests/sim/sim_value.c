/*
 * sim_value.c - streams that write values to memory and wait for them.
 *
 * A value is written when the call is made, as all bytes move then. A wait for a value that is not
 * there yet keeps the driver's thread for host functions until it is.
 */
#include "sim_graph.h"
#include "sim_memory.h"
#include "sim_stream.h"

#include <stdlib.h>
#include <string.h>

struct wait {
	const void *place;
	uint64_t value;
	unsigned flags;
	bool wide;
};

static uint64_t load(const void *place, bool wide)
{
	if (wide)
		return __atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE);
	return __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE);
}

static bool satisfied(const struct wait *wait)
{
	uint64_t there = load(wait->place, wait->wide), mask = wait->wide ? UINT64_MAX : UINT32_MAX;

	switch (wait->flags & 7) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wait->wide ? (int64_t)(there - wait->value) >= 0
				  : (int32_t)((uint32_t)there - (uint32_t)wait->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return there == (wait->value & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return (there & wait->value) != 0;
	default:
		return (~(there | wait->value) & mask) != 0;
	}
}

static void poll_value(void *data)
{
	struct wait *wait = data;

	while (!satisfied(wait))
		sim_sleep_until(sim_now() + 20000);
	free(wait);
}

static bool is_wide(CUstreamBatchMemOpType operation)
{
	return operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
	       operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

/* Where the value is, which must be memory that a device may reach. */
static bool place_of(CUdeviceptr address, bool wide, bool write, void **place)
{
	uint64_t bytes = wide ? 8 : 4;

	return address % bytes == 0 && memory_known(address) &&
	       memory_bytes(address, bytes, write, place);
}

static CUresult check(const CUstreamBatchMemOpParams *op)
{
	void *place;

	switch ((int)op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (op->waitValue.flags & ~(unsigned)(CU_STREAM_WAIT_VALUE_FLUSH | 3))
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		if (op->writeValue.flags & ~1u)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* Waits and writes have their address in the same place. */
	return place_of(op->waitValue.address, is_wide(op->operation), false, &place)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static void write_value(const CUstreamBatchMemOpParams *op)
{
	bool wide = is_wide(op->operation);
	void *place;

	if (!place_of(op->writeValue.address, wide, true, &place))
		return;
	if (wide)
		__atomic_store_n((uint64_t *)place, op->writeValue.value64, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)place, op->writeValue.value, __ATOMIC_RELEASE);
}

static CUresult wait_value(struct stream *stream, const CUstreamBatchMemOpParams *op)
{
	struct wait wait = { .wide = is_wide(op->operation), .flags = op->waitValue.flags }, *kept;
	void *place;

	if (!place_of(op->waitValue.address, wait.wide, false, &place))
		return CUDA_ERROR_INVALID_VALUE;
	wait.place = place;
	wait.value = wait.wide ? op->waitValue.value64 : op->waitValue.value;
	if (satisfied(&wait) || !stream)
		return CUDA_SUCCESS;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*kept = wait;
	return host_call(stream, poll_value, kept);
}

CUresult batch_run(struct stream *stream, const CUstreamBatchMemOpParams *ops, unsigned count)
{
	CUresult result = CUDA_SUCCESS;
	unsigned i;

	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (ops[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
			ops[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
			write_value(&ops[i]);
		else if (ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
			 ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			result = wait_value(stream, &ops[i]);
	return result;
}

CUresult batch_check(const CUstreamBatchMemOpParams *ops, unsigned count)
{
	CUresult result = ops && count && count <= 256 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	unsigned i;

	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = check(&ops[i]);
	return result;
}

CUresult sim_cuStreamBatchMemOp_v2(CUstream handle, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	struct stream *stream;
	struct node *node;
	CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : stream_of(handle, &stream);

	if (result == CUDA_SUCCESS)
		result = batch_check(paramArray, count);
	if (result != CUDA_SUCCESS)
		return result;
	if (!capture_node(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &node, &result))
		return batch_run(stream, paramArray, count);
	return node ? node_keep(node, paramArray, count, sizeof(*paramArray)) : result;
}

CUresult sim_cuStreamBatchMemOp(CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return sim_cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}

#define VALUE_CALL(name, op, field, type, member) \
	CUresult sim_##name(CUstream stream, CUdeviceptr addr, type value, unsigned int flags) \
	{ \
		CUstreamBatchMemOpParams params; \
		memset(&params, 0, sizeof(params)); \
		params.field.operation = CU_STREAM_MEM_OP_##op; \
		params.field.address = addr; \
		params.field.member = value; \
		params.field.flags = flags; \
		return sim_cuStreamBatchMemOp_v2(stream, 1, &params, 0); \
	}
VALUE_CALL(cuStreamWaitValue32, WAIT_VALUE_32, waitValue, cuuint32_t, value)
VALUE_CALL(cuStreamWaitValue32_v2, WAIT_VALUE_32, waitValue, cuuint32_t, value)
VALUE_CALL(cuStreamWaitValue64, WAIT_VALUE_64, waitValue, cuuint64_t, value64)
VALUE_CALL(cuStreamWaitValue64_v2, WAIT_VALUE_64, waitValue, cuuint64_t, value64)
VALUE_CALL(cuStreamWriteValue32, WRITE_VALUE_32, writeValue, cuuint32_t, value)
VALUE_CALL(cuStreamWriteValue32_v2, WRITE_VALUE_32, writeValue, cuuint32_t, value)
VALUE_CALL(cuStreamWriteValue64, WRITE_VALUE_64, writeValue, cuuint64_t, value64)
VALUE_CALL(cuStreamWriteValue64_v2, WRITE_VALUE_64, writeValue, cuuint64_t, value64)
