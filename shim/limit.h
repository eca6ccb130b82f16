/*
 * limit.h - the text of a limit into bytes for each GPU; strict, pure, no allocation.
 */
#ifndef CUWARD_LIMIT_H
#define CUWARD_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/ledger.h"

/* What a limit needs to know of a visible GPU; index i is the ordinal the process sees. */
struct limit_device {
	uint8_t uuid[16];
	uint64_t total_bytes;
};

struct limit_amount {
	enum { LIMIT_NONE, LIMIT_BYTES, LIMIT_PERCENT } unit;
	uint64_t bytes;          /* LIMIT_BYTES */
	uint64_t percent_digits; /* LIMIT_PERCENT: digits without the point ... */
	unsigned percent_decimals; /* ... and how many of them stand behind it */
};

struct limit_item {
	enum { LIMIT_INDEX, LIMIT_UUID } by;
	unsigned index;
	char uuid[48]; /* full or prefix, as given, lower case, without "gpu-" */
	struct limit_amount amount;
};

struct limit {
	struct limit_amount all; /* of every device; LIMIT_NONE where items are given */
	unsigned count;
	struct limit_item items[SLOT_DEVICES * 2];
};

/* Parse text (grammar: cuward(1)). False: `why` is a sentence that names the value. */
bool limit_parse(struct limit *limit, const char *text, char *why, size_t why_bytes);

/*
 * bytes[i] of device i, BYTES_NONE without a limit. False: an index beyond count, a GPU named
 * twice (by index and UUID), an ambiguous prefix, an amount that is 0 bytes there; `why` says so.
 */
bool limit_resolve(const struct limit *limit, const struct limit_device *devices, unsigned count,
	uint64_t bytes[SLOT_DEVICES], char *why, size_t why_bytes);

/* Items whose UUID is not visible, comma separated into text; returns how many. */
unsigned limit_unused(const struct limit *limit, const struct limit_device *devices,
	unsigned count, char *text, size_t text_bytes);

#endif
