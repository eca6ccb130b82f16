/*
 * kernel.c - what kernels promise about forked children, and whether this one keeps it.
 */
#include "kernel.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* No kernel knows it: whoever agrees to this does not listen. */
#define NO_ADVICE 0x6375

uint32_t kernel_wipes = 1;

/* Static, so that a forked child knows as well. */
static enum { NOT_ASKED, FOLLOWS, AGREES } advice;

void kernel_wipe_on_fork(void *memory, size_t bytes)
{
	int saved = errno;

	if (advice == NOT_ASKED)
		advice = madvise(memory, bytes, NO_ADVICE) == 0 ? AGREES : FOLLOWS;
	if (madvise(memory, bytes, MADV_WIPEONFORK) != 0 || advice == AGREES)
		__atomic_store_n(&kernel_wipes, 0, __ATOMIC_RELAXED);
	errno = saved;
}

void kernel_unmap_in_child(void *memory, size_t bytes)
{
	if (memory && advice == AGREES)
		munmap(memory, bytes);
}
