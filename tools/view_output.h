/*
 * view_output.h - the command line and the end of a command that shows a trace on stdout.
 */
#ifndef VIEW_OUTPUT_H
#define VIEW_OUTPUT_H

#include <argp.h>

#include "traces.h"
#include "view.h"

enum view_format { VIEW_TERMINAL, VIEW_JSON, VIEW_CSV };

/* --json or --csv; a usage error if the other one was chosen before. */
void view_choose_format(struct argp_state *state, enum view_format *format, enum view_format chosen);

/* The arguments behind the options; ARGP_ERR_UNKNOWN for any other key. */
error_t view_parse_traces(struct argp_state *state, int key, struct traces *traces);

/* By the terminal, COLUMNS, NO_COLOR, TERM and the locale. */
struct view_style view_style_of_output(bool all);

/* EXIT_FOUND where stdout could not be written, or the trace leaves doubts. */
int view_end_output(const struct model *model, const struct trace_facts *facts);

#endif
