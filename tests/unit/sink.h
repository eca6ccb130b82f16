/*
 * sink.h - a struct report_out into memory, for tests. Included by each of them behind cmocka.h.
 */
#ifndef CUWARD_TEST_SINK_H
#define CUWARD_TEST_SINK_H

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct collected {
	char *text;
	size_t used;
	unsigned flushes_left; /* fail when none is left */
};

static bool collect(struct report_out *out, const char *bytes, size_t count)
{
	struct collected *to = out->user;

	if (to->flushes_left-- == 0)
		return false;
	to->text = realloc(to->text, to->used + count + 1);
	memcpy(to->text + to->used, bytes, count);
	to->used += count;
	to->text[to->used] = 0;
	return true;
}

static struct collected sink;
static struct report_out out;

static struct report_out *open_sink(void)
{
	free(sink.text);
	sink = (struct collected){ .text = calloc(1, 1), .flushes_left = UINT_MAX };
	out.flush = collect;
	out.user = &sink;
	out.used = 0;
	out.failed = false;
	return &out;
}

static const char *close_sink(void)
{
	assert_true(report_finish(&out));
	return sink.text;
}

#endif
