/* flags: -D__CUDA_API_VERSION_INTERNAL */
/*
 * frees.c - every call that frees, each given what it may not free: `frees CASE`, one of
 *
 *	null       nothing at all
 *	twice      what it has freed before
 *	interior   an address, or a handle, into the middle of what is live
 *	unknown    what nobody ever handed out
 *	other      what is live, but is freed by another call
 *	imported   memory of another process or API, of which some is its to free
 *
 * and `frees late CALL`: what CALL may free, by a destructor that runs after the driver's: late.so of the
 * folder it is in.
 *
 * It says what the driver answered, a line a call. tests/t/frees.bats compares that with a run of its own,
 * and looks at report, ledger and call log.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MiB (1ull << 20)
#define UNKNOWN 0x7123456000ull

static void need(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, result);
	exit(1);
}

#define OK(call) need(#call, call)

/* ---- things that are live ---- */

static uint64_t device_memory(void)
{
	CUdeviceptr pointer;

	OK(cuMemAlloc_v2(&pointer, MiB));
	return pointer;
}

static uint64_t device_memory_v1(void)
{
	CUdeviceptr_v1 pointer;

	OK(cuMemAlloc(&pointer, MiB));
	return pointer;
}

static uint64_t stream_ordered(void)
{
	CUdeviceptr pointer;

	OK(cuMemAllocAsync(&pointer, MiB, NULL));
	return pointer;
}

static uint64_t pinned(void)
{
	void *pointer;

	OK(cuMemHostAlloc(&pointer, MiB, 0));
	return (uint64_t)pointer;
}

static uint64_t registered(void)
{
	void *pointer = aligned_alloc(4096, MiB);

	OK(cuMemHostRegister_v2(pointer, MiB, 0));
	return (uint64_t)pointer;
}

/* For the call whose pointers are short. */
static uint64_t registered_low(void)
{
	void *pointer = mmap((void *)0x30000000, MiB, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if ((uint64_t)pointer != (uint32_t)(uint64_t)pointer)
		exit(2);
	OK(cuMemHostRegister_v2(pointer, MiB, 0));
	return (uint64_t)pointer;
}

static const CUDA_ARRAY3D_DESCRIPTOR shape = {
	.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };

static uint64_t array(void)
{
	CUarray handle;

	OK(cuArray3DCreate_v2(&handle, &shape));
	return (uint64_t)handle;
}

static uint64_t mipmap(void)
{
	CUmipmappedArray handle;

	OK(cuMipmappedArrayCreate(&handle, &shape, 2));
	return (uint64_t)handle;
}

static uint64_t physical(void)
{
	CUmemAllocationProp on_device = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, 2 * MiB, &on_device, 0));
	return handle;
}

static uint64_t range(void)
{
	CUdeviceptr address;

	OK(cuMemAddressReserve(&address, 4 * MiB, 0, 0, 0));
	return address;
}

/* Its mapping is all that keeps it. */
static uint64_t mapped(void)
{
	CUmemGenericAllocationHandle handle = physical();
	CUdeviceptr address = range();

	OK(cuMemMap(address, 2 * MiB, 0, handle, 0));
	OK(cuMemRelease(handle));
	return address;
}

static int exported_physical(void)
{
	int fd;

	OK(cuMemExportToShareableHandle(&fd, physical(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	return fd;
}

static uint64_t external(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.size = 2 * MiB, .handle.fd = exported_physical() };
	CUexternalMemory memory;

	OK(cuImportExternalMemory(&memory, &from));
	return (uint64_t)memory;
}

static uint64_t external_buffer(void)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = MiB };
	CUdeviceptr pointer;

	OK(cuExternalMemoryGetMappedBuffer(&pointer, (CUexternalMemory)external(), &part));
	return pointer;
}

static uint64_t external_mipmap(void)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC part = { .arrayDesc = shape, .numLevels = 2 };
	CUmipmappedArray handle;

	OK(cuExternalMemoryGetMappedMipmappedArray(&handle, (CUexternalMemory)external(), &part));
	return (uint64_t)handle;
}

/* ---- memory of another process, which is not looked at ---- */

static CUipcMemHandle ipc_handle;

static void exporter(void)
{
	CUdeviceptr pointer;
	char end;

	OK(cuMemAlloc_v2(&pointer, MiB));
	OK(cuIpcGetMemHandle(&ipc_handle, pointer));
	if (write(STDOUT_FILENO, &ipc_handle, sizeof(ipc_handle)) < 0 || read(STDIN_FILENO, &end, 1) < 0)
		exit(2);
}

