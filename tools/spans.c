/*
 * spans.c - strips, unions of intervals and steps over time; what they are is told in spans.h.
 */
#include "spans.h"

#include "need.h"

/* ---- strips ---- */

static void strip_open(struct strip *strip, uint64_t start_ns)
{
	if (strip->buckets)
		return;
	strip->buckets = need_zeroed(STRIP_BUCKETS, sizeof(*strip->buckets));
	strip->start_ns = start_ns;
}

/* Widen the buckets until time_ns falls into one; returns which. */
static size_t strip_reach(struct strip *strip, uint64_t time_ns)
{
	uint64_t offset = time_ns - strip->start_ns;

	for (; offset >> strip->shift >= STRIP_BUCKETS; strip->shift++) {
		for (size_t i = 0; i < STRIP_BUCKETS / 2; i++) {
			struct strip_bucket a = strip->buckets[2 * i], b = strip->buckets[2 * i + 1];

			strip->buckets[i] = (struct strip_bucket){ a.ns + b.ns, a.count + b.count };
		}
		memset(&strip->buckets[STRIP_BUCKETS / 2], 0,
			STRIP_BUCKETS / 2 * sizeof(*strip->buckets));
	}
	return offset >> strip->shift;
}

void strip_count_slowly(struct strip *strip, uint64_t start_ns, uint64_t time_ns)
{
	strip_open(strip, start_ns);
	strip->buckets[strip_reach(strip, time_ns)].count++;
}

/* Where bucket `at` ends, from the start of the strip; no later than the end of time. */
static uint64_t bucket_end(size_t at, unsigned shift)
{
	uint64_t end = (uint64_t)(at + 1) << shift;

	return end >> shift == at + 1 ? end : UINT64_MAX;
}

/* Put an interval of several buckets in; the strip reaches as far as end (both from its start). */
static void strip_fill(struct strip *strip, uint64_t begin, uint64_t end)
{
	while (begin >> strip->shift != (end - 1) >> strip->shift) {
		size_t at = begin >> strip->shift;
		uint64_t border = bucket_end(at, strip->shift);

		strip->buckets[at].ns += border - begin;
		begin = border;
	}
	strip->buckets[begin >> strip->shift].ns += end - begin;
}

static uint64_t share(uint64_t amount, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)amount * part / whole);
}

static uint64_t overlap(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to)
{
	uint64_t from = a_from > b_from ? a_from : b_from, to = a_to < b_to ? a_to : b_to;

	return to > from ? to - from : 0;
}

struct strip_bucket strip_sum(const struct strip *strip, uint64_t from_ns, uint64_t to_ns)
{
	struct strip_bucket sum = { 0, 0 };
	uint64_t width = 1ull << strip->shift;
	uint64_t from = from_ns > strip->start_ns ? from_ns - strip->start_ns : 0;
	uint64_t to = to_ns > strip->start_ns ? to_ns - strip->start_ns : 0;

	if (!strip->buckets)
		return sum;
	for (size_t i = from >> strip->shift; i < STRIP_BUCKETS && i * width < to; i++) {
		sum.ns += share(strip->buckets[i].ns,
			overlap(i * width, bucket_end(i, strip->shift), from, to), width);
		if (i * width >= from)
			sum.count += strip->buckets[i].count;
	}
	return sum;
}

/* ---- spans ---- */

static void strip_add(struct strip *strip, size_t bucket, struct strip_bucket sum)
{
	strip->buckets[bucket].ns += sum.ns;
	strip->buckets[bucket].count += sum.count;
}

static void keep_gap(struct spans *spans, struct span gap)
{
	size_t at = GAPS_KEPT - 1;

	for (; at > 0 && span_ns(spans->longest[at - 1]) < span_ns(gap); at--)
		spans->longest[at] = spans->longest[at - 1];
	spans->longest[at] = gap;
}

