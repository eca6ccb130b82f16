/*
 * sim_host.c - page-locked host memory, allocated or registered.
 */
#include "sim_host.h"
#include "sim_stream.h"

#include <stdlib.h>

struct registration {
	struct registration *next;
	uint64_t start, bytes;
	unsigned flags;
	struct context *context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration *registrations;
static _Atomic int registered;

/* ---- allocated ---- */

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct context *context;
	CUdeviceptr address;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS || capture_refuses(&result))
		return result;
	if (!pp || Flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	result = heap_alloc(&context->owner->host, bytesize, &address);
	if (result == CUDA_SUCCESS)
		*pp = (void *)address;
	return result;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return sim_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult sim_cuMemAllocHost(void **pp, unsigned int bytesize)
{
	return sim_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult sim_cuMemFreeHost(void *p)
{
	CUresult result = heap_free((uintptr_t)p, FAMILY(host));

	if (result != CUDA_SUCCESS)
		count_one(&usage_process()->bad_frees);
	return result;
}

/* ---- registered ---- */

static struct registration **registration_of(uint64_t address)
{
	struct registration **place;

	for (place = &registrations; *place; place = &(*place)->next)
		if (address - (*place)->start < (*place)->bytes)
			return place;
	return NULL;
}

bool host_registered(uint64_t address, struct found *found)
{
	struct registration **place;

	if (!registered)
		return false;
	pthread_mutex_lock(&lock);
	place = registration_of(address);
	if (place && found) {
		found->heap = NULL;
		found->device = NULL;
		found->freeing = false;
		found->arena = NULL;
		found->start = (*place)->start;
		found->bytes = (*place)->bytes;
		found->id = (*place)->flags;
	}
	pthread_mutex_unlock(&lock);
	return place != NULL;
}

static void host_usage(bool added, uint64_t bytes)
{
	pthread_mutex_lock(host_arena.lock);
	if (added)
		usage_add(&devices[0], FAMILY_host, bytes);
	else
		usage_remove(&devices[0], FAMILY_host, bytes);
	pthread_mutex_unlock(host_arena.lock);
}

static CUresult add(struct registration *new)
{
	CUresult result = CUDA_SUCCESS;
	struct registration *old;

	pthread_mutex_lock(&lock);
	for (old = registrations; old; old = old->next)
		if (new->start < old->start + old->bytes && old->start < new->start + new->bytes)
			result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (result == CUDA_SUCCESS) {
		new->next = registrations;
		registrations = new;
		registered++;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct registration *new;
	struct context *context;
	CUresult result = context_current(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!p || !bytesize || Flags & ~15u || (uintptr_t)p + bytesize < (uintptr_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	if (arena_of((uintptr_t)p))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	new = calloc(1, sizeof(*new));
	if (!new)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*new = (struct registration){ NULL, (uintptr_t)p, bytesize, Flags, context->owner };
	result = add(new);
	if (result == CUDA_SUCCESS)
		host_usage(true, bytesize);
	else
		free(new);
	return result;
}

CUresult sim_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return sim_cuMemHostRegister_v2(p, bytesize, Flags);
}

static void drop(struct registration **place)
{
	struct registration *old = *place;

	*place = old->next;
	registered--;
	host_usage(false, old->bytes);
	free(old);
}

CUresult sim_cuMemHostUnregister(void *p)
{
	struct registration **place;
	CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	place = registration_of((uintptr_t)p);
	if (place && (*place)->start == (uintptr_t)p) {
		drop(place);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* The context that registered it is gone. */
void host_forget(const struct context *context)
{
	struct registration **place;

	pthread_mutex_lock(&lock);
	for (place = &registrations; *place;) {
		if ((*place)->context == context)
			drop(place);
		else
			place = &(*place)->next;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- addresses ---- */

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct found found;

	if (!pdptr || Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!host_registered((uintptr_t)p, &found) &&
		(!memory_find((uintptr_t)p, &found) || found.heap->family != FAMILY_host))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
	(void)pdptr, (void)p, (void)Flags;
	return CUDA_ERROR_INVALID_VALUE; /* host memory lies above what 32 bits can say */
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct found found;

	if (!pFlags)
		return CUDA_ERROR_INVALID_VALUE;
	if (host_registered((uintptr_t)p, &found)) {
		*pFlags = found.id | CU_MEMHOSTALLOC_DEVICEMAP;
		return CUDA_SUCCESS;
	}
	if (!memory_find((uintptr_t)p, &found) || found.heap->family != FAMILY_host)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}
