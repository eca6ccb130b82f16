/*
 * top_trend.h - what each process and GPU held in the last tables, as a line of small bars.
 */
#ifndef TOP_TREND_H
#define TOP_TREND_H

#include "ps.h"

/* One more table is about to be drawn. */
void trend_note(const struct box *box);

const char *trend_of_row(const struct ps_row *row);
const char *trend_of_gpu(const struct box_gpu *gpu);

#endif