/* Hand the oldest held intervals to the strip, all but keep of them. */
static void spans_flush(struct spans *spans, size_t keep)
{
	size_t gone = spans->count - keep;
	uint64_t busy_ns = 0, end_ns = spans->floor_ns, start_ns = spans->strip.start_ns;
	struct strip_bucket sum = { 0, 0 };
	size_t bucket = 0;

	if (!spans->busy_ns)
		end_ns = spans->first_ns = spans->held[0].begin_ns;
	strip_reach(&spans->strip, spans->held[gone - 1].end_ns - 1);
	for (size_t i = 0; i < gone; i++) {
		const struct span *span = &spans->held[i];
		uint64_t begin = span->begin_ns - start_ns, end = span->end_ns - start_ns;

		/* Most lie in the bucket of the one before: its sum is written once. */
		if (begin >> spans->strip.shift != bucket) {
			strip_add(&spans->strip, bucket, sum);
			sum = (struct strip_bucket){ 0, 0 };
			bucket = begin >> spans->strip.shift;
		}
		sum.count++;
		if ((end - 1) >> spans->strip.shift == bucket)
			sum.ns += end - begin;
		else
			strip_fill(&spans->strip, begin, end);
		busy_ns += end - begin;
		spans->gaps += span->begin_ns > end_ns;
		spans->gaps_ns += span->begin_ns - end_ns;
		if (span->begin_ns - end_ns > span_ns(spans->longest[GAPS_KEPT - 1]))
			keep_gap(spans, (struct span){ end_ns, span->begin_ns });
		end_ns = span->end_ns;
	}
	strip_add(&spans->strip, bucket, sum);
	spans->busy_ns += busy_ns;
	spans->floor_ns = spans->held[gone - 1].end_ns;
	memmove(spans->held, spans->held + gone, keep * sizeof(*spans->held));
	spans->count = keep;
}

