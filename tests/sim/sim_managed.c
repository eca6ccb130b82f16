/*
 * sim_managed.c - batches of hints about managed memory: checked and timed, then forgotten.
 */
#include "sim_copy.h"
#include "sim_device.h"

/* Each range by the rules of the single call; the first that breaks them is the answer. */
static CUresult check_all(const CUdeviceptr *dptrs, const size_t *sizes, size_t count,
	unsigned long long flags, CUstream handle, struct stream **stream)
{
	CUresult result;
	struct found found;
	size_t i;

	if (!dptrs || !sizes || !count || flags || (!handle && !sim_thread.per_thread) ||
		handle == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_of(handle, stream);
	for (i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (!memory_find(dptrs[i], &found) || found.heap->family != FAMILY_managed ||
			!sizes[i] || sizes[i] > found.start + found.bytes - dptrs[i])
			result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

static bool location_is_valid(const CUmemLocation *location)
{
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_get(location->id) != NULL;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return true;
	default:
		return false;
	}
}

/* Locations say from which range on they hold: from 0, and each later than the one before. */
static bool locations_are_valid(
	const CUmemLocation *locations, const size_t *firsts, size_t count, size_t ranges)
{
	size_t i;

	if (!locations || !firsts || !count || count > ranges || firsts[0])
		return false;
	for (i = 0; i < count; i++)
		if (firsts[i] >= ranges || (i && firsts[i] <= firsts[i - 1]) ||
			!location_is_valid(&locations[i]))
			return false;
	return true;
}

static void take_time(struct stream *stream, const size_t *sizes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		stream_append(stream, sim_copy_ns(sizes[i]));
}

CUresult sim_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	struct stream *stream;
	CUresult result = check_all(dptrs, sizes, count, flags, hStream, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!locations_are_valid(prefetchLocs, prefetchLocIdxs, numPrefetchLocs, count))
		return CUDA_ERROR_INVALID_VALUE;
	take_time(stream, sizes, count);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	unsigned long long flags, CUstream hStream)
{
	struct stream *stream;

	return check_all(dptrs, sizes, count, flags, hStream, &stream);
}

CUresult sim_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	return sim_cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
		numPrefetchLocs, flags, hStream);
}
