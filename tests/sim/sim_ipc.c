/*
 * sim_ipc.c - device memory of another process, by a handle of 64 bytes.
 *
 * The exporter turns the blocks around the allocation into a memfd; the importer opens it by way of
 * the exporter's /proc entry and maps it. Opened again it is the same address, with a count.
 */
#include "sim_external.h"
#include "sim_vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x63706973u

struct ipc {
	uint32_t magic;
	int32_t pid, fd, device;
	uint64_t offset, bytes; /* of the allocation, in the file */
};
_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "a handle holds all of it");

/* What this process opened. */
struct opened {
	struct opened *next;
	struct ipc ipc;
	CUdeviceptr base, address;
	unsigned count;
	struct context *context; /* that opened it, and takes it with it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all;

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct ipc ipc = { .magic = MAGIC, .pid = (int32_t)getpid() };
	struct context *context;
	struct found found;
	CUresult result = context_current(&context);
	uint64_t offset;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !memory_find(dptr, &found) || !found.arena ||
		found.heap->family != FAMILY_device)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(found.arena->lock);
	ipc.fd = span_share(found.arena,
		found.arena->table[(found.start - found.arena->base) / SIM_BLOCK], &offset);
	pthread_mutex_unlock(found.arena->lock);
	if (ipc.fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	ipc.device = found.arena->device->index;
	ipc.offset = found.start - offset;
	ipc.bytes = found.bytes;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &ipc, sizeof(ipc));
	return CUDA_SUCCESS;
}

static struct opened **find_opened(const struct ipc *ipc)
{
	struct opened **place;

	for (place = &all; *place; place = &(*place)->next)
		if (!memcmp(&(*place)->ipc, ipc, sizeof(*ipc)))
			return place;
	return NULL;
}

static CUresult open_new(const struct ipc *ipc, struct context *context, CUdeviceptr *address)
{
	struct opened *new = calloc(1, sizeof(*new));
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && new)
		result = vmm_map_file(&(struct vmm_file){ fd, ipc->offset / SIM_BLOCK * SIM_BLOCK,
					      ipc->offset % SIM_BLOCK, ipc->bytes,
					      &devices[ipc->device] },
			&new->base);
	if (fd >= 0)
		close(fd);
	if (result != CUDA_SUCCESS) {
		free(new);
		return result;
	}
	new->ipc = *ipc;
	new->context = context;
	new->count = 1;
	new->address = new->base + ipc->offset % SIM_BLOCK;
	new->next = all;
	all = new;
	imported_add(&devices[ipc->device], ipc->bytes);
	*address = new->address;
	return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct context *context;
	struct opened **place;
	struct ipc ipc;
	CUresult result = context_current(&context);

	memcpy(&ipc, &handle, sizeof(ipc));
	if (result != CUDA_SUCCESS)
		return result;
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || ipc.magic != MAGIC ||
		ipc.device < 0 || ipc.device >= device_count)
		return CUDA_ERROR_INVALID_VALUE;
	if (ipc.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* not in the process it came from */
	pthread_mutex_lock(&lock);
	place = find_opened(&ipc);
	if (place && (*place)->context != context->owner) {
		result = CUDA_ERROR_INVALID_CONTEXT;
	} else if (place) {
		(*place)->count++;
		*pdptr = (*place)->address;
	} else {
		result = open_new(&ipc, context->owner, pdptr);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return sim_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

static void close_one(struct opened **place)
{
	struct opened *old = *place;

	imported_remove(&devices[old->ipc.device], old->ipc.bytes);
	vmm_unmap_file(old->base);
	*place = old->next;
	free(old);
}

void ipc_forget(const struct context *context)
{
	struct opened **place;

	pthread_mutex_lock(&lock);
	for (place = &all; *place;) {
		if ((*place)->context == context)
			close_one(place);
		else
			place = &(*place)->next;
	}
	pthread_mutex_unlock(&lock);
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct opened **place, *old;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (place = &all; (old = *place) && old->address != dptr; place = &old->next)
		;
	if (old && !--old->count)
		close_one(place);
	if (old)
		result = CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return result;
}
