/*
 * need.h - memory for the command: there, or a sentence and the end of the program.
 *
 * For tools only; the shim never ends its guest.
 */
#ifndef NEED_H
#define NEED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuward/events.h"

static inline void *need(void *memory)
{
	if (!memory) {
		fputs("cuward: out of memory\n", stderr);
		exit(EXIT_UNAVAILABLE);
	}
	return memory;
}

static inline void *need_zeroed(size_t count, size_t bytes)
{
	return need(calloc(count ? count : 1, bytes));
}

/* Room for one more element of a growing array; capacity doubles. */
static inline void *need_room(void *array, size_t count, size_t *capacity, size_t bytes)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 16;
	return need(reallocarray(array, *capacity, bytes));
}

static inline char *need_copy(const char *text)
{
	return need(strdup(text ? text : ""));
}

#endif
