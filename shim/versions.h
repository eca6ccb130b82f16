/*
 * versions.h - functions of the driver by name, version and flags, where their address does not tell.
 */
#ifndef CUWARD_VERSIONS_H
#define CUWARD_VERSIONS_H

#include <stdint.h>

/* The call behind a pointer that the driver handed out for this name with these flags, or -1. */
int versions_call(const char *name, uint64_t flags, const void *pointer);

/* Of a driver that does not export what we need of it ourselves, whatever it hands out. */
void versions_bind_absent(void);

#endif
