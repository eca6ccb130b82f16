/*
 * cmd_release.c - `cuward release`: what was kept is free again.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin_dir.h"
#include "cuward.h"
#include "format.h"
#include "reserve.h"
#include "state.h"

struct order {
	const char *id;
	bool all;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case 'a': order->all = true; return 0;
	case ARGP_KEY_ARG:
		if (order->id)
			argp_usage(state);
		order->id = argument;
		if (!*argument || strchr(argument, '/') || *argument == '.')
			argp_error(state, "'%s' is no id", argument);
		return 0;
	case ARGP_KEY_END:
		if (!order->id == !order->all)
			argp_error(state, "an id, or --all?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int fail(int status, const char *what, const char *why)
{
	fputs("cuward: release: ", stderr);
	put_safe(stderr, what, 0);
	fprintf(stderr, ": %s\n", why);
	return status;
}

/* Also one that cannot be read: whoever may remove the file. True: it was there. */
static bool release_one(const char *id, int *status)
{
	char state[PATH_MAX], path[2][PATH_MAX + 80];
	unsigned count = 0;
	bool found = false;

	snprintf(path[count++], sizeof(path[0]), CUWARD_RUNDIR "/reserve/%.60s", id);
	if (!state_folder(state))
		snprintf(path[count++], sizeof(path[0]), "%s/reserve/%.60s", state, id);
	for (unsigned i = 0; i < count; i++) {
		if (unlink(path[i]) == 0) {
			found = true;
		} else if (errno != ENOENT && errno != ENOTDIR) {
			*status = fail(EXIT_NO_PERMISSION, path[i], strerror(errno));
			found = true;
		}
	}
	return found;
}

/* Those that this user may release. */
static int release_all(void)
{
	struct reserve_list list;
	char why[PATH_MAX + 300];
	int status = EXIT_FINE;

	if (!reserve_list_open(&list, NULL, why, sizeof(why)))
		status = fail(EXIT_FOUND, "--all", why);
	for (size_t i = 0; i < list.count; i++)
		if (!list.all[i].common || geteuid() == 0)
			release_one(list.all[i].id, &status);
	reserve_list_close(&list);
	return status;
}

int cmd_release(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "all", 'a', NULL, 0, "All that you may", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "ID\n--all",
		.doc = "End what cuward reserve keeps; cuward queue lists the ids.\v"
			"Exit status: 0, 1 there is none of this id, 2 usage, 4 no permission." };
	struct order order = { 0 };
	int status = EXIT_FINE;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	if (order.all)
		return release_all();
	return release_one(order.id, &status) ? status :
		fail(EXIT_FOUND, order.id, "nothing of this id is kept");
}
