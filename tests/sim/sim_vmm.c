/*
 * sim_vmm.c - reserved addresses and what is mapped there.
 */
#include "sim_vmm.h"
#include "sim_knobs.h"
#include "sim_physical.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct mapping {
	uint64_t start, bytes;
	struct physical *physical; /* NULL: a file of somebody else */
	void *place;               /* where its bytes can be touched */
	CUmemAccess_flags access[SIM_DEVICES];
	bool accessible;
	uint32_t id;
};

struct reservation {
	struct reservation *next;
	uint64_t start, bytes;
	struct mapping **blocks; /* by 2 MiB */
	struct device *device;   /* of a mapped file, which owns all of it */
	uint64_t from, length;   /* what of the file was asked for */
	void *alias; /* where the bytes are if programs must not read them, else start */
};

struct heap vmm_heap = { .family = FAMILY_vmm }, imported_heap = { .family = FAMILY_vmm };
pthread_mutex_t vmm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;
static _Atomic int any;
static uint32_t next_id = 1u << 31;

/* ---- addresses ---- */

static struct reservation **reservation_at(uint64_t address)
{
	struct reservation **place;

	for (place = &reservations; *place; place = &(*place)->next)
		if (address - (*place)->start < (*place)->bytes)
			return place;
	return NULL;
}

static struct mapping *mapping_at(uint64_t address)
{
	struct reservation **place = reservation_at(address);

	return place ? (*place)->blocks[(address - (*place)->start) / SIM_BLOCK] : NULL;
}

