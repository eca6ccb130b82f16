/*
 * histogram.c - counts in buckets whose width grows with the value.
 */
#include "histogram.h"

#include "need.h"

void histogram_widen(struct histogram *histogram, unsigned power)
{
	unsigned first = histogram->powers ? histogram->first : power;
	unsigned last = histogram->powers ? first + histogram->powers - 1 : power;
	unsigned new_first = power < first ? power : first, new_last = power > last ? power : last;
	uint32_t *counts =
		need_zeroed((size_t)(new_last - new_first + 1) * HISTOGRAM_PARTS, sizeof(*counts));

	if (histogram->powers)
		memcpy(counts + (first - new_first) * HISTOGRAM_PARTS, histogram->counts,
			histogram->powers * HISTOGRAM_PARTS * sizeof(*counts));
	free(histogram->counts);
	histogram->counts = counts;
	histogram->first = (uint8_t)new_first;
	histogram->powers = (uint8_t)(new_last - new_first + 1);
}

/* The middle of a bucket. */
static uint64_t value_of(unsigned power, unsigned part)
{
	uint64_t width = power > 4 ? 1ull << (power - 4) : 1;

	return power == 3 ? part : (16ull + part) * width + width / 2;
}

uint64_t histogram_at(const struct histogram *histogram, unsigned per_mille)
{
	uint64_t rank = (uint64_t)(((unsigned __int128)histogram->count * per_mille + 999) / 1000);
	uint64_t passed = 0;

	for (unsigned i = 0; i < histogram->powers * HISTOGRAM_PARTS; i++) {
		passed += histogram->counts[i];
		if (passed && passed >= rank)
			return value_of(histogram->first + i / HISTOGRAM_PARTS, i % HISTOGRAM_PARTS);
	}
	return 0;
}

void histogram_join(struct histogram *sum, const struct histogram *one)
{
	for (unsigned i = 0; i < one->powers * HISTOGRAM_PARTS; i++) {
		unsigned power = one->first + i / HISTOGRAM_PARTS;

		if (!one->counts[i])
			continue;
		if (power - sum->first >= sum->powers)
			histogram_widen(sum, power);
		sum->counts[(power - sum->first) * HISTOGRAM_PARTS + i % HISTOGRAM_PARTS] += one->counts[i];
	}
	sum->count += one->count;
}

void histogram_free(struct histogram *histogram)
{
	free(histogram->counts);
	*histogram = (struct histogram){ 0 };
}