/* The first held interval that ends at or after time_ns; mostly one of the last. */
static size_t spans_find(const struct spans *spans, uint64_t time_ns)
{
	size_t low = 0, high = spans->count;

	if (high == 0 || spans->held[high - 1].end_ns < time_ns)
		return high;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (spans->held[middle].end_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* So many hold intervals just now. Thousands of streams together must not need much more than a few. */
static size_t holders;

static size_t held_max(void)
{
	return holders <= 128 ? SPANS_HELD : holders <= 1024 ? SPANS_HELD / 8 : SPANS_HELD / 64;
}

static void spans_insert(struct spans *spans, size_t at, struct span span)
{
	holders += !spans->held;
	if (spans->count >= held_max() && spans->count == spans->capacity) {
		spans_flush(spans, spans->count / 2);
		at = spans_find(spans, span.begin_ns);
	}
	spans->held = need_room(spans->held, spans->count, &spans->capacity, sizeof(*spans->held));
	memmove(&spans->held[at + 1], &spans->held[at], (spans->count - at) * sizeof(*spans->held));
	spans->held[at] = span;
	spans->count++;
}

void spans_add_slowly(struct spans *spans, uint64_t start_ns, uint64_t begin_ns, uint64_t end_ns)
{
	struct span span = { begin_ns, end_ns };
	size_t first, last;

	strip_open(&spans->strip, start_ns);
	if (begin_ns == end_ns || begin_ns < spans->floor_ns)
		strip_count(&spans->strip, start_ns, begin_ns);
	if (span.begin_ns < spans->floor_ns)
		span.begin_ns = spans->floor_ns;
	if (span.begin_ns >= span.end_ns)
		return;
	first = spans_find(spans, span.begin_ns);
	for (last = first; last < spans->count && spans->held[last].begin_ns <= span.end_ns; last++) {
		if (spans->held[last].begin_ns < span.begin_ns)
			span.begin_ns = spans->held[last].begin_ns;
		if (spans->held[last].end_ns > span.end_ns)
			span.end_ns = spans->held[last].end_ns;
	}
	if (last == first) {
		spans_insert(spans, first, span);
		return;
	}
	spans->held[first] = span;
	memmove(&spans->held[first + 1], &spans->held[last],
		(spans->count - last) * sizeof(*spans->held));
	spans->count -= last - first - 1;
}

void spans_finish(struct spans *spans)
{
	if (spans->count)
		spans_flush(spans, 0);
	holders -= spans->held != NULL;
	free(spans->held);
	spans->held = NULL;
	spans->capacity = 0;
}

void spans_free(struct spans *spans)
{
	holders -= spans->held != NULL;
	free(spans->held);
	free(spans->strip.buckets);
	*spans = (struct spans){ 0 };
}

/* ---- steps ---- */

/* Two neighbours as one; before is the level that held when the first began. */
static struct step step_join(struct step a, struct step b, uint64_t before)
{
	if (!b.changed)
		return a;
	if (!a.changed)
		a.highest = a.lowest = before;
	return (struct step){ a.highest > b.highest ? a.highest : b.highest,
		a.lowest < b.lowest ? a.lowest : b.lowest, b.last, true };
}

static void steps_widen(struct steps *steps)
{
	uint64_t level = 0;

	for (size_t i = 0; i < STRIP_BUCKETS / 2; i++) {
		steps->buckets[i] = step_join(steps->buckets[2 * i], steps->buckets[2 * i + 1], level);
		if (steps->buckets[i].changed)
			level = steps->buckets[i].last;
	}
	memset(&steps->buckets[STRIP_BUCKETS / 2], 0, STRIP_BUCKETS / 2 * sizeof(*steps->buckets));
	steps->shift++;
}

static void note_change(struct steps *steps, uint64_t time_ns, uint64_t level)
{
	bool again = steps->change_count &&
		steps->changes[steps->change_count - 1].time_ns == time_ns;

	if (steps->change_count == CHANGES_MAX && !again) {
		steps->too_many = true;
		steps->change_count = 0;
	}
	if (steps->too_many)
		return;
	steps->changes = need_room(steps->changes, steps->change_count, &steps->change_capacity,
		sizeof(*steps->changes));
	steps->changes[steps->change_count - again] = (struct change){ time_ns, level };
	steps->change_count += !again;
}

static void steps_put(struct steps *steps, uint64_t offset, uint64_t level)
{
	struct step *step;

	note_change(steps, steps->start_ns + offset, level);
	while (offset >> steps->shift >= STRIP_BUCKETS)
		steps_widen(steps);
	step = &steps->buckets[offset >> steps->shift];
	if (!step->changed) {
		bool later = offset > offset >> steps->shift << steps->shift;

		step->highest = step->lowest = later ? steps->level : level;
	}
	if (level > step->highest)
		step->highest = level;
	if (level < step->lowest)
		step->lowest = level;
	step->last = level;
	step->changed = true;
	steps->level = level;
	steps->at_ns = steps->start_ns + offset;
	if (level > steps->peak) {
		steps->peak = level;
		steps->peak_ns = steps->start_ns + offset;
	}
}

static uint64_t less(uint64_t level, uint64_t by)
{
	return level > by ? level - by : 0;
}

static void note_peak(struct steps *steps, uint64_t time_ns, uint64_t level)
{
	if (level <= steps->peak)
		return;
	steps->peak = level;
	steps->peak_ns = time_ns;
}

/* Every change from then on, and a new one there. */
static void lower_changes(struct steps *steps, uint64_t from_ns, uint64_t by)
{
	size_t at = steps->change_count;

	steps->changes = need_room(steps->changes, steps->change_count, &steps->change_capacity,
		sizeof(*steps->changes));
	for (; at > 0 && steps->changes[at - 1].time_ns >= from_ns; at--) {
		steps->changes[at] = steps->changes[at - 1];
		steps->changes[at].level = less(steps->changes[at].level, by);
	}
	steps->changes[at] = (struct change){ from_ns,
		less(at ? steps->changes[at - 1].level : 0, by) };
	steps->change_count++;
	for (size_t i = 0; i < steps->change_count; i++)
		note_peak(steps, steps->changes[i].time_ns, steps->changes[i].level);
}

static void lower_buckets(struct steps *steps, size_t first, uint64_t by)
{
	uint64_t level = 0;

	for (size_t i = 0; i < STRIP_BUCKETS; i++) {
		struct step *step = &steps->buckets[i];

		if (i == first) {
			if (!step->changed)
				*step = (struct step){ level, level, level, true };
			step->last = less(step->last, by);
			step->lowest = step->last < step->lowest ? step->last : step->lowest;
		} else if (i > first && step->changed) {
			step->highest = less(step->highest, by);
			step->lowest = less(step->lowest, by);
			step->last = less(step->last, by);
		}
		if (step->changed)
			level = step->last;
	}
}

void steps_lower(struct steps *steps, uint64_t from_ns, uint64_t by)
{
	uint64_t from = from_ns > steps->start_ns ? from_ns - steps->start_ns : 0;

	steps->level = less(steps->level, by);
	if (!steps->buckets || from >> steps->shift >= STRIP_BUCKETS)
		return;
	lower_buckets(steps, from >> steps->shift, by);
	steps->peak = 0;
	if (!steps->too_many && steps->change_count < CHANGES_MAX) {
		lower_changes(steps, steps->start_ns + from, by);
		return;
	}
	steps->too_many = true;
	steps->change_count = 0;
	for (size_t i = 0; i < STRIP_BUCKETS; i++)
		if (steps->buckets[i].changed)
			note_peak(steps, steps->start_ns + (i << steps->shift), steps->buckets[i].highest);
}

void steps_finish(struct steps *steps, uint64_t start_ns)
{
	if (steps->buckets)
		return;
	steps->buckets = need_zeroed(STRIP_BUCKETS, sizeof(*steps->buckets));
	steps->start_ns = start_ns;
	if (steps->level)
		steps_put(steps, 0, steps->level);
}

void steps_set(struct steps *steps, uint64_t start_ns, uint64_t time_ns, uint64_t level)
{
	if (time_ns < start_ns) {
		steps->level = level;
		return;
	}
	steps_finish(steps, start_ns);
	steps_put(steps, time_ns - start_ns, level);
}

uint64_t steps_highest(const struct steps *steps, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = from_ns > steps->start_ns ? from_ns - steps->start_ns : 0;
	uint64_t to = to_ns > steps->start_ns ? to_ns - steps->start_ns : 0;
	uint64_t width = 1ull << steps->shift, level = 0, highest = 0;

	for (size_t i = 0; steps->buckets && i < STRIP_BUCKETS && i * width < to; i++) {
		const struct step *step = &steps->buckets[i];
		uint64_t here = step->changed ? step->highest : level;

		if (i >= from >> steps->shift && here > highest)
			highest = here;
		if (step->changed)
			level = step->last;
	}
	if (from >> steps->shift >= STRIP_BUCKETS)
		return level;
	return highest;
}

uint64_t steps_lowest(const struct steps *steps, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = from_ns > steps->start_ns ? from_ns - steps->start_ns : 0;
	uint64_t to = to_ns > steps->start_ns ? to_ns - steps->start_ns : 0;
	uint64_t width = 1ull << steps->shift, level = 0, lowest = UINT64_MAX;

	for (size_t i = 0; steps->buckets && i < STRIP_BUCKETS && i * width < to; i++) {
		const struct step *step = &steps->buckets[i];
		uint64_t here = step->changed ? step->lowest : level;

		if (i >= from >> steps->shift && here < lowest)
			lowest = here;
		if (step->changed)
			level = step->last;
	}
	return lowest == UINT64_MAX ? level : lowest;
}

void steps_free(struct steps *steps)
{
	free(steps->buckets);
	free(steps->changes);
	*steps = (struct steps){ 0 };
}
