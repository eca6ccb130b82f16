/*
 * report_growth.c - does what is live of a call site keep rising?
 *
 * Asked is the least that was live from each moment on until the end: memory that comes and goes in
 * waves leaves it flat. It must rise in nearly every part of the time after the program has warmed
 * up, and still at the end, so a cache that fills up to its size does not count.
 */
#include "report_growth.h"

enum {
	PARTS = 8,           /* of the time that is looked at */
	WARM_UP = 5,         /* the first of so many parts is not */
	SAMPLES_LEAST = 8,   /* fewer prove nothing */
	LIVE_LEAST = 4,
	PARTS_RISING = 7,
	WATCHED_LEAST = 4,   /* one of so many parts of the run: what only came at its end proves nothing */
	IDLE_LEAST_S = 1,    /* without an allocation for longer than it was watched: it has stopped */
};

const struct ledger_growth *report_growth_find(const struct ledger_view *view, uint32_t site)
{
	for (size_t i = 0; i < view->growth_count && view->growth[i].used; i++)
		if (view->growth[i].site == site)
			return &view->growth[i];
	return NULL;
}

/* The curve of an entry: its samples, and what came after the last. */
struct curve {
	unsigned count;
	struct ledger_sample points[GROWTH_SAMPLES + 1];
};

/* Samples of a process that was killed while it sampled, or of a damaged ledger, may go back. */
static bool read_curve(struct curve *curve, const struct ledger_view *view,
	const struct ledger_growth *entry)
{
	unsigned count = entry->sample_count < GROWTH_SAMPLES ? entry->sample_count : GROWTH_SAMPLES;
	struct ledger_sample last = { view->header->activity, view->header->end_realtime_ns,
		entry->least_bytes };

	for (unsigned i = 0; i < count; i++)
		curve->points[i] = entry->samples[i];
	if (count > 0 && last.time_ns < curve->points[count - 1].time_ns)
		last.time_ns = curve->points[count - 1].time_ns;
	curve->points[count++] = last;
	curve->count = count;
	for (unsigned i = 1; i < count; i++)
		if (curve->points[i].activity < curve->points[i - 1].activity ||
			curve->points[i].time_ns < curve->points[i - 1].time_ns)
			return false;
	return count >= SAMPLES_LEAST;
}

/* Each point becomes the least of itself and all later ones. */
static void make_envelope(struct curve *curve)
{
	for (unsigned i = curve->count - 1; i-- > 0;)
		if (curve->points[i].least_bytes > curve->points[i + 1].least_bytes)
			curve->points[i].least_bytes = curve->points[i + 1].least_bytes;
}

/* The point that speaks for a moment. */
static const struct ledger_sample *point_at(const struct curve *curve, uint64_t activity)
{
	unsigned i = 0;

	while (i + 1 < curve->count && curve->points[i].activity < activity)
		i++;
	return &curve->points[i];
}

/* Nothing was allocated there for longer than before: what there is came with the start. */
static bool has_stopped(const struct curve *curve, const struct ledger_growth *entry)
{
	const struct ledger_sample *last = &curve->points[curve->count - 1];
	uint64_t watched, idle;

	if (entry->last_time_ns < curve->points[0].time_ns || last->time_ns < entry->last_time_ns)
		return false;
	watched = entry->last_time_ns - curve->points[0].time_ns;
	idle = last->time_ns - entry->last_time_ns;
	return idle > watched && idle >= IDLE_LEAST_S * 1000000000ull;
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
	double rate = ns ? (double)bytes / ((double)ns / 1e9) : 0;

	if (ns == 0)
		return BYTES_NONE;
	return rate < 9e18 ? (uint64_t)rate : INT64_MAX;
}

/* At least one of so many parts, and more than nothing. */
static bool is_part(uint64_t bytes, uint64_t whole, unsigned parts)
{
	return bytes > 0 && (unsigned __int128)bytes * parts >= whole;
}

struct report_growth report_growth_of(const struct ledger_view *view,
	const struct ledger_growth *entry)
{
	struct report_growth growth = { .bytes_per_s = BYTES_NONE };
	const struct ledger_sample *point[PARTS + 1];
	uint64_t first, span, rise;
	struct curve curve;
	unsigned rising = 0;

	if (!read_curve(&curve, view, entry) || entry->live < LIVE_LEAST)
		return growth;
	make_envelope(&curve);
	first = curve.points[0].activity;
	span = curve.points[curve.count - 1].activity - first;
	if (span < view->header->activity / WATCHED_LEAST)
		return growth;
	first += span / WARM_UP;
	span -= span / WARM_UP;
	for (unsigned i = 0; i <= PARTS; i++)
		point[i] = point_at(&curve, first + span / PARTS * i + span % PARTS * i / PARTS);
	rise = point[PARTS]->least_bytes - point[0]->least_bytes;
	growth.from_bytes = point[0]->least_bytes;
	growth.to_bytes = point[PARTS]->least_bytes;
	growth.bytes_per_s = per_second(rise, point[PARTS]->time_ns - point[0]->time_ns);
	for (unsigned i = 0; i < PARTS; i++)
		/* A quarter of the mean: samples do not fall on the borders of the parts. */
		rising += is_part(point[i + 1]->least_bytes - point[i]->least_bytes, rise, 4 * PARTS);
	growth.confidence = rise ? rising * 100 / PARTS : 0;
	growth.grows = rise > 0 && rising >= PARTS_RISING && !has_stopped(&curve, entry) &&
		is_part(point[PARTS]->least_bytes - point[PARTS - 2]->least_bytes, rise, PARTS);
	return growth;
}
