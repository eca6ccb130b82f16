/*
 * exporter.c - another process whose memory can be imported. It ends when this one does.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static int to_child;

static void need(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "exporter: %s answers %d\n", what, (int)result);
	_exit(1);
}
#define NEED(call) need(call, #call)

static void make(struct exporter *exporter)
{
	CUmemPoolProps pool_props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle physical;
	CUdeviceptr pointer;
	CUmemoryPool pool;
	CUcontext context;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc_v2(&pointer, BLOCK));
	NEED(cuIpcGetMemHandle(&exporter->ipc, pointer));
	NEED(cuMemCreate(&physical, 2 * BLOCK, &prop, 0));
	NEED(cuMemExportToShareableHandle(&exporter->physical_fd, physical,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemPoolCreate(&pool, &pool_props));
	NEED(cuMemPoolExportToShareableHandle(&exporter->pool_fd, pool,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemAllocFromPoolAsync(&pointer, MiB, pool, 0));
	NEED(cuMemPoolExportPointer(&exporter->pointer, pointer));
}

static void send_all(int socket, struct exporter *exporter)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec bytes = { exporter, sizeof(*exporter) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room,
		.msg_controllen = sizeof(room) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int fds[2] = { exporter->physical_fd, exporter->pool_fd };

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	if (sendmsg(socket, &message, 0) < 0)
		_exit(1);
}

static bool receive_all(int socket, struct exporter *exporter)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec bytes = { exporter, sizeof(*exporter) };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room,
		.msg_controllen = sizeof(room) };
	struct cmsghdr *header;
	int fds[2];

	if (recvmsg(socket, &message, 0) != (ssize_t)sizeof(*exporter))
		return false;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_len != CMSG_LEN(sizeof(fds)))
		return false;
	memcpy(fds, CMSG_DATA(header), sizeof(fds));
	exporter->physical_fd = fds[0];
	exporter->pool_fd = fds[1];
	return true;
}

void exporter_start(struct exporter *exporter)
{
	int pair[2];

	memset(exporter, 0, sizeof(*exporter));
	exporter->bytes_fd = memfd_create("external", MFD_CLOEXEC);
	if (ftruncate(exporter->bytes_fd, 2 * BLOCK) ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		exit(3);
	child = fork();
	if (child == 0) {
		char end;

		close(pair[0]);
		make(exporter);
		send_all(pair[1], exporter);
		while (read(pair[1], &end, 1) < 0)
			;
		_exit(0);
	}
	close(pair[1]);
	to_child = pair[0];
	exporter->there = child > 0 && receive_all(pair[0], exporter);
	if (!exporter->there)
		exit(3);
}

void exporter_stop(void)
{
	if (child <= 0)
		return;
	close(to_child);
	waitpid(child, NULL, 0);
}