static void *address_space(uint64_t hint, uint64_t bytes, uint64_t alignment)
{
	char *place = mmap((void *)hint, bytes + alignment, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t start;

	if (place == MAP_FAILED)
		return NULL;
	start = round_up((uintptr_t)place, alignment);
	if (start > (uintptr_t)place)
		munmap(place, start - (uintptr_t)place);
	if ((uintptr_t)place + alignment > start)
		munmap((void *)(start + bytes), (uintptr_t)place + alignment - start);
	return (void *)start;
}

static void drop(struct reservation *old)
{
	if (old->alias && old->alias != (void *)old->start)
		munmap(old->alias, old->bytes);
	if (old->start)
		munmap((void *)old->start, old->bytes);
	free(old->blocks);
	free(old);
}

static struct reservation *reserve(uint64_t hint, uint64_t bytes, uint64_t alignment)
{
	struct reservation *new = calloc(1, sizeof(*new));

	if (!new)
		return NULL;
	new->bytes = bytes;
	new->start = (uintptr_t)address_space(hint, bytes, alignment);
	new->alias = knobs.unreadable ? address_space(0, bytes, SIM_BLOCK) : (void *)new->start;
	new->blocks = calloc(bytes / SIM_BLOCK, sizeof(struct mapping *));
	if (!new->start || !new->alias || !new->blocks) {
		drop(new);
		return NULL;
	}
	pthread_mutex_lock(&vmm_lock);
	new->next = reservations;
	reservations = new;
	any = 1;
	pthread_mutex_unlock(&vmm_lock);
	return new;
}

static void unreserve(struct reservation **place)
{
	struct reservation *old = *place;

	*place = old->next;
	drop(old);
}

CUresult sim_cuMemAddressReserve(
	CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	struct reservation *new;

	if (!ptr || !size || size % SIM_BLOCK || flags || alignment & (alignment - 1))
		return CUDA_ERROR_INVALID_VALUE;
	new = reserve(addr, size, larger(alignment, SIM_BLOCK));
	if (!new)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = new->start;
	return CUDA_SUCCESS;
}

static bool is_empty(const struct reservation *reservation)
{
	uint64_t i;

	for (i = 0; i < reservation->bytes / SIM_BLOCK; i++)
		if (reservation->blocks[i])
			return false;
	return true;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct reservation **place;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&vmm_lock);
	place = reservation_at(ptr);
	if (place && (*place)->start == ptr && (*place)->bytes == size && !(*place)->device &&
		is_empty(*place)) {
		unreserve(place);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

/* ---- what an address is ---- */

bool vmm_find(uint64_t address, struct found *found)
{
	struct mapping *mapping;

	if (!any)
		return false;
	pthread_mutex_lock(&vmm_lock);
	mapping = mapping_at(address);
	if (mapping) {
		found->heap = mapping->physical ? &vmm_heap : &imported_heap;
		found->arena = NULL;
		found->device = mapping->physical ? mapping->physical->device
						  : (*reservation_at(address))->device;
		found->start = mapping->start;
		found->bytes = mapping->bytes;
		if (!mapping->physical) {
			found->start += (*reservation_at(address))->from;
			found->bytes = (*reservation_at(address))->length;
		}
		found->id = mapping->id;
		found->freeing = false;
	}
	pthread_mutex_unlock(&vmm_lock);
	return mapping != NULL;
}

bool vmm_reserved(uint64_t address)
{
	bool reserved;

	if (!any)
		return false;
	pthread_mutex_lock(&vmm_lock);
	reserved = reservation_at(address) != NULL;
	pthread_mutex_unlock(&vmm_lock);
	return reserved;
}

/* Mappings that follow each other are one piece for a copy. */
void *vmm_bytes(uint64_t address, uint64_t bytes)
{
	struct mapping *mapping;
	char *place = NULL;
	uint64_t end = address + bytes;

	pthread_mutex_lock(&vmm_lock);
	mapping = mapping_at(address);
	if (mapping && mapping->accessible && mapping->place)
		place = (char *)mapping->place + (address - mapping->start);
	while (place && mapping->start + mapping->bytes < end) {
		mapping = mapping_at(mapping->start + mapping->bytes);
		if (!mapping || !mapping->accessible || !mapping->place)
			place = NULL;
	}
	pthread_mutex_unlock(&vmm_lock);
	return place;
}

/* ---- map and unmap ---- */

static void *show(const struct reservation *reservation, uint64_t address, uint64_t bytes, int fd,
	uint64_t offset)
{
	char *place = (char *)reservation->alias + (address - reservation->start);

	place = mmap(
		place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
	return place == MAP_FAILED ? NULL : place;
}

static void hide(const struct mapping *mapping)
{
	mmap(mapping->place, mapping->bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static bool fits(struct reservation *reservation, uint64_t start, uint64_t bytes)
{
	uint64_t i, first = (start - reservation->start) / SIM_BLOCK;

	if (start - reservation->start + bytes > reservation->bytes)
		return false;
	for (i = 0; i < bytes / SIM_BLOCK; i++)
		if (reservation->blocks[first + i])
			return false;
	return true;
}

static CUresult map(struct reservation *reservation, uint64_t start, uint64_t bytes,
	struct physical *physical, int fd, uint64_t offset)
{
	struct mapping *mapping = calloc(1, sizeof(*mapping));
	uint64_t i, first = (start - reservation->start) / SIM_BLOCK;
	void *place = fd >= 0 ? show(reservation, start, bytes, fd, offset) : NULL;

	if (!mapping || (fd >= 0 && !place)) {
		free(mapping);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*mapping = (struct mapping){ .start = start,
		.bytes = bytes,
		.physical = physical,
		.place = place,
		.id = next_id++ };
	for (i = 0; i < bytes / SIM_BLOCK; i++)
		reservation->blocks[first + i] = mapping;
	return CUDA_SUCCESS;
}

static void unmap(struct reservation *reservation, struct mapping *mapping)
{
	uint64_t i, first = (mapping->start - reservation->start) / SIM_BLOCK;

	for (i = 0; i < mapping->bytes / SIM_BLOCK; i++)
		reservation->blocks[first + i] = NULL;
	if (mapping->place)
		hide(mapping);
	if (mapping->physical) {
		mapping->physical->mappings--;
		physical_release(mapping->physical);
	}
	free(mapping);
}

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct physical *physical = physical_get(handle);
	struct reservation **place;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!physical || !size || size % SIM_BLOCK || ptr % SIM_BLOCK || offset || flags ||
		size > physical->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	place = reservation_at(ptr);
	if (place && !(*place)->device && fits(*place, ptr, size))
		result = map(*place, ptr, size, physical, physical_file(physical), 0);
	if (result == CUDA_SUCCESS)
		physical->mappings++;
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

/* A range that starts and ends with whole mappings; what is between may be empty. */
static bool whole(uint64_t start, uint64_t bytes)
{
	struct mapping *first = mapping_at(start), *last = mapping_at(start + bytes - 1);

	return first && last && first->start == start && last->start + last->bytes == start + bytes;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct reservation **place;
	struct mapping *mapping;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	uint64_t at;

	if (!size || size % SIM_BLOCK || ptr % SIM_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	place = reservation_at(ptr);
	if (place && !(*place)->device && size <= (*place)->start + (*place)->bytes - ptr &&
		whole(ptr, size)) {
		for (at = ptr; at < ptr + size; at += SIM_BLOCK) {
			mapping = mapping_at(at);
			if (mapping)
				unmap(*place, mapping);
		}
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

/* ---- access ---- */

static bool location_is_valid(const CUmemLocation *location)
{
	return location->type != CU_MEM_LOCATION_TYPE_DEVICE || device_get(location->id);
}

static void allow(uint64_t start, uint64_t bytes, const CUmemAccessDesc *desc)
{
	struct mapping *mapping;
	uint64_t at;

	for (at = start; at < start + bytes; at += SIM_BLOCK) {
		mapping = mapping_at(at);
		if (!mapping)
			continue;
		if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
			mapping->access[device_get(desc->location.id)->index] = desc->flags;
		mapping->accessible = desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	size_t i;

	if (!desc || !count || !size || size % SIM_BLOCK || ptr % SIM_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!location_is_valid(&desc[i].location))
			return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&vmm_lock);
	if (whole(ptr, size)) {
		for (i = 0; i < count; i++)
			allow(ptr, size, &desc[i]);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

CUresult sim_cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct mapping *mapping;

	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
		!device_get(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	mapping = mapping_at(ptr);
	if (mapping)
		*flags = mapping->access[device_get(location->id)->index];
	pthread_mutex_unlock(&vmm_lock);
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct mapping *mapping;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm_lock);
	mapping = mapping_at((uintptr_t)addr);
	if (mapping && mapping->physical) {
		mapping->physical->handles++;
		*handle = (uintptr_t)mapping->physical;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

/* ---- somebody else's bytes ---- */

CUresult vmm_map_file(const struct vmm_file *file, CUdeviceptr *address)
{
	uint64_t whole_bytes = round_up(file->from + file->bytes, SIM_BLOCK);
	struct reservation *new = reserve(0, whole_bytes, SIM_BLOCK);
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!new)
		return result;
	pthread_mutex_lock(&vmm_lock);
	new->device = file->device;
	new->from = file->from;
	new->length = file->bytes;
	result = map(new, new->start, whole_bytes, NULL, file->fd, file->offset);
	if (result == CUDA_SUCCESS)
		new->blocks[0]->accessible = true;
	*address = new->start;
	pthread_mutex_unlock(&vmm_lock);
	return result;
}

CUresult vmm_unmap_file(CUdeviceptr address)
{
	struct reservation **place;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&vmm_lock);
	place = reservation_at(address);
	if (place && (*place)->device && (*place)->start == address) {
		unmap(*place, (*place)->blocks[0]);
		unreserve(place);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&vmm_lock);
	return result;
}
