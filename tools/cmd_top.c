/*
 * cmd_top.c - `cuward top`: the table of `cuward ps`, live.
 */
#include <argp.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "need.h"
#include "nvml.h"
#include "policy.h"
#include "ps.h"

struct order {
	bool batch;
	unsigned frames; /* 0: until told */
	uint64_t every_ns;
	char sort; /* memory, active, user, pid: their first letters */
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;
	char *end;

	switch (key) {
	case 'b': order->batch = true; return 0;
	case 'n':
		order->frames = (unsigned)strtoul(argument, &end, 10);
		if (argument[0] < '1' || argument[0] > '9' || *end)
			argp_error(state, "'%s' is no number of tables", argument);
		return 0;
	case 'd':
		if (!policy_duration(argument, &order->every_ns) || order->every_ns < 100000000)
			argp_error(state, "'%s' is no time from 0.1s on, as in 90s, 10m, 2h", argument);
		return 0;
	case 's':
		if (!argument[0] || !strchr("maup", argument[0]))
			argp_error(state, "'%s': sorted by memory, active, user or pid", argument);
		order->sort = argument[0];
		return 0;
	case ARGP_KEY_ARG: argp_usage(state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the order of rows ---- */

static int by_active(const void *left, const void *right)
{
	const struct box_process *a = left, *b = right;

	return a->activity_ns == b->activity_ns ? 0 : a->activity_ns > b->activity_ns ? -1 : 1;
}

static int by_user(const void *left, const void *right)
{
	const struct box_process *a = left, *b = right;
	int order = strcmp(a->user, b->user);

	return order ? order : a->used_bytes == b->used_bytes ? 0 : a->used_bytes > b->used_bytes ? -1 : 1;
}

static int by_pid(const void *left, const void *right)
{
	const struct box_process *a = left, *b = right;

	return a->who->pid < b->who->pid ? -1 : a->who->pid > b->who->pid;
}

static void sort(struct box *box, char key)
{
	int (*by)(const void *, const void *) = key == 'a' ? by_active : key == 'u' ? by_user :
		key == 'p' ? by_pid : NULL;

	if (by && box->count)
		qsort(box->processes, box->count, sizeof(*box->processes), by);
}

/* ---- one frame ---- */

static char *draw(const struct order *order)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = need(open_memstream(&text, &bytes));
	struct box box;

	nvml_begin();
	box_open(&box, false);
	nanosleep(&(struct timespec){ .tv_nsec = 15000000 }, NULL);
	box_look(&box);
	box_add_others(&box);
	sort(&box, order->sort);
	ps_table(out, &box, BY_GPU);
	fputc('\n', out);
	ps_table(out, &box, BY_PROCESS);
	box_close(&box);
	fclose(out);
	return need(text);
}

/* What fits the window as it is now, line by line; what is behind a line goes. */
static void show(const char *text)
{
	struct winsize window = { 0 };
	unsigned rows = 24, columns = 80;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row && window.ws_col) {
		rows = window.ws_row;
		columns = window.ws_col;
	}
	fputs("\033[H", stdout);
	for (unsigned row = 0; row + 1 < rows && *text; row++) {
		size_t length = strcspn(text, "\n");
		char *line = need(strndup(text, length));

		put_safe(stdout, line, columns);
		fputs("\033[K\n", stdout);
		free(line);
		text += length + (text[length] == '\n');
	}
	printf("\033[J%.*s", (int)columns - 1, "q quit   sort: m memory  a active  u user  p pid");
	fflush(stdout);
}

/* ---- the terminal ---- */

static struct termios before;
static volatile sig_atomic_t ended;

static void end_by_signal(int number)
{
	ended = number;
}

static void nothing(int number)
{
	(void)number;
}

static void take_terminal(void)
{
	struct sigaction end = { .sa_handler = end_by_signal }, resize = { .sa_handler = nothing };
	struct termios raw;

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGWINCH, &resize, NULL); /* poll() returns: the next frame fits */
	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs("\033[?1049h\033[2J", stdout);
}

static void give_back_terminal(void)
{
	fputs("\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* False: it is over. */
static bool wait_for_key(struct order *order)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	char key = 0;

	if (poll(&keys, 1, (int)(order->every_ns / 1000000)) <= 0)
		return !ended;
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 3)
		return false;
	if (strchr("maup", key))
		order->sort = key;
	return !ended;
}

static void live(struct order *order)
{
	take_terminal();
	do {
		char *text = draw(order);

		show(text);
		free(text);
	} while ((!order->frames || --order->frames) && wait_for_key(order));
	give_back_terminal();
}

static void batch(const struct order *order)
{
	for (unsigned i = 0; !order->frames || i < order->frames; i++) {
		char *text;

		if (i)
			nanosleep(&(struct timespec){ .tv_sec = (time_t)(order->every_ns / 1000000000),
				.tv_nsec = (long)(order->every_ns % 1000000000) }, NULL);
		text = draw(order);
		printf("%s%s", i ? "\n" : "", text);
		free(text);
		if (fflush(stdout) != 0)
			return;
	}
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "batch", 'b', NULL, 0, "Tables one after the other, for a file or a pipe", 0 },
		{ "iterations", 'n', "N", 0, "End after so many tables", 0 },
		{ "delay", 'd', "T", 0, "From one table to the next (default 2s)", 0 },
		{ "sort", 's', "KEY", 0, "By memory (default), active, user or pid", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "Who holds GPU memory on this machine, live.\v"
			"Keys: q quits; m, a, u and p sort by memory, activity, user and pid." };
	struct order order = { .every_ns = 2000000000, .sort = 'm' };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	if (!order.batch && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))) {
		fprintf(stderr, "cuward: top: no terminal; --batch writes tables\n");
		return EXIT_USAGE;
	}
	if (order.batch)
		batch(&order);
	else
		live(&order);
	return ended ? 128 + ended : EXIT_FINE;
}
