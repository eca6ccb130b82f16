/*
 * advise.c - peaks of runs, against limits and GPUs: how much is needed, how many fit, how far a batch
 * may grow. What cannot be known from a peak is left unknown.
 */
#include "advise.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "need.h"

#define MiB ((uint64_t)1 << 20)

/* ---- numbers for -m ---- */

/* A tenth of room, and no more digits than the measurement is worth. */
static uint64_t round_up(uint64_t need)
{
	uint64_t bytes = need + need / 10;
	uint64_t step = bytes <= 1024 * MiB ? 64 * MiB : bytes <= 8192 * MiB ? 256 * MiB : 1024 * MiB;

	return (bytes + step - 1) / step * step;
}

const char *advise_limit(uint64_t bytes)
{
	static char text[32];

	if (bytes <= 1024 * MiB)
		snprintf(text, sizeof(text), "%" PRIu64 "M", bytes / MiB);
	else if (bytes % (1024 * MiB) == 0)
		snprintf(text, sizeof(text), "%" PRIu64 "G", bytes / MiB / 1024);
	else
		snprintf(text, sizeof(text), "%.4gG", (double)bytes / (double)(1024 * MiB));
	return text;
}

/* ---- what was seen ---- */

static void add_device(struct advice *advice, const struct history_device *device)
{
	if (!device->peak_bytes && !device->denied)
		return;
	if (device->peak_bytes > advice->peak_bytes)
		advice->peak_bytes = device->peak_bytes;
	if (device->total_bytes && (!advice->total_bytes || device->total_bytes < advice->total_bytes))
		advice->total_bytes = device->total_bytes;
	if (device->limit_bytes < advice->limit_bytes) {
		advice->limit_bytes = device->limit_bytes;
		advice->limit_source = device->limit_source;
		advice->limit_peak_bytes = 0;
	}
	if (device->limit_bytes == advice->limit_bytes && device->peak_bytes > advice->limit_peak_bytes)
		advice->limit_peak_bytes = device->peak_bytes;
	if (device->overhead_peak_bytes != HISTORY_UNKNOWN && (advice->overhead_bytes == HISTORY_UNKNOWN ||
		device->overhead_peak_bytes > advice->overhead_bytes))
		advice->overhead_bytes = device->overhead_peak_bytes;
	if (device->untracked_bytes != HISTORY_UNKNOWN && device->untracked_bytes > advice->untracked_bytes)
		advice->untracked_bytes = device->untracked_bytes;
	if (device->wanted_bytes > advice->wanted_bytes)
		advice->wanted_bytes = device->wanted_bytes;
	advice->denied += device->denied;
}

static void add_entry(struct advice *advice, const struct history_entry *entry)
{
	advice->runs++;
	for (unsigned i = 0; i < entry->device_count; i++)
		add_device(advice, &entry->devices[i]);
	advice->cut_short += strcmp(entry->ended, "exit") != 0 && strcmp(entry->ended, "exec") != 0;
	advice->pools_kept |= entry->pool_reserved > 0;
}

static bool uses_memory(const struct history_entry *entry)
{
	for (unsigned i = 0; i < entry->device_count; i++)
		if (entry->devices[i].peak_bytes || entry->devices[i].denied)
			return true;
	return false;
}

/* ---- batches ---- */

static bool batch_of(const struct history_entry *entry, uint64_t *batch)
{
	char *end;

	if (!entry->batch || entry->batch[0] < '1' || entry->batch[0] > '9')
		return false;
	*batch = strtoull(entry->batch, &end, 10);
	return !*end && *batch < 1ull << 40;
}

static uint64_t largest_peak(const struct history_entry *entry)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < entry->device_count; i++)
		if (entry->devices[i].peak_bytes > most)
			most = entry->devices[i].peak_bytes;
	return most;
}

/* A run that was refused shows its limit, not what the batch takes. */
static bool tells_batch(const struct advice *advice, const struct history_entry *entry, uint64_t *batch)
{
	for (unsigned i = 0; i < entry->device_count; i++)
		if (entry->devices[i].denied)
			return false;
	return strcmp(entry->command, advice->command) == 0 && strcmp(entry->ended, "exit") == 0 &&
		batch_of(entry, batch) && largest_peak(entry);
}

/* The straight line that comes nearest to all of them. */
static void fit_batches(struct advice *advice, const struct history *history)
{
	double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0, spread;
	uint64_t seen = 0, batch;

	for (size_t i = 0; i < history->count; i++) {
		double x, y;

		if (!tells_batch(advice, &history->entries[i], &batch))
			continue;
		x = (double)batch;
		y = (double)largest_peak(&history->entries[i]);
		n++;
		sum_x += x;
		sum_y += y;
		sum_xx += x * x;
		sum_xy += x * y;
		advice->batches += advice->batches == 0 || (advice->batches == 1 && batch != seen);
		seen = seen ? seen : batch;
		if (batch > advice->batch_largest_seen)
			advice->batch_largest_seen = batch;
	}
	spread = n * sum_xx - sum_x * sum_x;
	if (advice->batches < 2 || spread <= 0)
		return;
	advice->batch_each = (n * sum_xy - sum_x * sum_y) / spread;
	advice->batch_base = (sum_y - advice->batch_each * sum_x) / n;
	advice->batch_known = advice->batch_each >= 1 && advice->batch_base >= 0;
}

/* ---- what follows ---- */

static uint64_t known_overhead(const struct advice *advice)
{
	return advice->overhead_bytes == HISTORY_UNKNOWN ? 0 : advice->overhead_bytes;
}

static void conclude(struct advice *advice)
{
	uint64_t room = advice->total_bytes > known_overhead(advice) ?
		advice->total_bytes - known_overhead(advice) : 0;

	advice->need_bytes = advice->wanted_bytes > advice->peak_bytes ? advice->wanted_bytes :
		advice->peak_bytes;
	advice->suggested_bytes = round_up(advice->need_bytes);
	advice->fit_known = advice->total_bytes > 0;
	advice->fit = advice->total_bytes / (advice->suggested_bytes + known_overhead(advice));
	if (advice->limit_bytes < room)
		room = advice->limit_bytes;
	if (advice->batch_known && (double)room > advice->batch_base)
		advice->batch_max = (uint64_t)(((double)room - advice->batch_base) / advice->batch_each);
}

static int by_need(const void *left, const void *right)
{
	const struct advice *a = left, *b = right;

	if (a->need_bytes != b->need_bytes)
		return a->need_bytes > b->need_bytes ? -1 : 1;
	return strcmp(a->command, b->command);
}

static struct advice *advice_of(struct advice **all, size_t *count, const char *command)
{
	for (size_t i = 0; i < *count; i++)
		if (strcmp((*all)[i].command, command) == 0)
			return &(*all)[i];
	*all = need(reallocarray(*all, *count + 1, sizeof(**all)));
	(*all)[*count] = (struct advice){ .command = command, .overhead_bytes = HISTORY_UNKNOWN,
		.limit_bytes = BYTES_NONE };
	return &(*all)[(*count)++];
}

struct advice *advise(const struct history *history, size_t *count)
{
	struct advice *all = NULL;

	*count = 0;
	for (size_t i = 0; i < history->count; i++)
		if (uses_memory(&history->entries[i]))
			add_entry(advice_of(&all, count, history->entries[i].command), &history->entries[i]);
	for (size_t i = 0; i < *count; i++) {
		fit_batches(&all[i], history);
		conclude(&all[i]);
	}
	if (*count)
		qsort(all, *count, sizeof(*all), by_need);
	return all;
}
