/*
 * kernel.h - what kernels promise about forked children, and whether this one keeps it.
 *
 * Emulators (qemu-user before 8) agree to any advice and follow none; kernels before 4.14 cannot wipe.
 * There the handler of fork() forgets for the child, and one that was made without handlers, by clone
 * say, is noticed by its process id: each call looks, at the price of a system call.
 */
#ifndef CUWARD_KERNEL_H
#define CUWARD_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* 1: all memory given to kernel_wipe_on_fork() so far will be zero in any forked child; else 0. */
extern uint32_t kernel_wipes;

/* Zero this page-aligned memory in any forked child, however it was forked. */
void kernel_wipe_on_fork(void *memory, size_t bytes);

/* In a forked child: be rid of a mapping that should not be there, where advice is not followed. */
void kernel_unmap_in_child(void *memory, size_t bytes);

#endif
