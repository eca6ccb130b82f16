/*
 * histogram.h - how long things took, for percentiles: 16 buckets a power of two, so that what is
 * read from it is at most 3.2 % off.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PARTS 16u

struct histogram {
	uint32_t *counts;    /* of powers from `first` on, HISTOGRAM_PARTS each */
	uint8_t first, powers;
	uint64_t count;
};

void histogram_widen(struct histogram *histogram, unsigned power);

static inline unsigned histogram_power(uint64_t value)
{
	return value < HISTOGRAM_PARTS ? 3 : 63u - (unsigned)__builtin_clzll(value);
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	unsigned power = histogram_power(value);
	/* The first power holds 0 to 15, one a bucket. */
	unsigned part = power == 3 ? (unsigned)value : (unsigned)(value >> (power - 4)) & 15u;

	if (power - histogram->first >= histogram->powers)
		histogram_widen(histogram, power);
	histogram->counts[(power - histogram->first) * HISTOGRAM_PARTS + part]++;
	histogram->count++;
}

/* The value that so many per mille are at most; 0 of nothing. */
uint64_t histogram_at(const struct histogram *histogram, unsigned per_mille);
void histogram_join(struct histogram *sum, const struct histogram *one);
void histogram_free(struct histogram *histogram);

#endif
