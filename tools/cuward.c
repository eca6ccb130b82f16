/*
 * cuward.c - the command: finds the subcommand and hands the rest of the line to it.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuward.h"
#include "near_option.h"

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define X(name, summary) { #name, summary, cmd_##name },
	CUWARD_COMMANDS(X)
#undef X
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

const char *argp_program_version = "cuward " CUWARD_VERSION;

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* The visible command nearest to name, if it is near at all. */
static const struct command *suggest_command(const char *name)
{
	const struct command *best = NULL;
	size_t nearest = strlen(name) > 4 ? 3 : 2;

	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		size_t distance = near_distance(name, commands[i].name);

		if (commands[i].summary[0] && distance < nearest) {
			nearest = distance;
			best = &commands[i];
		}
	}
	return best;
}

static int unknown_command(const char *name)
{
	const struct command *near = suggest_command(name);

	fprintf(stderr, "cuward: there is no command '%s'", name);
	if (near)
		fprintf(stderr, "; did you mean 'cuward %s'?\n", near->name);
	else
		fprintf(stderr, "; 'cuward --help' lists them\n");
	return EXIT_USAGE;
}

/* The list of commands in --help, between the options' text and its end. */
static char *filter_help(int key, const char *text, void *input)
{
	char *list = NULL;
	size_t bytes = 0;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC || !(out = open_memstream(&list, &bytes)))
		return (char *)text;
	fprintf(out, "Commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (commands[i].summary[0])
			fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n'cuward COMMAND --help' explains one of them.");
	fclose(out);
	return list;
}

/* Options end at the first word: it is the command, and the rest belongs to it. */
static error_t parse_word(int key, char *word, struct argp_state *state)
{
	(void)word;
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	*(int *)state->input = state->next - 1;
	state->next = state->argc;
	return 0;
}

/*
 * Where one of the first three descriptors is closed, the next file that we open would take its
 * place, and be written to by printf. Nothing can be written here, and a command that we start
 * finds it closed.
 */
static void hold_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", O_PATH | O_CLOEXEC);
}

/* What nobody got is no success, on a full disk for instance. */
static int tell_all(const struct command *command, int status)
{
	const char *why = fflush(stdout) == 0 ? "some of it is lost" : strerror(errno);

	if (!ferror(stdout) || status != EXIT_FINE)
		return status;
	fprintf(stderr, "cuward: %s: cannot write the output: %s\n", command->name, why);
	return strcmp(command->name, "run") == 0 ? EXIT_CUWARD : EXIT_FOUND;
}

int main(int argc, char **argv)
{
	static const struct argp parser = {
		.parser = parse_word,
		.args_doc = "COMMAND [ARG...]",
		.doc = "Limits, leak reports and traces for CUDA processes.\v",
		.help_filter = filter_help,
	};
	static char help[] = "--help";
	char name[64];
	int first = 0;
	const struct command *command;

	hold_standard();
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &first);
	if (first == 0) {
		argp_help(&parser, stderr, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, "cuward");
		return EXIT_USAGE;
	}
	/* `cuward help` and `cuward help COMMAND` are what many try first. */
	if (strcmp(argv[first], "help") == 0) {
		argv[first] = first + 1 < argc ? argv[first + 1] : help;
		if (first + 1 == argc)
			argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &first); /* which ends here */
		argv[first + 1] = help;
	}
	command = find_command(argv[first]);
	if (!command)
		return unknown_command(argv[first]);
	near_option_watch(command->name, argv + first + 1);
	snprintf(name, sizeof(name), "cuward %s", command->name);
	argv[first] = name;
	return tell_all(command, command->run(argc - first, argv + first));
}
