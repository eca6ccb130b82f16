/*
 * sim_physical.c - physical memory by handle: created, shared between processes, multicast.
 *
 * What travels between processes is the memfd itself. Its name says which device it is of. The
 * process that created it pays for it as long as it holds it; an importer does not.
 */
#include "sim_physical.h"
#include "sim_external.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "sim-physical-"

/* ---- what it costs ---- */

static bool pay(struct physical *physical)
{
	struct device *device = physical->device ? physical->device : &devices[0];
	bool fits = true;

	if (physical->imported || physical->multicast)
		return true;
	pthread_mutex_lock(physical->device ? &device->lock : host_arena.lock);
	if (physical->device)
		fits = device_take(device, physical->bytes);
	if (fits)
		usage_add(device, physical->device ? FAMILY_vmm : FAMILY_host, physical->bytes);
	pthread_mutex_unlock(physical->device ? &device->lock : host_arena.lock);
	return fits;
}

static void pay_back(struct physical *physical)
{
	struct device *device = physical->device ? physical->device : &devices[0];

	if (physical->imported)
		imported_remove(physical->device, physical->bytes);
	if (physical->imported || physical->multicast)
		return;
	pthread_mutex_lock(physical->device ? &device->lock : host_arena.lock);
	if (physical->device)
		device_give(device, physical->bytes);
	usage_remove(device, physical->device ? FAMILY_vmm : FAMILY_host, physical->bytes);
	pthread_mutex_unlock(physical->device ? &device->lock : host_arena.lock);
}

void physical_release(struct physical *physical)
{
	if (physical->handles || physical->mappings)
		return;
	pay_back(physical);
	if (physical->fd >= 0)
		close(physical->fd);
	object_delete(physical);
}

static uint64_t inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? 0 : status.st_ino;
}

int physical_file(struct physical *physical)
{
	char name[64];
	int fd;

	if (physical->fd >= 0 || physical->multicast)
		return physical->fd;
	snprintf(name, sizeof(name), FILE_NAME "%d",
		physical->device ? physical->device->index : -1);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)physical->bytes)) {
		close(fd);
		fd = -1;
	}
	physical->fd = fd;
	physical->inode = fd >= 0 ? inode_of(fd) : 0;
	return fd;
}

/* ---- create ---- */

/* Which device, if any; false: there is no such place. */
static bool locate(const CUmemLocation *location, struct device **device)
{
	*device = NULL;
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*device = device_get(location->id);
		return *device != NULL;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return true;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location->id == 0;
	default:
		return false;
	}
}

static CUresult check(const CUmemAllocationProp *prop, struct device **device)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!locate(&prop->location, device))
		return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
			       ? CUDA_ERROR_INVALID_DEVICE
			       : CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct physical *physical;
	struct device *device;
	CUresult result = check(prop, &device);

	if (!handle || !size || size % SIM_BLOCK || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	physical = object_new(KIND_physical, NULL);
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	physical->device = device;
	physical->bytes = size;
	physical->props = *prop;
	physical->fd = -1;
	physical->handles = 1;
	if (!pay(physical)) {
		object_delete(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *physical;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&vmm_lock);
	physical = physical_get(handle);
	if (physical && physical->handles) {
		physical->handles--;
		physical_release(physical);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option)
{
	struct device *device;
	CUresult result = check(prop, &device);

	if (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*granularity = SIM_BLOCK;
	return result;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct physical *physical = physical_get(handle);

	if (!prop || !physical)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = physical->props;
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle,
	CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
	unsigned long long flags)
{
	struct physical *physical = physical_get(handle);
	int fd;

	if (!shareableHandle || !physical || flags || physical->multicast ||
		!(handleType & physical->props.requestedHandleTypes))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	fd = physical_file(physical) >= 0 ? fcntl(physical->fd, F_DUPFD_CLOEXEC, 0) : -1;
	pthread_mutex_unlock(&vmm_lock);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareableHandle = fd;
	return CUDA_SUCCESS;
}

static struct physical *known(uint64_t inode)
{
	struct physical *physical = NULL;

	while ((physical = object_next(KIND_physical, physical)))
		if (physical->fd >= 0 && physical->inode == inode)
			return physical;
	return NULL;
}

/* The physical index of the device a memfd of ours is of; -1 host, -2: not one of ours. */
static int device_of(int fd)
{
	char path[64], name[128];
	const char *number;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, name, sizeof(name) - 1);
	if (length < 0)
		return -2;
	name[length] = 0;
	number = strstr(name, FILE_NAME);
	return number ? atoi(number + strlen(FILE_NAME)) : -2;
}

static struct physical *import(int fd)
{
	struct physical *physical;
	struct stat status;
	int index = device_of(fd);

	if (index < -1 || index >= device_count || fstat(fd, &status))
		return NULL;
	physical = known(status.st_ino);
	if (physical) {
		physical->handles++;
		return physical;
	}
	physical = object_new(KIND_physical, NULL);
	if (!physical)
		return NULL;
	physical->device = index >= 0 ? &devices[index] : NULL;
	physical->bytes = (uint64_t)status.st_size;
	physical->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	physical->inode = status.st_ino;
	physical->handles = 1;
	physical->imported = true;
	physical->props = (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = index >= 0 ? CU_MEM_LOCATION_TYPE_DEVICE
						 : CU_MEM_LOCATION_TYPE_HOST } };
	imported_add(physical->device, physical->bytes);
	physical->props.location.id = index >= 0 ? devices[index].ordinal : 0;
	return physical;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	struct physical *physical;

	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	physical = import((int)(intptr_t)osHandle);
	pthread_mutex_unlock(&vmm_lock);
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}

/* ---- multicast: a handle without memory, bound to that of others ---- */

CUresult sim_cuMulticastCreate(
	CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	struct physical *physical;

	if (!mcHandle || !prop || !prop->numDevices || !prop->size || prop->size % SIM_BLOCK ||
		prop->flags)
		return CUDA_ERROR_INVALID_VALUE;
	physical = object_new(KIND_physical, NULL);
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	physical->bytes = prop->size;
	physical->fd = -1;
	physical->handles = 1;
	physical->multicast = true;
	*mcHandle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}

CUresult sim_cuMulticastGetGranularity(
	size_t *granularity, const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option)
{
	if (!granularity || !prop || option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_BLOCK;
	return CUDA_SUCCESS;
}

static CUresult multicast(CUmemGenericAllocationHandle handle, size_t offset, size_t size)
{
	struct physical *physical = physical_get(handle);

	if (!physical || !physical->multicast || offset % SIM_BLOCK || size % SIM_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	return size > physical->bytes || offset > physical->bytes - size ? CUDA_ERROR_INVALID_VALUE
									 : CUDA_SUCCESS;
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	return device_get(dev) ? multicast(mcHandle, 0, 0) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
	CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
	unsigned long long flags)
{
	struct physical *physical = physical_get(memHandle);

	if (!physical || physical->multicast || memOffset % SIM_BLOCK || size > physical->bytes ||
		flags || !size)
		return CUDA_ERROR_INVALID_VALUE;
	return multicast(mcHandle, mcOffset, size);
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
	CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	struct found found;

	if (!vmm_find(memptr, &found) || flags || !size)
		return CUDA_ERROR_INVALID_VALUE;
	return multicast(mcHandle, mcOffset, size);
}

CUresult sim_cuMulticastUnbind(
	CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
	return device_get(dev) ? multicast(mcHandle, mcOffset, size) : CUDA_ERROR_INVALID_DEVICE;
}
