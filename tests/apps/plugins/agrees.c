/* A kernel that agrees to any advice and follows none, or one of before wiping. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void *memory, size_t bytes, int advice)
{
	if (!getenv("KERNEL_OLD"))
		return 0;
	if (advice != 18)
		return (int)syscall(SYS_madvise, memory, bytes, advice);
	errno = EINVAL;
	return -1;
}
