/*
 * top_trend.c - the last values of each row, by what names it.
 */
#include "top_trend.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "format.h"
#include "need.h"

#define WIDTH 16u

struct trend {
	UT_hash_handle hh;
	uint64_t values[WIDTH]; /* the last at the end */
	unsigned count;
	uint64_t scale; /* a full bar; 0: the largest of them */
	unsigned table; /* it was noted for */
	char key[];
};

static struct trend *all;
static unsigned tables;

static void row_key(char key[120], const struct ps_row *row)
{
	size_t gpu = row->other ? row->other->gpu : row->hold ? row->hold->gpu : 0;

	if (row->process)
		snprintf(key, 120, "p %u %u %u %s", row->process->who->pid, row->process->who->pid_ns,
			row->process->uid, row->hold ? box_uuid(&row->box->gpus[gpu]) : "");
	else
		snprintf(key, 120, "o %d %s", row->other->pid, box_uuid(&row->box->gpus[gpu]));
}

static void note(const char *key, uint64_t value, uint64_t scale)
{
	struct trend *trend;

	HASH_FIND_STR(all, key, trend);
	if (!trend) {
		trend = need(calloc(1, sizeof(*trend) + strlen(key) + 1));
		strcpy(trend->key, key);
		HASH_ADD_STR(all, key, trend);
	}
	memmove(trend->values, trend->values + 1, sizeof(trend->values) - sizeof(trend->values[0]));
	trend->values[WIDTH - 1] = value == BYTES_UNKNOWN ? 0 : value;
	trend->count += trend->count < WIDTH;
	trend->scale = scale;
	trend->table = tables;
}

static void note_row(const struct ps_row *row, uint64_t value)
{
	char key[120];

	row_key(key, row);
	note(key, value, 0);
}

/* Who is gone is forgotten: pids are handed on. */
static void forget(void)
{
	struct trend *trend, *next;

	HASH_ITER(hh, all, trend, next)
		if (trend->table != tables) {
			HASH_DEL(all, trend);
			free(trend);
		}
}

void trend_note(const struct box *box)
{
	tables++;
	for (size_t i = 0; i < box->gpu_count; i++) {
		const struct box_gpu *gpu = &box->gpus[i];

		note(box_uuid(gpu), gpu->driver_bytes != BYTES_UNKNOWN ? gpu->driver_bytes :
			slots_add(gpu->used_bytes, gpu->overhead_bytes), gpu->total_bytes);
	}
	for (size_t i = 0; i < box->count; i++)
		for (size_t j = 0; j < box->processes[i].hold_count; j++)
			note_row(&(struct ps_row){ box, &box->processes[i], &box->processes[i].holds[j], NULL },
				box->processes[i].holds[j].used_bytes);
	for (size_t i = 0; i < box->other_count; i++)
		note_row(&(struct ps_row){ box, NULL, NULL, &box->others[i] }, box->others[i].used_bytes);
	forget();
}

static uint64_t largest(const struct trend *trend)
{
	uint64_t most = trend->scale;

	for (unsigned i = 0; i < WIDTH; i++)
		if (trend->values[i] > most)
			most = trend->values[i];
	return most;
}

/* Eight heights; what is more than nothing is seen. */
static const char *draw(const char *key)
{
	static const char *const bars[] = { "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586",
		"\u2587", "\u2588" };
	static const char *const letters[] = { "_", ".", ",", "-", "=", "+", "*", "#" };
	static char text[4 * WIDTH + 1];
	struct trend *trend;
	uint64_t most;

	text[0] = '\0';
	HASH_FIND_STR(all, key, trend);
	if (!trend)
		return text;
	most = largest(trend);
	for (unsigned i = WIDTH - trend->count; i < WIDTH; i++) {
		double part = most ? (double)trend->values[i] / (double)most : 0;
		unsigned height = part >= 1 ? 7 : (unsigned)(part * 8);

		strcat(text, trend->values[i] ? (locale_is_utf8() ? bars : letters)[height] : " ");
	}
	return text;
}

const char *trend_of_row(const struct ps_row *row)
{
	char key[120];

	if (row->process && !row->hold)
		return "";
	row_key(key, row);
	return draw(key);
}

const char *trend_of_gpu(const struct box_gpu *gpu)
{
	return draw(box_uuid(gpu));
}
