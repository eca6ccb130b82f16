/*
 * leap.c - a signal comes while other users' files are read, and its handler jumps out: prints the answers to
 * that request, if it has any, and to the next ones.
 *
 *	leap COUNT: so many times
 */
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int armed, leaps;

/* Instead of libc's, for all of this process. */
__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
	unsigned long local_count, const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	if (armed) {
		armed = 0;
		raise(SIGUSR1);
	}
	return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}

static void jump(int signal)
{
	leaps++;
	siglongjmp(back, signal);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	CUdeviceptr pointer;
	CUcontext context;
	size_t free_bytes, total;

	signal(SIGUSR1, jump);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 1;
	for (int i = 0; i < count; i++) {
		usleep(5000); /* without a lease, so that others are read */
		armed = 1;
		if (sigsetjmp(back, 1) == 0)
			cuMemAlloc(&pointer, 1 << 16);
	}
	printf("leaps %d answers %d %d\n", leaps, cuMemAlloc(&pointer, 1 << 16), cuMemGetInfo(&free_bytes, &total));
	return 0;
}
