/*
 * names.c - function handle -> number, open addressing; only used while tracing is on.
 *
 * A handle whose module was unloaded may come back as another kernel: defining it again gives it a
 * new number.
 */
#include "names.h"

#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "guest.h"
#include "lock.h"
#include "share.h"
#include "trace.h"

#define PLACES 65536u

static struct names {
	uint32_t lock;
	uint32_t count;
	struct {
		uint64_t handle;
		uint32_t function;
	} *table;
} WHOLE_PAGES names;

static uint32_t place_of(uint64_t handle)
{
	uint32_t i = (handle * 0x9e3779b97f4a7c15ull >> 40) % PLACES;

	while (names.table[i].handle && names.table[i].handle != handle)
		i = (i + 1) % PLACES;
	return i;
}

/* Give the handle this number, or a new one for 0. Returns it; 0 when the table is full. */
static uint32_t set(uint64_t handle, uint32_t function)
{
	lock_take(&names.lock);
	if (!names.table) {
		share_wipe_on_fork(&names, sizeof(names));
		names.table = share_private(PLACES * sizeof(*names.table));
	}
	if (!names.table || names.count >= PLACES / 4 * 3) {
		function = 0;
	} else {
		uint32_t i = place_of(handle);

		if (function == 0 || !names.table[i].handle)
			names.count++;
		if (function == 0)
			function = names.count;
		__atomic_store_n(&names.table[i].function, function, __ATOMIC_RELEASE);
		__atomic_store_n(&names.table[i].handle, handle, __ATOMIC_RELEASE);
	}
	lock_give_back(&names.lock);
	return function;
}

static uint32_t find(uint64_t handle)
{
	return names.table ? names.table[place_of(handle)].function : 0;
}

static uint32_t define(uint64_t handle, const char *name)
{
	struct event_function event = {
		.process = guest.key, .function = set(handle, 0), .name = name,
	};

	if (event.function)
		trace_function(&event);
	return event.function;
}

void names_define(uint64_t handle, const char *name)
{
	define(handle, name);
}

void names_alias(uint64_t handle, uint64_t known)
{
	uint32_t function = find(known);

	if (function)
		set(handle, function);
}

/* Handles from look-ups we did not see: the driver knows (12.3 and newer), or a number must do. */
static __attribute__((noinline)) uint32_t ask_driver(uint64_t handle)
{
	const char *name = NULL;
	char number[32];

	if (!handle)
		return 0;
	if (real.cuFuncGetName(&name, (CUfunction)handle) == CUDA_SUCCESS && name)
		return define(handle, name);
	snprintf(number, sizeof(number), "kernel@%#llx", (unsigned long long)handle);
	return define(handle, number);
}

uint32_t names_of(uint64_t handle)
{
	uint32_t function = find(handle);

	return likely(function) ? function : ask_driver(handle);
}

void names_forget(void)
{
	memset(&names, 0, sizeof(names));
}
