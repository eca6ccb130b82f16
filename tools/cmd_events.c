/*
 * cmd_events.c - `cuward events`: every event of a trace as text, the way babeltrace2 prints it.
 */
#include <argp.h>
#include <errno.h>

#include "ctf.h"
#include "cuward.h"
#include "inputs.h"
#include "need.h"

struct traces {
	char **paths;
	int count;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct traces *traces = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_ARGS:
		traces->paths = state->argv + state->next;
		traces->count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which trace? Name its folder");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void tell_losses(const struct trace_facts *facts)
{
	for (size_t i = 0; i < facts->loss_count; i++) {
		const struct trace_loss *loss = &facts->losses[i];

		fprintf(stderr, "cuward: %s: %llu events and %llu packets were lost\n", loss->stream,
			(unsigned long long)loss->events, (unsigned long long)loss->packets);
	}
}

int cmd_events(int argc, char **argv)
{
	static const struct argp parser = {
		.parser = parse_option,
		.args_doc = "TRACE...",
		.doc = "Every event of a trace, of whatever program, as babeltrace2 prints it.",
	};
	struct traces traces = { 0 };
	struct trace_facts facts = { 0 };
	struct ctf_dirs dirs = { 0 };
	bool fine;

	argp_parse(&parser, argc, argv, 0, NULL, &traces);
	for (int i = 0; i < traces.count; i++)
		ctf_find(&dirs, traces.paths[i]);
	ctf_write_text(&dirs, &inputs_standard_error, stdout, &facts);
	tell_losses(&facts);
	fine = dirs.count && !facts.damaged;
	if (!dirs.count)
		fputs("cuward: there is no trace\n", stderr);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "cuward: cannot write the output: %s\n", strerror(errno));
		fine = false;
	}
	trace_facts_free(&facts);
	ctf_dirs_free(&dirs);
	return fine ? EXIT_FINE : EXIT_FOUND;
}
