/*
 * run_limits.c - two limits that both apply, as one: nested runs, command line and environment.
 */
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limit.h"

static bool is_none(const struct limit *limit)
{
	return limit->count == 0 && limit->all.unit == LIMIT_NONE;
}

static unsigned __int128 scaled_percent(const struct limit_amount *amount, unsigned decimals)
{
	unsigned __int128 digits = amount->percent_digits;

	for (unsigned i = amount->percent_decimals; i < decimals; i++)
		digits *= 10;
	return digits;
}

/* The lower of two amounts; NULL where only the GPU's size could tell. */
static const struct limit_amount *lower(const struct limit_amount *a, const struct limit_amount *b)
{
	unsigned decimals = a->percent_decimals > b->percent_decimals ? a->percent_decimals :
		b->percent_decimals;

	if (a->unit == LIMIT_NONE)
		return b;
	if (b->unit == LIMIT_NONE)
		return a;
	if (a->unit != b->unit)
		return NULL;
	if (a->unit == LIMIT_BYTES)
		return a->bytes < b->bytes ? a : b;
	return scaled_percent(a, decimals) < scaled_percent(b, decimals) ? a : b;
}

static void put_amount(FILE *out, const struct limit_amount *amount)
{
	uint64_t hundred = 1;

	for (unsigned i = 0; i < amount->percent_decimals; i++)
		hundred *= 10;
	if (amount->unit == LIMIT_NONE)
		fprintf(out, "none");
	else if (amount->unit == LIMIT_BYTES)
		fprintf(out, "%" PRIu64, amount->bytes);
	else if (amount->percent_decimals == 0)
		fprintf(out, "%" PRIu64 "%%", amount->percent_digits);
	else
		fprintf(out, "%" PRIu64 ".%0*" PRIu64 "%%", amount->percent_digits / hundred,
			(int)amount->percent_decimals, amount->percent_digits % hundred);
}

static void put_item(FILE *out, const struct limit_item *item, const struct limit_amount *amount)
{
	if (ftell(out) > 0)
		fputc(',', out);
	if (item->by == LIMIT_INDEX)
		fprintf(out, "%u=", item->index);
	else
		fprintf(out, "GPU-%s=", item->uuid);
	put_amount(out, amount);
}

static const struct limit_item *same_gpu(const struct limit *limit, const struct limit_item *item)
{
	for (unsigned i = 0; i < limit->count; i++)
		if (limit->items[i].by == item->by && limit->items[i].index == item->index &&
			strcmp(limit->items[i].uuid, item->uuid) == 0)
			return &limit->items[i];
	return NULL;
}

/* Items of both lists; a GPU in both gets the lower. */
static bool put_lists(FILE *out, const struct limit *a, const struct limit *b)
{
	for (unsigned i = 0; i < a->count; i++) {
		const struct limit_item *item = &a->items[i], *other = same_gpu(b, item);
		const struct limit_amount *amount =
			other ? lower(&item->amount, &other->amount) : &item->amount;

		if (!amount)
			return false;
		put_item(out, item, amount);
	}
	for (unsigned i = 0; i < b->count; i++)
		if (!same_gpu(a, &b->items[i]))
			put_item(out, &b->items[i], &b->items[i].amount);
	return true;
}

static bool put_lowest(FILE *out, const struct limit *a, const struct limit *b)
{
	const struct limit_amount *amount;

	if (a->count > 0 && b->count > 0)
		return put_lists(out, a, b);
	if (a->count > 0 && is_none(b))
		return put_lists(out, a, a);
	if (b->count > 0 && is_none(a))
		return put_lists(out, b, b);
	/* A limit of every GPU and a list: it would have to be written for each GPU. */
	if (a->count > 0 || b->count > 0)
		return false;
	amount = lower(&a->all, &b->all);
	if (amount)
		put_amount(out, amount);
	return amount != NULL;
}

bool run_limits_lowest(const char *a, const char *b, char *text, size_t bytes)
{
	struct limit limit_a, limit_b;
	char why[16];
	FILE *out = fmemopen(text, bytes, "w");
	bool fine = out && limit_parse(&limit_a, a, why, sizeof(why)) &&
		limit_parse(&limit_b, b, why, sizeof(why)) && put_lowest(out, &limit_a, &limit_b);

	if (out && fflush(out) != 0)
		fine = false;
	return out && fclose(out) == 0 && fine;
}
