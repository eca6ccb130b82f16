/*
 * check.h - for programs under test that look at each step themselves: say the line where a value is another one, and stop.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KiB 1024ull
#define MiB (1024ull * KiB)
#define GiB (1024ull * MiB)
#define OOM CUDA_ERROR_OUT_OF_MEMORY
#define POISON 0x5a5a5a5a5a5a5a5aull

#define IS(expression, wanted) \
	check_is(#expression, __LINE__, (uint64_t)(expression), (uint64_t)(wanted))
#define OK(expression) IS(expression, 0)

static inline void check_is(const char *what, int line, uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "line %d: %s is %#llx, not %#llx\n", line, what, (unsigned long long)got,
		(unsigned long long)wanted);
	exit(1);
}

#endif
