/*
 * names.h - kernels by number: a name is told to the trace once, launches carry the number.
 */
#ifndef CUWARD_NAMES_H
#define CUWARD_NAMES_H

#include <stdint.h>

/* The driver handed out this function handle for this name. */
void names_define(uint64_t handle, const char *name);

/* One more handle for the kernel behind another handle. */
void names_alias(uint64_t handle, uint64_t known);

/* Number of a function handle; the driver is asked for a name never seen. 0 unknown. */
uint32_t names_of(uint64_t handle);

void names_forget(void);

#endif
