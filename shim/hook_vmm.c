/*
 * hook_vmm.c - physical memory by handle, mapped by hand.
 *
 * Charged when it is created, whatever is mapped; credited when its last handle is released and its
 * last mapping is gone. Address ranges are free of charge.
 */
#include <sys/stat.h>

#include "fault.h"
#include "grant.h"
#include "ledger.h"
#include "lock.h"
#include "mapping.h"
#include "quota.h"
#include "traced.h"

/* ---- handles ---- */

/* Host memory is on no GPU; what the driver will refuse is nobody's either. */
static void place(struct grant_request *request, const CUmemLocation *location)
{
	request->device = -1;
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		request->device = guest_device_index(location->id);
		request->charged = true;
		break;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		request->kind = KIND_PINNED;
		break;
	}
}

CUresult on_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct grant_request request = {
		.kind = KIND_VMM, .class = CLASS_PHYSICAL, .bytes = size, .device = -1,
	};
	struct grant grant;
	CUresult result;

	if (attention_wanted())
		guest_look();
	if (prop)
		place(&request, &prop->location);
	result = grant_open_for(&grant, &request);
	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemCreate(handle, size, prop, flags);
	return grant_close(&grant, result, result == CUDA_SUCCESS ? *handle : 0);
}

CUresult on_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMulticastCreate(mcHandle, prop);

	if (result == CUDA_SUCCESS)
		grant_object_created(OBJECT_MULTICAST, *mcHandle, -1, NULL);
	return traced_end(CALL_cuMulticastCreate, result, began_ns);
}

CUresult on_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct release release;

	release_open_ref(&release, CLASS_PHYSICAL, handle, REF_HANDLE);
	if (release.record == LEDGER_NO_RECORD && guest.header &&
	    refs_open(&release.change, CLASS_OBJECT, grant_object_key(OBJECT_MULTICAST, handle),
		REF_HANDLE, false))
		release.record = release.change.record;
	return release_close_ref(&release, real.cuMemRelease(handle));
}

/* One more reference to a handle the driver handed out again. False: it is not ours. */
static bool handed_out_again(uint64_t handle)
{
	struct ref_change change;

	return guest.header &&
		(refs_open(&change, CLASS_PHYSICAL, handle, REF_HANDLE, true) ||
		 refs_open(&change, CLASS_OBJECT, grant_object_key(OBJECT_MULTICAST, handle), REF_HANDLE,
			true)) &&
		(refs_close(&change, true), true);
}

CUresult on_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemRetainAllocationHandle(handle, addr);

	if (result == CUDA_SUCCESS)
		handed_out_again(*handle);
	return traced_end(CALL_cuMemRetainAllocationHandle, result, began_ns);
}

/* What a descriptor says of the size behind it: 0 for the driver's own kind of file. */
static uint64_t descriptor_bytes(void *os_handle, CUmemAllocationHandleType type)
{
	struct stat status;

	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    fstat((int)(intptr_t)os_handle, &status) != 0 || !S_ISREG(status.st_mode))
		return 0;
	return status.st_size;
}

/* Somebody else's memory, or our own on the way back: then the driver may give the handle we know. */
CUresult on_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	struct grant_request request = {
		.kind = KIND_IMPORTED, .class = CLASS_PHYSICAL, .charged = guest.policy.imported_charged,
		.bytes = descriptor_bytes(osHandle, shHandleType),
	};
	struct grant grant;
	CUcontext context;
	CUresult result;

	request.device = guest_current_device(guest_thread(), &context);
	result = grant_open_for(&grant, &request);
	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
	lock_take(&ledger.import_lock);
	if (result == CUDA_SUCCESS && handed_out_again(*handle))
		grant_withdraw(&grant);
	else
		result = grant_close(&grant, result, result == CUDA_SUCCESS ? *handle : 0);
	lock_give_back(&ledger.import_lock);
	return result;
}

/* ---- mappings ---- */

static bool is_import(const struct ledger_record *physical)
{
	return unlikely(physical->kind == KIND_IMPORTED) && physical->class == CLASS_PHYSICAL;
}

/*
 * The size of imported memory shows when it is mapped. What that is more is taken before the driver maps
 * it: threads that map at the same time may not together pass the limit.
 */
