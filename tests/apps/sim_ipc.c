/*
 * sim_ipc.c - two processes share memory: by IPC handle, and by the descriptor of a physical
 * handle.
 *
 * The first process starts itself again with both, and checks what the other one wrote.
 */
#include "sim_check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const CUmemAccessDesc writable = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUdeviceptr p;

	OK(cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(p, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(p, 2 * MIB, &writable, 1));
	return p;
}

static int importer(const char *hex, int fd)
{
	CUmemGenericAllocationHandle physical;
	CUipcMemHandle handle;
	CUdeviceptr p, again;
	char bytes[8] = { 0 };
	unsigned value;
	size_t i;

	check_start();
	for (i = 0; i < sizeof(handle); i++) {
		SAME(sscanf(hex + 2 * i, "%2x", &value), 1);
		handle.reserved[i] = (char)value;
	}
	OK(cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	SAME(again, p);
	OK(cuMemcpyDtoH_v2(bytes, p, 6));
	SAME(strcmp(bytes, "hello"), 0);
	OK(cuMemcpyHtoD_v2(p, "HELLO", 6));
	SAME(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuIpcCloseMemHandle(p));
	OK(cuMemcpyDtoH_v2(bytes, p, 6));
	OK(cuIpcCloseMemHandle(p));
	SAME(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemImportFromShareableHandle(
		&physical, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	p = map(physical);
	OK(cuMemcpyDtoH_v2(bytes, p + 100, 6));
	SAME(strcmp(bytes, "world"), 0);
	OK(cuMemcpyHtoD_v2(p + 100, "WORLD", 6));
	return 0;
}

int main(int argc, char **argv)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle physical;
	char hex[2 * sizeof(CUipcMemHandle) + 1], number[16], bytes[8];
	CUdeviceptr small, other, mapped;
	CUipcMemHandle handle;
	int fd, status;
	size_t i;

	if (argc == 3)
		return importer(argv[1], atoi(argv[2]));
	check_start();
	OK(cuMemAlloc_v2(&other, 1000)); /* shares the block */
	OK(cuMemAlloc_v2(&small, 1000));
	OK(cuMemcpyHtoD_v2(small, "hello", 6));
	OK(cuMemcpyHtoD_v2(other, "other", 6));
	OK(cuIpcGetMemHandle(&handle, small));
	SAME(cuIpcOpenMemHandle_v2(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		CUDA_ERROR_INVALID_CONTEXT);
	for (i = 0; i < sizeof(handle); i++)
		sprintf(hex + 2 * i, "%02x", (unsigned char)handle.reserved[i]);
	OK(cuMemCreate(&physical, 2 * MIB, &prop, 0));
	mapped = map(physical);
	OK(cuMemcpyHtoD_v2(mapped + 100, "world", 6));
	OK(cuMemExportToShareableHandle(
		&fd, physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	SAME(fcntl(fd, F_SETFD, 0), 0);
	sprintf(number, "%d", fd);
	if (!fork()) {
		execl("/proc/self/exe", argv[0], hex, number, (char *)NULL);
		_exit(127);
	}
	TRUE(wait(&status) > 0);
	SAME(status, 0);
	OK(cuMemcpyDtoH_v2(bytes, small, 6));
	SAME(strcmp(bytes, "HELLO"), 0);
	OK(cuMemcpyDtoH_v2(bytes, other, 6));
	SAME(strcmp(bytes, "other"), 0);
	OK(cuMemcpyDtoH_v2(bytes, mapped + 100, 6));
	SAME(strcmp(bytes, "WORLD"), 0);
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(other));
	return 0;
}
