/*
 * view.h - a finished model as something to look at or to feed to another program. Pure: model and
 * facts in, text out.
 */
#ifndef VIEW_H
#define VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "model.h"

struct view_style {
	unsigned columns; /* of the terminal */
	bool unicode;
	bool color;
	bool all; /* every stream and kernel, not only the busiest */
};

/* What is wrong with the trace, and so with every number made of it. */
struct view_doubts {
	uint64_t lost; /* events */
	uint64_t lost_packets;
	bool lost_unknown, damaged;
	size_t truncated; /* processes whose end was not recorded */
	uint64_t undefined;
};
struct view_doubts view_doubts(const struct model *model, const struct trace_facts *facts);
bool view_is_doubtful(const struct view_doubts *doubts);

void view_terminal(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style);
void view_lanes(FILE *out, const struct model *model, const struct view_style *style);
void view_json(FILE *out, const struct model *model, const struct trace_facts *facts);
void view_csv(FILE *out, const struct model *model);

#endif
