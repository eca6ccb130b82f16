/*
 * names.h - kernels and streams by number: each is told to the trace once, launches carry numbers.
 */
#ifndef CUWARD_NAMES_H
#define CUWARD_NAMES_H

#include <stdint.h>

/* The driver handed out this function handle for this name; `owner`: its module or library. */
void names_define(uint64_t handle, const char *name, uint64_t owner);

/* One more handle for the kernel behind another handle. */
void names_alias(uint64_t handle, uint64_t known);

/* That module or library is gone: its handles may be given to other kernels. */
void names_unload(uint64_t owner);

/* Number of a function handle; the driver is asked for a name never seen. 0: of no handle. */
uint32_t names_of(uint64_t handle);

/* The name of what this thread launched last, for whoever asks what it waits for. */
struct ledger_thread;
void names_launched(struct ledger_thread *counts);

/* Number of a stream for the trace, told to it before; 0: they are used up. */
uint32_t names_of_stream(uint64_t stream);

/* Tell all names again, to a trace that began after they were told. */
void names_replay(void);

void names_forget(void);

#endif