static CUresult import_grows(uint32_t record, uint64_t bytes, uint64_t *reserved)
{
	const struct ledger_record *physical = ledger_record(record);
	CUresult result;

	*reserved = 0;
	if (likely(!is_import(physical)) || physical->bytes >= bytes || !(physical->flags & RECORD_CHARGED))
		return CUDA_SUCCESS;
	*reserved = bytes - physical->bytes;
	result = grant_reserve(physical->device, *reserved);
	if (result != CUDA_SUCCESS)
		*reserved = 0;
	return result;
}

static void import_mapped(uint32_t record, uint64_t bytes, uint64_t reserved, CUresult result)
{
	if (result == CUDA_SUCCESS && is_import(ledger_record(record)))
		grant_grow(record, bytes, reserved);
	else if (reserved)
		quota_give_back(guest.devices[ledger_record(record)->device].word, reserved);
}

CUresult on_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags)
{
	uint64_t began_ns = traced_begin();
	struct ref_change change;
	bool known = mapping_open(&change, handle);
	uint64_t reserved = 0;
	CUresult result = known ? import_grows(change.record, offset + size, &reserved) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = real.cuMemMap(ptr, size, offset, handle, flags);
	if (known)
		import_mapped(change.record, offset + size, reserved, result);
	if (known)
		mapping_done(&change, result == CUDA_SUCCESS, ptr, size);
	return traced_end(CALL_cuMemMap, result, began_ns);
}

CUresult on_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	uint64_t began_ns = traced_begin();
	struct mapping_chain chain;
	CUresult result;

	mapping_open_range(&chain, ptr, size);
	result = real.cuMemUnmap(ptr, size);
	chain.lost = result == CUDA_ERROR_DEINITIALIZED && chain.first;
	if (chain.lost)
		fault_note(guest_thread(), FINDING_FREE_AFTER_SHUTDOWN, ptr, NULL);
	mapping_close(&chain, result == CUDA_SUCCESS);
	return traced_end(CALL_cuMemUnmap, result, began_ns);
}

static struct mapping_region region_of(const CUarrayMapInfo *info)
{
	struct mapping_region region = { 0 };

	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
		region.tail = true;
		region.layer = info->subresource.miptail.layer;
		region.from[0] = info->subresource.miptail.offset;
		region.extent[0] = info->subresource.miptail.size;
		return region;
	}
	region.level = info->subresource.sparseLevel.level;
	region.layer = info->subresource.sparseLevel.layer;
	region.from[0] = info->subresource.sparseLevel.offsetX;
	region.from[1] = info->subresource.sparseLevel.offsetY;
	region.from[2] = info->subresource.sparseLevel.offsetZ;
	region.extent[0] = info->subresource.sparseLevel.extentWidth;
	region.extent[1] = info->subresource.sparseLevel.extentHeight;
	region.extent[2] = info->subresource.sparseLevel.extentDepth;
	return region;
}

static CUresult array_mapped(CUresult result, const CUarrayMapInfo *list, unsigned count)
{
	for (unsigned i = 0; result == CUDA_SUCCESS && guest.header && i < count; i++) {
		struct mapping_region region = region_of(&list[i]);
		struct mapping_array array = {
			.class = list[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ?
				CLASS_MIPMAP : CLASS_ARRAY,
			.handle = (uint64_t)list[i].resource.array,
		};

		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			mapping_array_add(&array, &region, list[i].memHandle.memHandle);
		else
			mapping_array_remove(&array, &region);
	}
	return result;
}

CUresult on_cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemMapArrayAsync(mapInfoList, count, hStream);

	return traced_end(CALL_cuMemMapArrayAsync, array_mapped(result, mapInfoList, count), began_ns);
}

CUresult on_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemMapArrayAsync_ptsz(mapInfoList, count, hStream);

	return traced_end(CALL_cuMemMapArrayAsync_ptsz, array_mapped(result, mapInfoList, count), began_ns);
}

/* ---- address ranges ---- */

CUresult on_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
	unsigned long long flags)
{
	uint64_t began_ns = traced_begin();
	CUresult result = real.cuMemAddressReserve(ptr, size, alignment, addr, flags);

	if (result == CUDA_SUCCESS)
		grant_object_created(OBJECT_ADDRESS_RANGE, *ptr, -1, NULL);
	return traced_end(CALL_cuMemAddressReserve, result, began_ns);
}

CUresult on_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct release release;

	grant_object_open(&release, OBJECT_ADDRESS_RANGE, ptr);
	return release_close(&release, real.cuMemAddressFree(ptr, size));
}
