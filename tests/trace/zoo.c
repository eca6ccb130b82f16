/*
 * zoo.c COUNT - emit so many events with fields of every kind.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "zoo_tp.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
	static const char *const names[] = { "lion", "a \"quoted\" \n name", "puma\t'\\?" };
	static const int16_t list[] = { -1, 0, 4711, 32767, -32768 };
	static const uint64_t large[] = { 1, UINT64_MAX, 1ull << 63 };
	int count = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < count; i++) {
		lttng_ust_tracepoint(zoo, animal, i, names[i % 3], list, 1 + (size_t)i % 5);
		lttng_ust_tracepoint(zoo, sizes, i, names[i % 3], large, (size_t)i % 4);
		lttng_ust_tracepoint(zoo, nothing, i);
	}
	return 0;
}
