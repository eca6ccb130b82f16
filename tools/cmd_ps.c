/*
 * cmd_ps.c - `cuward ps`: who holds what, against which limit, since when, last activity.
 */
#include <argp.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuward.h"
#include "format.h"
#include "nvml.h"
#include "ps.h"

/* So long we look who makes calls: launches alone leave no other mark. */
#define LOOK_NS 15000000

struct order {
	enum ps_by by;
	bool json, csv, stale, alone, chosen;
	pid_t pid; /* only this process, with its refusals; 0 all */
	struct ps_choice choice;
};

static void parse_pid(const struct argp_state *state, struct order *order, const char *text)
{
	char *end;
	unsigned long pid = strtoul(text, &end, 10);

	if (order->pid)
		argp_usage(state);
	if (text[0] < '0' || text[0] > '9' || *end || pid == 0 || pid > INT32_MAX)
		argp_error(state, "'%s' is no pid", text);
	order->pid = (pid_t)pid;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	static const char *const words[] = { "process", "user", "gpu" };
	struct order *order = state->input;
	char name[32] = "";

	switch (key) {
	case 'j': order->json = true; return 0;
	case 'c': order->csv = true; return 0;
	case 's': order->stale = true; return 0;
	case 'N': order->alone = true; return 0;
	case 'o':
		order->chosen = true;
		if (strcmp(argument, "help") == 0) {
			printf("%s\n", ps_column_names());
			exit(fflush(stdout) == 0 ? EXIT_FINE : EXIT_FOUND);
		}
		if (!ps_choose(&order->choice, argument, name))
			argp_error(state, "-o %s: no column '%s'; there are %s", argument, name, ps_column_names());
		return 0;
	case 'b':
		for (enum ps_by by = BY_PROCESS; by <= BY_GPU; by++)
			if (strcmp(argument, words[by]) == 0) {
				order->by = by;
				return 0;
			}
		argp_error(state, "--by %s: it is process, user or gpu", argument);
		return 0;
	case ARGP_KEY_ARG: parse_pid(state, order, argument); return 0;
	case ARGP_KEY_END:
		if (order->json && order->csv)
			argp_error(state, "JSON or CSV?");
		if (order->chosen && (order->json || order->csv || order->by != BY_PROCESS))
			argp_error(state, "-o is for the table of processes; --json and --csv tell all");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Files that others wrote and we cannot read hide processes: that is told. */
static int tell_unreadable(const struct box *box)
{
	if (!box->slots.unreadable)
		return EXIT_FINE;
	fprintf(stderr, "cuward: %zu slots file%s cannot be read: ", box->slots.unreadable,
		box->slots.unreadable == 1 ? "" : "s");
	put_safe(stderr, box->slots.why, 0);
	fputc('\n', stderr);
	return EXIT_FOUND;
}

static void print(const struct order *order, const struct box *box)
{
	if (order->json)
		ps_json(stdout, box, order->pid);
	else if (order->csv)
		ps_csv(stdout, box, order->by);
	else
		ps_table(stdout, box, order->by, &order->choice);
	if (order->pid && box->count && !order->json && !order->csv)
		ps_refusals(stdout, box, box->processes);
}

/* As if this process was the only one; sums stay those of all. False: it is not there. */
static bool print_one(const struct order *order, struct box *box)
{
	struct box_process *one = box_find(box, order->pid), first = { 0 };
	const struct box_other *other = one ? NULL : box_find_other(box, order->pid);
	struct box only = *box;

	if (!one && !other) {
		fprintf(stderr, "cuward: ps: nobody that we see uses a GPU and has the pid %d\n", order->pid);
		return false;
	}
	/* Others point to it by nothing: it may stand in the first place for a while. */
	if (one) {
		first = box->processes[0];
		box->processes[0] = *one;
		*one = first;
	}
	only.count = one != NULL;
	only.others = (struct box_other *)other;
	only.other_count = other != NULL;
	print(order, &only);
	return true;
}

int cmd_ps(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "All of it as JSON", 0 },
		{ "csv", 'c', NULL, 0, "As CSV: bytes, nanoseconds, RFC 3339", 0 },
		{ "by", 'b', "WHAT", 0, "One row a process (and GPU), a user, or a gpu", 0 },
		{ "columns", 'o', "LIST", 0, "These columns: pid,user,gpu,... (-o help lists them)", 0 },
		{ "stale", 's', NULL, 0, "Also the dead, as far as their slots are left", 0 },
		{ "no-nvml", 'N', NULL, 0, "Do not ask NVML for those that are not under cuward", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "[PID]",
		.doc = "Who holds GPU memory on this machine: the processes under cuward that you may see, "
			"and where NVML tells them those that are not.\v"
			"With a PID only that process, and what limits refused it.\n"
			"Exit status: 0, 1 some slots file cannot be read or there is no such process, 2 usage." };
	struct order order = { 0 };
	struct box box;
	bool found = true;
	int status;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	ps_usual(&order.choice);
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	if (!order.alone)
		nvml_begin();
	box_open(&box, order.stale);
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	box_look(&box);
	if (!order.alone)
		box_add_others(&box);
	if (!order.pid)
		print(&order, &box);
	else if (!print_one(&order, &box))
		found = false;
	status = tell_unreadable(&box);
	box_close(&box);
	return found ? status : EXIT_FOUND;
}
