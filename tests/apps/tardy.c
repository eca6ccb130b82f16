/*
 * tardy.c - group.c where the processor is taken away at the worst moments: now and then some milliseconds go by
 * just before or just after the clock is read, and between the words and the leases of other users' slots,
 * which the kernel may copy in any order.
 */
#include "group.c"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "cuward/ledger.h"

static __thread uint64_t chance;

/* Once in `often` times: for up to `most` us. */
static void dawdle(unsigned often, unsigned most)
{
	if (!chance)
		chance = (uintptr_t)&chance ^ getpid();
	if (shared && shared->go && next(&chance) % often == 0)
		usleep(next(&chance) % most);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result;

	if (clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, now);
	dawdle(400, 2500);
	result = syscall(SYS_clock_gettime, clock, now);
	dawdle(400, 2500);
	return result;
}

static ssize_t copy(pid_t pid, const struct iovec *local, const struct iovec *remote)
{
	return syscall(SYS_process_vm_readv, pid, local, 1, remote, 1, 0);
}

/* The words as they were, the leases as they are a while later. */
__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
	unsigned long local_count, const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
	static __thread struct slot before[64];
	const struct slots_header *header = local->iov_base;
	ssize_t got = copy(pid, local, remote);
	struct slot *slots = local->iov_base;
	size_t count = got > 0 ? got / sizeof(*slots) : 0;

	(void)local_count, (void)remote_count, (void)flags;
	if (got >= (ssize_t)sizeof(*header) && header->magic == SLOTS_MAGIC) {
		slots = (struct slot *)(header + 1);
		count = (got - sizeof(*header)) / sizeof(*slots);
	}
	if (!count || count > 64)
		return got;
	memcpy(before, slots, count * sizeof(*slots));
	dawdle(100, 6000);
	got = copy(pid, local, remote);
	for (size_t i = 0; i < count; i++)
		memcpy(slots[i].words, before[i].words, sizeof(slots[i].words));
	return got;
}
