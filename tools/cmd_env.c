/*
 * cmd_env.c - `cuward env`: the variables that put a program under cuward, for whatever starts programs.
 */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin_dir.h"
#include "cuward.h"
#include "cuward/settings.h"
#include "format.h"
#include "libraries.h"
#include "state.h"

/* Also the keys of the options, which have no letters. */
enum form { TABLE, SHELL = 256, DOCKER, SLURM };

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	enum form *form = state->input;

	(void)argument;
	switch (key) {
	case SHELL:
	case DOCKER:
	case SLURM:
		if (*form != TABLE && *form != (enum form)key)
			argp_error(state, "--sh, --docker and --slurm exclude each other");
		*form = (enum form)key;
		return 0;
	case ARGP_KEY_ARG: argp_usage(state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* In single quotes, whatever is in it. */
static void put_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
	putchar('\'');
}

/* What a process in a container can only follow if it is in there, in the same place. */
static void put_mount(const char *place, const char *how)
{
	if (!place || place[0] != '/' || access(place, F_OK) < 0)
		return;
	fputs(" -v ", stdout);
	put_quoted(place);
	putchar(':');
	put_quoted(place);
	fputs(how, stdout);
}

static void put_mounts(void)
{
	const char *state = getenv("CUWARD_DIR");
	const char *problem = state && state[0] == '/' ? state_make(state) : NULL;

	/* What is not there docker would make, and it would be root's. */
	if (problem) {
		fputs("cuward: env: CUWARD_DIR=", stderr);
		put_safe(stderr, state, 0);
		fprintf(stderr, ": %s\n", problem);
	}
	put_mount(CUWARD_SYSCONFDIR, ":ro");
	put_mount(CUWARD_RUNDIR, "");
	put_mount(state, "");
	put_mount(getenv("CUWARD_SUPPRESSIONS"), ":ro");
}

static void put_setting(enum form form, const char *name, const char *fallback, const char *help)
{
	const char *value = getenv(name);
	bool differs = value && *fallback;

	if (form == TABLE) {
		printf("%s=%s\n    %s%s%s%s\n", name, value ? value : fallback, help,
			differs ? " (default " : "", differs ? fallback : "", differs ? ")" : "");
		return;
	}
	if (!value || !*value)
		return;
	if (form == DOCKER) {
		fputs(" -e ", stdout);
		fputs(name, stdout);
		putchar('=');
		put_quoted(value);
	} else {
		/* A prolog's output is lines; a value with one in it would be another variable. */
		if (form == SLURM && strchr(value, '\n'))
			return;
		printf("export %s=", name);
		if (form == SHELL)
			put_quoted(value);
		else
			fputs(value, stdout);
		putchar('\n');
	}
}

/* Is the library one of a list as LD_PRELOAD is? */
static bool is_named(const char *list, const char *library)
{
	size_t length = strlen(library);
	const char *place = list;

	while ((place = strstr(place, library))) {
		if ((place == list || strchr(": ", place[-1])) && strchr(": ", place[length]))
			return true;
		place++;
	}
	return false;
}

static void put_preload(enum form form, const char *folder)
{
	const char *others = getenv("LD_PRELOAD");
	char library[PATH_MAX + 16];

	snprintf(library, sizeof(library), "%s/libcuward.so", folder);
	switch (form) {
	case TABLE:
		printf("LD_PRELOAD=%s\n    puts a program under cuward\n", library);
		break;
	case SHELL:
		fputs("export LD_PRELOAD=", stdout);
		put_quoted(library);
		fputs("${LD_PRELOAD:+:$LD_PRELOAD}\n", stdout);
		break;
	case DOCKER:
		fputs("-v ", stdout);
		put_quoted(library);
		fputs(":/usr/lib/libcuward.so:ro -e LD_PRELOAD=/usr/lib/libcuward.so", stdout);
		break;
	case SLURM: /* the steps of a job that is under it already come here too */
		if (others && is_named(others, library))
			printf("export LD_PRELOAD=%s\n", others);
		else
			printf("export LD_PRELOAD=%s%s%s\n", library, others ? ":" : "", others ? others : "");
		break;
	}
}

int cmd_env(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "sh", SHELL, NULL, 0, "Commands for a shell: eval \"$(cuward env --sh)\"", 0 },
		{ "docker", DOCKER, NULL, 0, "Options for docker run", 0 },
		{ "slurm", SLURM, NULL, 0, "Lines for Slurm's TaskProlog", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "The variables that put a program under cuward, with what is set here.\v"
			"Without an option: every variable, its value here and what it means.\n"
			"Exit status: 0, 2 usage, 3 libcuward.so is not found." };
	enum form form = TABLE;
	char folder[PATH_MAX];

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &form);
	if (!libraries_find(folder)) {
		fprintf(stderr, "cuward: libcuward.so is neither in %s nor in %s\n", folder, CUWARD_LIBDIR);
		return EXIT_UNAVAILABLE;
	}
	put_preload(form, folder);
#define X(name, variable, fallback, help) put_setting(form, variable, fallback, help);
	CUWARD_SETTINGS(X)
#undef X
	if (form == DOCKER) {
		put_mounts();
		putchar('\n');
	}
	return EXIT_FINE;
}
