/*
 * fuzz_visible.c - a fuzz target for CUDA_VISIBLE_DEVICES as the simulated driver understands it;
 * also the body of a random unit test.
 *
 *	clang -fsanitize=fuzzer,address,undefined -DFUZZ -isystem $(tests/cuda_headers.sh) \
 *		-Itests/sim tests/fuzz/fuzz_visible.c tests/sim/sim_visible.c -o build/fuzz_visible &&
 *		build/fuzz_visible -max_total_time=60
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_visible.h"

#define VISIBLE_HOLDS(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "fuzz_visible: %s does not hold\n", #condition); \
			abort(); \
		} \
	} while (0)

#define BOX 12
#define SLICES 0xf00 /* the last four are parts of a GPU */

static const CUuuid *visible_box(void)
{
	static CUuuid uuids[BOX];

	for (int i = 0; i < BOX; i++) {
		memset(uuids[i].bytes, 0x51, sizeof(uuids[i].bytes));
		uuids[i].bytes[15] = (char)i;
		uuids[i].bytes[0] = (char)(i / 4);
	}
	return uuids;
}

/* How many devices are seen. Memory is exact in size, so that a sanitizer sees any slip. */
static int visible_one(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	int *seen = malloc(BOX * sizeof(*seen)), *again = malloc(BOX * sizeof(*again));
	char round[BOX * 4] = "";
	unsigned used = 0;
	int count;

	memcpy(text, data, size);
	text[size] = 0;
	count = visible_parse(text, visible_box(), SLICES, BOX, seen);
	VISIBLE_HOLDS(count >= 0 && count <= BOX);
	for (int i = 0; i < count; i++) {
		VISIBLE_HOLDS(seen[i] >= 0 && seen[i] < BOX);
		VISIBLE_HOLDS(!(used >> seen[i] & 1));
		used |= 1u << seen[i];
		snprintf(round + strlen(round), sizeof(round) - strlen(round), "%s%d", i ? "," : "",
			seen[i]);
	}
	/* The same devices by their numbers are the same list. */
	VISIBLE_HOLDS(visible_parse(round, visible_box(), SLICES, BOX, again) == count);
	VISIBLE_HOLDS(!memcmp(seen, again, (size_t)count * sizeof(*seen)));
	free(text);
	free(seen);
	free(again);
	return count;
}

#ifdef FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	visible_one(data, size);
	return 0;
}
#endif
