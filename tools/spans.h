/*
 * spans.h - what happened over time, in bounded memory however long the trace is.
 *
 * A strip cuts time into at most STRIP_BUCKETS equal buckets that double their width as time goes
 * on. Spans are busy intervals in any order: their union, exact as long as an interval does not
 * reach back behind the SPANS_HELD latest ones, or less where there are hundreds of them. Steps are a
 * level that holds until it changes.
 */
#ifndef SPANS_H
#define SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRIP_BUCKETS 1024
#define SPANS_HELD 4096
#define GAPS_KEPT 5

struct strip_bucket {
	uint64_t ns;    /* busy */
	uint64_t count; /* of intervals that begin in it, also those that took no time */
};

struct strip {
	struct strip_bucket *buckets; /* NULL until something happened */
	uint64_t start_ns;
	unsigned shift; /* a bucket is 1 << shift ns wide */
};

void strip_count_slowly(struct strip *strip, uint64_t start_ns, uint64_t time_ns);

static inline void strip_count(struct strip *strip, uint64_t start_ns, uint64_t time_ns)
{
	uint64_t at = (time_ns - strip->start_ns) >> strip->shift;

	if (strip->buckets && at < STRIP_BUCKETS)
		strip->buckets[at].count++;
	else
		strip_count_slowly(strip, start_ns, time_ns);
}

/* Sums over [from, to), for a column of a picture; a bucket counts where it begins. */
struct strip_bucket strip_sum(const struct strip *strip, uint64_t from_ns, uint64_t to_ns);

struct span {
	uint64_t begin_ns;
	uint64_t end_ns;
};

struct spans {
	struct strip strip;
	struct span *held; /* disjoint, sorted */
	size_t count, capacity;
	uint64_t floor_ns; /* everything before is in the strip */
	uint64_t busy_ns;  /* of the strip; all of it after spans_finish */
	uint64_t first_ns; /* where the first one begins */
	/* Of the times between two of them: how many, how long together, and the longest. */
	uint64_t gaps, gaps_ns;
	struct span longest[GAPS_KEPT]; /* longest first; of no length: there are fewer */
};

/* begin <= end; start_ns, the same each time, is where the strip begins, and not behind begin. */
static inline void spans_add(struct spans *spans, uint64_t start_ns, uint64_t begin_ns,
	uint64_t end_ns);
void spans_add_slowly(struct spans *spans, uint64_t start_ns, uint64_t begin_ns, uint64_t end_ns);

/* Nearly every interval touches the last one, or comes after it. */
static inline void spans_add(struct spans *spans, uint64_t start_ns, uint64_t begin_ns,
	uint64_t end_ns)
{
	struct span *last = spans->count ? spans->held + spans->count - 1 : NULL;

	if (!last || begin_ns == end_ns || begin_ns < last->begin_ns)
		spans_add_slowly(spans, start_ns, begin_ns, end_ns);
	else if (begin_ns <= last->end_ns)
		last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
	else if (spans->count < spans->capacity)
		spans->held[spans->count++] = (struct span){ begin_ns, end_ns };
	else
		spans_add_slowly(spans, start_ns, begin_ns, end_ns);
}

static inline uint64_t span_ns(struct span span)
{
	return span.end_ns - span.begin_ns;
}

/* No more is expected: what it takes to add is given back; what comes all the same still counts. */
void spans_finish(struct spans *spans);
void spans_free(struct spans *spans);

struct step {
	uint64_t highest, lowest;
	uint64_t last; /* the level at the end of the bucket */
	bool changed;  /* else the level of the bucket before holds */
};

struct change {
	uint64_t time_ns;
	uint64_t level;
};

#define CHANGES_MAX 4096

struct steps {
	struct step *buckets;
	struct change *changes; /* every one, unless there were too many: then none */
	size_t change_count, change_capacity;
	bool too_many;
	uint64_t start_ns;
	uint64_t level, at_ns; /* now, and since when */
	uint64_t peak, peak_ns;
	unsigned shift;
};

/* A time before start_ns only says what the level is when the steps begin. */
void steps_set(struct steps *steps, uint64_t start_ns, uint64_t time_ns, uint64_t level);
/* The level was so much lower, it turns out, from then on. Exact where all changes are kept. */
void steps_lower(struct steps *steps, uint64_t from_ns, uint64_t by);
/* No more changes: a level from before start_ns that never changed is put in. */
void steps_finish(struct steps *steps, uint64_t start_ns);
/* The highest and the lowest level in [from, to). */
uint64_t steps_highest(const struct steps *steps, uint64_t from_ns, uint64_t to_ns);
uint64_t steps_lowest(const struct steps *steps, uint64_t from_ns, uint64_t to_ns);
void steps_free(struct steps *steps);

#endif
