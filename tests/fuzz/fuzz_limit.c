/*
 * fuzz_limit.c - a fuzz target for the grammar of limits; also the body of a random unit test.
 *
 *	clang -fsanitize=fuzzer,address,undefined -DFUZZ -Iinclude -Ishim tests/fuzz/fuzz_limit.c \
 *		shim/limit.c -o build/fuzz_limit && build/fuzz_limit -max_total_time=60
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limit.h"

#define HOLDS(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "fuzz_limit: %s does not hold\n", #condition); \
			abort(); \
		} \
	} while (0)

static const struct limit_device fuzz_gpus[] = {
	{ "\x89\x32", 99 },
	{ "\x89\x33", 1ull << 40 },
	{ "\x00", INT64_MAX },
};

/* What holds of every limit that is understood. */
static void check_bytes(const uint64_t bytes[SLOT_DEVICES])
{
	for (unsigned i = 0; i < SLOT_DEVICES; i++) {
		HOLDS(bytes[i] != 0);
		HOLDS(bytes[i] <= INT64_MAX || bytes[i] == BYTES_NONE);
		HOLDS(i < 3 || bytes[i] == BYTES_NONE);
	}
}

/* 1 if the text is a limit. Memory is exact in size, so that a sanitizer sees any slip. */
static int fuzz_one(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *why = malloc(64), *unused = malloc(16);
	uint64_t bytes[SLOT_DEVICES];
	struct limit limit;
	bool parsed, fine;

	memcpy(text, data, size);
	text[size] = 0;
	parsed = limit_parse(&limit, text, why, 64);
	fine = parsed && limit_resolve(&limit, fuzz_gpus, 3, bytes, why, 64);
	HOLDS(fine == (why[0] == 0));
	HOLDS(memchr(why, 0, 64));
	if (fine)
		check_bytes(bytes);
	if (parsed) {
		HOLDS(limit.count <= sizeof(limit.items) / sizeof(limit.items[0]));
		HOLDS(limit_unused(&limit, fuzz_gpus, 3, unused, 16) <= limit.count);
		HOLDS(memchr(unused, 0, 16));
	}
	free(text);
	free(why);
	free(unused);
	return fine;
}

#ifdef FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size);
	return 0;
}
#endif
