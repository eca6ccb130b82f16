/*
 * view_output.c - where a view of a trace goes, and how: what `timeline` and `stats` share.
 */
#include "view_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"

void view_choose_format(struct argp_state *state, enum view_format *format, enum view_format chosen)
{
	if (*format != VIEW_TERMINAL && *format != chosen)
		argp_error(state, "--json and --csv exclude each other");
	*format = chosen;
}

error_t view_parse_traces(struct argp_state *state, int key, struct traces *traces)
{
	switch (key) {
	case ARGP_KEY_ARGS:
		traces->paths = state->argv + state->next;
		traces->count = (unsigned)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which trace? Name its folder");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct view_style view_style_of_output(bool all)
{
	const char *columns = getenv("COLUMNS"), *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	struct view_style style = { .columns = 100, .unicode = locale_is_utf8(), .all = all };
	bool terminal = isatty(STDOUT_FILENO);
	struct winsize size;
	long given = columns ? strtol(columns, NULL, 10) : 0;

	style.color = terminal && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
	if (given > 0 && given <= 1000)
		style.columns = (unsigned)given;
	else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		style.columns = size.ws_col;
	return style;
}

int view_end_output(const struct model *model, const struct trace_facts *facts)
{
	struct view_doubts doubts = view_doubts(model, facts);

	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "cuward: cannot write the output: %s\n", strerror(errno));
		return EXIT_FOUND;
	}
	return view_is_doubtful(&doubts) ? EXIT_FOUND : EXIT_FINE;
}
