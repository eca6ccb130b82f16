/*
 * ops_import.c - memory of another process, by each of the ways to get it; green contexts.
 */
#include "model.h"

#include <fcntl.h>
#include <unistd.h>

static void ipc(const struct step *s)
{
	int place = place_empty(T_IPC, s->a);
	CUipcMemHandle handle = world->exporter->ipc;
	CUdeviceptr pointer = 0;
	CUresult result;

	if (place < 0 || s->b % 2) {
		pointer = pick(T_IPC, s->a, &place);
		place_settle(T_IPC, place, CALL(cuIpcCloseMemHandle, pointer));
		return;
	}
	if (s->b % 23 == 0)
		handle.reserved[0] ^= 1;
	if (s->c & 1)
		result = CALL(cuIpcOpenMemHandle, &pointer, handle, 1);
	else
		result = CALL(cuIpcOpenMemHandle_v2, &pointer, handle, s->b % 19 != 0);
	if (result == CUDA_SUCCESS)
		place_fill(T_IPC, place, pointer, BLOCK);
}

static void physical(const struct step *s)
{
	int place = place_empty(T_PHYSICAL, s->a);
	CUmemGenericAllocationHandle handle = 0;
	int fd = s->b % 7 ? world->exporter->physical_fd : world->exporter->bytes_fd;

	if (place >= 0 && CALL(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS)
		place_fill(T_PHYSICAL, place, handle, BLOCK);
}

/* The pool cannot allocate; its pointers are freed like others. */
static void pool_import(const struct step *s)
{
	int place = place_empty(T_POOL_IMPORT, s->a), empty = place_empty(T_MEMORY, s->b);
	CUmemPoolPtrExportData pointer = world->exporter->pointer;
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;

	if (place >= 0 && s->c % 4 == 0) {
		if (CALL(cuMemPoolImportFromShareableHandle, &pool,
			(void *)(intptr_t)world->exporter->pool_fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS)
			place_fill(T_POOL_IMPORT, place, (uint64_t)pool, 0);
		return;
	}
	pool = (CUmemoryPool)pick(T_POOL_IMPORT, s->a, &place);
	if (s->c % 4 == 1) {
		place_settle(T_POOL_IMPORT, place, CALL(cuMemPoolDestroy, pool));
	} else if (empty >= 0 &&
		CALL(cuMemPoolImportPointer, &address, pool, &pointer) == CUDA_SUCCESS) {
		place_fill_free(T_MEMORY, empty, address, BLOCK);
	}
}

static void external(const struct step *s)
{
	int place = place_empty(T_EXTERNAL, s->a);
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.size = BLOCK };
	CUexternalMemory memory = NULL;

	if (place < 0 || s->b % 2) {
		memory = (CUexternalMemory)pick(T_EXTERNAL, s->a, &place);
		place_settle(T_EXTERNAL, place, CALL(cuDestroyExternalMemory, memory));
		return;
	}
	/* The driver takes the descriptor over, if it takes it. */
	desc.handle.fd = fcntl(world->exporter->bytes_fd, F_DUPFD_CLOEXEC, 0);
	if (CALL(cuImportExternalMemory, &memory, &desc) == CUDA_SUCCESS)
		place_fill(T_EXTERNAL, place, (uint64_t)memory, BLOCK);
	else
		close(desc.handle.fd);
}

/* It goes with the context of the external memory, whatever is current. */
static void fill_part(enum table_kind kind, int empty, uint64_t handle, uint64_t bytes, int external)
{
	place_fill(kind, empty, handle, bytes);
	table_of(kind)->owner[empty] = external < 0 ? NULL : table_of(T_EXTERNAL)->owner[external];
}

static void external_map(const struct step *s)
{
	int place, empty = place_empty(T_MEMORY, s->b);
	CUexternalMemory memory = (CUexternalMemory)pick(T_EXTERNAL, s->a, &place);
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .size = s->c % BLOCK, .offset = s->c % 4096 };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC mipmap = { .arrayDesc = { .Width = 64, .Height = 64,
		.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 }, .numLevels = 1 };
	CUmipmappedArray array = NULL;
	CUdeviceptr address = 0;

	if (s->b % 4 == 0) {
		empty = place_empty(T_MIPMAP, s->c);
		if (empty >= 0 && CALL(cuExternalMemoryGetMappedMipmappedArray, &array, memory,
			&mipmap) == CUDA_SUCCESS)
			fill_part(T_MIPMAP, empty, (uint64_t)array, 0, place);
		return;
	}
	if (empty >= 0 && CALL(cuExternalMemoryGetMappedBuffer, &address, memory, &buffer) ==
		CUDA_SUCCESS)
		fill_part(T_MEMORY, empty, address, buffer.size, place);
}

static void green(const struct step *s)
{
	int place = place_empty(T_GREEN, s->a), device = (int)(s->b >> 4) % SEEN_DEVICES;
	CUgreenCtx context = NULL;
	CUdevResourceDesc desc;
	CUdevResource resource;

	if (!world->alone)
		return; /* what is in them is not told from what is in the primary context */
	if (place < 0 || place > 3 || s->b % 2) {
		context = (CUgreenCtx)pick(T_GREEN, s->a, &place);
		place_settle(T_GREEN, place, CALL(cuGreenCtxDestroy, context));
		return;
	}
	if (cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM) ||
		cuDevResourceGenerateDesc(&desc, &resource, 1))
		return;
	if (CALL(cuGreenCtxCreate, &context, desc, device, s->b % 13 ?
		CU_GREEN_CTX_DEFAULT_STREAM : 0) == CUDA_SUCCESS)
		place_fill(T_GREEN, place, (uint64_t)context, 0);
}

static void green_enter(const struct step *s)
{
	int place;
	CUgreenCtx green_context = (CUgreenCtx)pick(T_GREEN, s->a, &place);
	CUcontext context = NULL;

	if (CALL(cuCtxFromGreenCtx, &context, green_context) == CUDA_SUCCESS)
		CALL(cuCtxSetCurrent, context);
}

const struct operation operations_import[] = {
	{ "ipc", FAM_imported, 4, ipc, false },
	{ "physical_import", FAM_imported, 1, physical, false },
	{ "pool_import", FAM_imported, 4, pool_import, false },
	{ "external", FAM_imported, 3, external, false },
	{ "external_map", FAM_imported, 3, external_map, false },
	{ "green", FAM_green, 2, green, true },
	{ "green_enter", FAM_green, 4, green_enter, true },
	{ 0 },
};
