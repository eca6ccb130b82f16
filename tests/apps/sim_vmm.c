/*
 * sim_vmm.c - memory mapped by hand: what keeps it, what it costs, what must fail.
 */
#include "sim_check.h"

#include <string.h>
#include <unistd.h>

static const CUmemAccessDesc writable = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
static CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static size_t at_start;

static size_t used(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	return total - available - at_start;
}

/* The handle dies with its last reference or its last mapping, whichever goes later. */
static void lifetimes(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, 64 * MIB, 0, 0, 0));
	SAME(used(), 0);
	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	SAME(used(), 2 * MIB);
	OK(cuMemMap(p, 2 * MIB, 0, handle, 0));
	OK(cuMemRelease(handle));
	SAME(used(), 2 * MIB);
	OK(cuMemRetainAllocationHandle(&again, (void *)p));
	TRUE(again == handle);
	OK(cuMemUnmap(p, 2 * MIB));
	SAME(used(), 2 * MIB);
	OK(cuMemRelease(again));
	SAME(used(), 0);
	SAME(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(p, 64 * MIB));
	SAME(cuMemAddressFree(p, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
}

static void mappings(void)
{
	CUmemGenericAllocationHandle a, b;
	CUdeviceptr p, base;
	char bytes[6] = { 0 };
	size_t size;

	OK(cuMemCreate(&a, 4 * MIB, &prop, 0));
	OK(cuMemCreate(&b, 2 * MIB, &prop, 0));
	OK(cuMemAddressReserve(&p, 32 * MIB, 0, 0, 0));
	OK(cuMemMap(p, 4 * MIB, 0, a, 0));
	SAME(cuMemMap(p + 2 * MIB, 2 * MIB, 0, b, 0), CUDA_ERROR_INVALID_VALUE); /* taken */
	SAME(cuMemcpyHtoD_v2(p, "x", 1), CUDA_ERROR_INVALID_VALUE);              /* no access yet */
	OK(cuMemMap(p + 4 * MIB, 2 * MIB, 0, b, 0));
	OK(cuMemMap(p + 16 * MIB, 4 * MIB, 0, a, 0)); /* the same bytes twice */
	OK(cuMemSetAccess(p, 6 * MIB, &writable, 1));
	OK(cuMemSetAccess(p + 16 * MIB, 4 * MIB, &writable, 1));
	OK(cuMemcpyHtoD_v2(p + 4 * MIB - 3, "abcde", 6)); /* across two mappings */
	OK(cuMemcpyDtoH_v2(bytes, p + 4 * MIB - 3, 6));
	SAME(strcmp(bytes, "abcde"), 0);
	OK(cuMemcpyDtoH_v2(bytes, p + 20 * MIB - 3, 3));
	SAME(memcmp(bytes, "abc", 3), 0);
	SAME(cuMemcpyDtoH_v2(bytes, p + 20 * MIB - 3, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemGetAddressRange_v2(&base, &size, p + 5 * MIB));
	SAME(base, p + 4 * MIB);
	SAME(size, 2 * MIB);
	SAME(cuMemUnmap(p, 2 * MIB), CUDA_ERROR_INVALID_VALUE);        /* half a mapping */
	SAME(cuMemAddressFree(p, 32 * MIB), CUDA_ERROR_INVALID_VALUE); /* not empty */
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(p, 20 * MIB)); /* three mappings and a gap */
	OK(cuMemAddressFree(p, 32 * MIB));
	OK(cuMemRelease(a));
	OK(cuMemRelease(b));
	SAME(used(), 0);
}

static void wrong(void)
{
	CUmemGenericAllocationHandle handle = 42;
	CUmemAllocationProp bad = prop;
	size_t granularity;

	OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	SAME(granularity, 2 * MIB);
	SAME(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(cuMemCreate(&handle, (size_t)1 << 50, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	bad.location.id = 99;
	SAME(cuMemCreate(&handle, 2 * MIB, &bad, 0), CUDA_ERROR_INVALID_DEVICE);
	bad = prop;
	bad.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	SAME(cuMemCreate(&handle, 2 * MIB, &bad, 0), CUDA_ERROR_NOT_SUPPORTED);
	bad = prop;
	bad.location.type = CU_MEM_LOCATION_TYPE_INVALID;
	SAME(cuMemCreate(&handle, 2 * MIB, &bad, 0), CUDA_ERROR_INVALID_VALUE);
	SAME(handle, 42);
	bad.location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0 };
	OK(cuMemCreate(&handle, 2 * MIB, &bad, 0));
	SAME(used(), 0); /* host memory */
	OK(cuMemRelease(handle));
}

/* In the process it came from an import is one more reference. */
static void import(void)
{
	CUmemGenericAllocationHandle handle, again;
	int fd = -1;

	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(
		&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	TRUE(again == handle);
	SAME(close(fd), 0);
	OK(cuMemRelease(handle));
	SAME(used(), 2 * MIB);
	OK(cuMemRelease(handle));
	SAME(used(), 0);
	SAME(cuMemImportFromShareableHandle(
		     &again, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		CUDA_ERROR_INVALID_VALUE);
}

static void multicast(void)
{
	CUmulticastObjectProp team = { .numDevices = 1, .size = 64 * MIB };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	OK(cuMulticastCreate(&handle, &team));
	OK(cuMulticastAddDevice(handle, 0));
	OK(cuMemAddressReserve(&p, 64 * MIB, 0, 0, 0));
	OK(cuMemMap(p, 64 * MIB, 0, handle, 0));
	OK(cuMemRelease(handle));
	SAME(used(), 0);
	OK(cuMemUnmap(p, 64 * MIB));
	SAME(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	check_start();
	at_start = used();
	lifetimes();
	mappings();
	wrong();
	import();
	multicast();
	return 0;
}
