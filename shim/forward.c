/*
 * forward.c - the names of forward.S, and what they lead to before a driver is bound.
 *
 * The driver's pointers for these names are handed out as they are; only who is linked to the driver
 * comes through here.
 */
#include "forward.h"

#include "driver.h"
#include "forward_names.h"

#define STUB_BYTES 32

extern const char forward_stubs[];
__attribute__((visibility("hidden"))) void *forward_resolve(int forward);

int forward_number(const char *name)
{
	for (int i = 0; i < DRIVER_FORWARD_COUNT; i++) {
		const char *a = driver_forward_names[i];
		const char *b = name;

		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			return i;
	}
	return -1;
}

void *forward_entry(int forward)
{
	return (void *)(forward_stubs + forward * STUB_BYTES);
}

void *forward_resolve(int forward)
{
	return driver_forward(forward);
}