/* Before CUDA begins here. It ends with us, when the pipe closes. */
static void start_exporter(void)
{
	int out[2], in[2];

	if (pipe(out) || pipe(in))
		exit(2);
	if (fork() == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(in[0], STDIN_FILENO);
		close(in[1]);
		unsetenv("LD_PRELOAD");
		unsetenv("CUWARD_SIM_TRUTH");
		unsetenv("CUWARD_SIM_CALL_LOG");
		execl("/proc/self/exe", "frees", "exporter", NULL);
		_exit(127);
	}
	close(out[1]);
	if (read(out[0], &ipc_handle, sizeof(ipc_handle)) != sizeof(ipc_handle))
		exit(2);
}

static uint64_t ipc(void)
{
	CUdeviceptr pointer;

	OK(cuIpcOpenMemHandle_v2(&pointer, ipc_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	return pointer;
}

/* ---- the calls ---- */

#define FREE(name, type) \
	static CUresult free_##name(uint64_t what) \
	{ \
		return name((type)what); \
	}

FREE(cuMemFree_v2, CUdeviceptr)
FREE(cuMemFree, CUdeviceptr_v1)
FREE(cuMemFreeHost, void *)
FREE(cuMemHostUnregister, void *)
FREE(cuArrayDestroy, CUarray)
FREE(cuMipmappedArrayDestroy, CUmipmappedArray)
FREE(cuMemRelease, CUmemGenericAllocationHandle)
FREE(cuIpcCloseMemHandle, CUdeviceptr)
FREE(cuDestroyExternalMemory, CUexternalMemory)

static CUresult free_cuMemFreeAsync(uint64_t what)
{
	return cuMemFreeAsync(what, NULL);
}

static CUresult free_cuMemFreeAsync_ptsz(uint64_t what)
{
	return cuMemFreeAsync_ptsz(what, NULL);
}

static CUresult free_cuMemUnmap(uint64_t what)
{
	return cuMemUnmap(what, 2 * MiB);
}

static CUresult free_cuMemAddressFree(uint64_t what)
{
	return cuMemAddressFree(what, 4 * MiB);
}

static const struct row {
	const char *name;
	CUresult (*give)(uint64_t);
	uint64_t (*take)(void);
	uint64_t (*other)(void);
	uint64_t (*imported)(void);
} rows[] = {
#define ROW(name, take, other, imported) { #name, free_##name, take, other, imported }
	ROW(cuMemFree_v2, device_memory, pinned, ipc),
	ROW(cuMemFree, device_memory_v1, registered_low, NULL),
	ROW(cuMemFreeAsync, stream_ordered, registered, ipc),
	ROW(cuMemFreeAsync_ptsz, stream_ordered, pinned, external_buffer),
	ROW(cuMemFreeHost, pinned, device_memory, ipc),
	ROW(cuMemHostUnregister, registered, pinned, ipc),
	ROW(cuArrayDestroy, array, mipmap, external_mipmap),
	ROW(cuMipmappedArrayDestroy, mipmap, array, external_mipmap),
	ROW(cuMemRelease, physical, device_memory, external),
	ROW(cuIpcCloseMemHandle, ipc, device_memory, external_buffer),
	ROW(cuMemUnmap, mapped, device_memory, ipc),
	ROW(cuMemAddressFree, range, device_memory, ipc),
	ROW(cuDestroyExternalMemory, external, array, external_mipmap),
#undef ROW
};

static uint64_t what_of(const struct row *row, const char *wrong)
{
	uint64_t what;

	if (strcmp(wrong, "null") == 0)
		return 0;
	if (strcmp(wrong, "unknown") == 0)
		return UNKNOWN;
	if (strcmp(wrong, "other") == 0)
		return row->other();
	if (strcmp(wrong, "imported") == 0)
		return row->imported();
	what = row->take();
	if (strcmp(wrong, "interior") == 0)
		return what + 256;
	need(row->name, row->give(what));
	return what;
}

static const struct row *late_row;
static uint64_t late_what;

static void late(void)
{
	printf("%s %d\n", late_row->name, late_row->give(late_what));
	fflush(stdout);
}

static int free_late(const char *name)
{
	void (**hook)(void);

	for (late_row = rows; strcmp(late_row->name, name) != 0;)
		late_row++;
	late_what = late_row->take();
	hook = dlsym(dlopen("./late.so", RTLD_NOW), "hook");
	*hook = late;
	return 0;
}

int main(int argc, char **argv)
{
	CUcontext context;

	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "exporter") != 0)
		start_exporter();
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	if (strcmp(argv[1], "exporter") == 0) {
		exporter();
		return 0;
	}
	if (argc == 3)
		return free_late(argv[2]);
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++)
		if (row->imported || strcmp(argv[1], "imported") != 0)
			printf("%s %d\n", row->name, row->give(what_of(row, argv[1])));
	return 0;
}
