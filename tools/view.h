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
	size_t truncated; /* processes whose end should have been recorded, and was not */
	size_t without_end; /* the same, where nobody was there to record it: no reason for doubt */
	uint64_t undefined;
	size_t unrecorded;       /* processes that the session daemon did not take */
	const char *unrecorded_why; /* of one of them */
};
struct view_doubts view_doubts(const struct model *model, const struct trace_facts *facts);
bool view_is_doubtful(const struct view_doubts *doubts);

void view_terminal(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style);
void view_lanes(FILE *out, const struct model *model, const struct view_style *style);
void view_json(FILE *out, const struct model *model, const struct trace_facts *facts);
void view_csv(FILE *out, const struct model *model);

/* One page without a network, in view_html.c. */
void view_html(FILE *out, const struct model *model, const struct trace_facts *facts);

/* A percentile out of a histogram, never beyond what really occurred. */
static inline uint64_t view_percentile(const struct histogram *times, unsigned per_mille,
	uint64_t shortest, uint64_t longest)
{
	uint64_t value = histogram_at(times, per_mille);

	return value < shortest ? shortest : value > longest ? longest : value;
}

/* What the host's side of copies in this direction is called: of those between devices there is none. */
const char *view_host_word(unsigned direction, unsigned host);

/* Tables of everything, in view_stats*.c. */
void view_stats(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style);
void view_stats_json(FILE *out, const struct model *model, const struct trace_facts *facts);
void view_stats_csv(FILE *out, const struct model *model, const struct trace_facts *facts);

/* What is wrong with the trace, a line each, in view_terminal.c. */
void view_put_doubts(FILE *out, const struct model *model, const struct trace_facts *facts,
	const struct view_style *style);
void view_put_header(FILE *out, const struct model *model, const struct trace_facts *facts);
const char *view_end_text(const struct model_process *process);
/* The ordinals of the devices it used, "-" none. */
void view_device_list(const struct model_process *process, char *text, size_t bytes);

/* What stands out, in words, in view_findings.c; free() it. */
struct view_finding {
	const char *code;
	size_t process; /* in model.processes */
	char text[900];
};
struct view_finding *view_findings(const struct model *model, size_t *count);

#endif
