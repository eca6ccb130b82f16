/*
 * proc_state.h - what the kernel says a process is doing.
 */
#ifndef PROC_STATE_H
#define PROC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_state {
	char letter;  /* R, S, D, T, ... */
	bool stopped; /* by a signal or a debugger */
	bool exiting; /* its main thread is */
	unsigned parent;
	uint64_t start_ticks;
};

/* False: there is no such process, or it cannot be seen. */
bool proc_state(pid_t pid, struct proc_state *state);

/* The kernel's name of it, also while it waits to be reaped; empty if there is none. */
void proc_comm(pid_t pid, char comm[16]);

/* It is gone, is going, or was killed and will be. */
bool proc_is_dying(pid_t pid);

/* Its groups; of more than there is room for the first. How many, 0: they are not known. */
unsigned proc_groups(pid_t pid, uint32_t *gids, unsigned most);

#endif
