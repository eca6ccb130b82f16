/*
 * driver.h - the real driver: every function of it under its own name, and what we know of it.
 *
 * `real.cuMemAlloc_v2(...)` is the way out. Members are never NULL: a function that the driver
 * lacks answers CUDA_ERROR_NOT_SUPPORTED, and driver_has() tells.
 */
#ifndef CUWARD_DRIVER_H
#define CUWARD_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "cuda_headers.h"
#include "driver_calls.h"
#include "forward_names.h"

struct driver {
#define X(name, params, args) CUresult (*name) params;
	DRIVER_CALLS(X)
#undef X
};

/* One default or strong hook per call; see entry.c. */
#define X(name, params, args) CUresult on_##name params;
DRIVER_CALLS(X)
#undef X

extern struct driver real __attribute__((visibility("hidden")));

/* The same for names that the header does not declare; NULL before driver_find(). */
enum {
#define X(name) FORWARD_##name,
	FORWARDS(X)
#undef X
	DRIVER_FORWARD_COUNT
};
extern void *driver_forwards[DRIVER_FORWARD_COUNT];
void *driver_forward(int forward); /* never NULL */
extern const char driver_forward_names[DRIVER_FORWARD_COUNT][48];

/* Our entry for a call: what applications get in place of the driver's function. */
void *driver_entry(int call);

/* The driver's function behind a pointer it handed out: a call, or -1. */
int driver_call_at(const void *pointer);

/* The driver does not export this call, but hands out a pointer to it. */
void driver_bind(int call, const void *pointer);

/* Does the loaded driver export it, or was it bound otherwise? */
bool driver_has(int call);

/* Does the driver in use export this name, which may be one that no header of ours knows? */
bool driver_exports(const char *name);

/* Use the driver that is already loaded in this process, if there is one. Never loads a file. */
bool driver_find(void);

/*
 * A look-up of a cu* name in some library gave `symbol`: if that library is a CUDA driver, use
 * it (the first one that initialises stays). False: it is some other library.
 */
bool driver_adopt(void *handle, const void *symbol);

struct link_map;

/* Is this library a CUDA driver, by its name? */
bool driver_is_library(const struct link_map *map);

/* Is it the one in use? */
bool driver_is_ours(const struct link_map *map);

/* cuInit succeeded on the current driver: it stays for the life of the process. */
void driver_settle(void);

/* Path of the driver library in use, "" before. */
const char *driver_path(void);

#endif
