/*
 * calls.c - names of the driver's calls, without a relocation each: an array of pointers would cost
 * every process that loads the shim some 640 of them, CUDA or not.
 */
#include "calls.h"

#include <stddef.h>
#include <stdint.h>

#include "driver_calls.h"

#define X(name, params, args) char name[sizeof(#name)];
struct names {
	DRIVER_CALLS(X)
};
#undef X

#define X(name, params, args) #name,
static const struct names names = {DRIVER_CALLS(X)};
#undef X

#define X(name, params, args) offsetof(struct names, name),
static const uint16_t offsets[] = {DRIVER_CALLS(X)};
#undef X

_Static_assert(sizeof(struct names) <= UINT16_MAX, "offsets of names fit 16 bits");
_Static_assert(sizeof(offsets) / sizeof(offsets[0]) == DRIVER_CALL_COUNT, "one name a row");

const char *call_name(unsigned call)
{
	if (call >= DRIVER_CALL_COUNT)
		return "unknown";
	return (const char *)&names + offsets[call];
}

bool call_like(const char *name)
{
	return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/* No function of libc: dlsym.S asks this in every process, sanitizers not yet started. */
int call_number(const char *name)
{
	int low = 0;
	int high = DRIVER_CALL_COUNT - 1;

	if (!call_like(name))
		return -1;
	while (low <= high) {
		int middle = (low + high) / 2;
		const char *a = call_name(middle);
		const char *b = name;

		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			return middle;
		if ((unsigned char)*a < (unsigned char)*b)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}
