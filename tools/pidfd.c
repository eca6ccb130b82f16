/*
 * pidfd.c - signals to a process by its descriptor.
 */
#include "pidfd.h"

#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool pidfd_signal(int fd, int number)
{
	return syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0;
}

bool pidfd_ends_within(int fd, uint64_t ns)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return poll(&one, 1, ns / 1000000 > INT32_MAX ? INT32_MAX : (int)(ns / 1000000)) == 1;
}
