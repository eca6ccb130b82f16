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
#include "top_trend.h"

struct order {
	bool batch;
	unsigned frames; /* 0: until told */
	uint64_t every_ns;
	char sort; /* memory, active, user, pid: their first letters */
	char filter[64]; /* only rows that contain it, empty all */
	bool typing;     /* it is being typed */
	struct ps_choice choice;
	unsigned rows, columns; /* of the terminal; 0 without one */
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;
	unsigned long frames;
	char *end;

	switch (key) {
	case 'b': order->batch = true; return 0;
	case 'n':
		frames = strtoul(argument, &end, 10);
		order->frames = (unsigned)frames;
		if (argument[0] < '1' || argument[0] > '9' || *end || frames > UINT32_MAX)
			argp_error(state, "--iterations: '%s' is no number of tables", argument);
		return 0;
	case 'd':
		if (!policy_duration(argument, &order->every_ns) || order->every_ns < 100000000)
			argp_error(state, "--delay: '%s' is no time from 0.1s on, as in 90s, 10m, 2h", argument);
		return 0;
	case 's':
		if (!argument[0] || !strchr("maup", argument[0]))
			argp_error(state, "'%s': sorted by memory, active, user or pid", argument);
		order->sort = argument[0];
		return 0;
	case 'f':
		if (strlen(argument) >= sizeof(order->filter))
			argp_error(state, "that filter is too long");
		strcpy(order->filter, argument);
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

/* ---- which rows ---- */

static bool contains(const struct order *order, const char *text)
{
	return text && strcasestr(text, order->filter);
}

static bool fits(const struct order *order, const struct box *box, const struct box_process *process)
{
	for (size_t i = 0; i < process->hold_count; i++)
		if (contains(order, box_uuid(&box->gpus[process->holds[i].gpu])))
			return true;
	return contains(order, ps_pid(process)) || contains(order, process->user) ||
		contains(order, process->who->command) || contains(order, process->who->job) ||
		contains(order, process->who->labels);
}

static bool other_fits(const struct order *order, const struct box *box, const struct box_other *other)
{
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", other->pid);
	return contains(order, pid) || contains(order, box_uuid(&box->gpus[other->gpu])) ||
		(other->known && (contains(order, other->user) || contains(order, other->command)));
}

/* Those that fit come first, and only they are counted; the box is closed with its own counts. */
static void filter(const struct order *order, struct box *box)
{
	size_t kept = 0;

	for (size_t i = 0; i < box->count; i++)
		if (fits(order, box, &box->processes[i])) {
			struct box_process process = box->processes[kept];

			box->processes[kept++] = box->processes[i];
			box->processes[i] = process;
		}
	box->count = kept;
	kept = 0;
	for (size_t i = 0; i < box->other_count; i++)
		if (other_fits(order, box, &box->others[i])) {
			struct box_other other = box->others[kept];

			box->others[kept++] = box->others[i];
			box->others[i] = other;
		}
	box->other_count = kept;
}

/* ---- one frame ---- */

static char *processes(const struct box *box, const struct ps_choice *choice)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = need(open_memstream(&text, &bytes));

	ps_table(out, box, BY_PROCESS, choice);
	fclose(out);
	return need(text);
}

static void leave_out(struct ps_choice *choice, const char *name)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < choice->count; i++)
		if (strcmp(choice->columns[i]->name, name) != 0)
			choice->columns[kept++] = choice->columns[i];
	choice->count = kept;
}

/* Is the last heading still in the window? The command under it may be cut. */
static bool is_too_wide(const struct order *order, const char *table)
{
	char *heading = need(strndup(table, strcspn(table, "\n")));
	bool wide = order->columns && text_columns(heading) > order->columns;

	free(heading);
	return wide;
}

/* In a narrow window columns go that say least of who is in the way, so that the command stays. */
static void put_processes(FILE *out, const struct order *order, const struct box *box)
{
	static const char *const dispensable[4] = { "overhead", "since", "trend", "limit" };
	struct ps_choice choice = order->choice;
	char *table = processes(box, &choice);

	for (unsigned i = 0; i < 4 && is_too_wide(order, table); i++) {
		free(table);
		leave_out(&choice, dispensable[i]);
		table = processes(box, &choice);
	}
	fputs(table, out);
	free(table);
}

static char *draw(const struct order *order)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = need(open_memstream(&text, &bytes));
	struct box box;
	size_t count, other_count;

	nvml_begin();
	box_open(&box, false);
	nanosleep(&(struct timespec){ .tv_nsec = 15000000 }, NULL);
	box_look(&box);
	box_add_others(&box);
	sort(&box, order->sort);
	trend_note(&box);
	ps_table(out, &box, BY_GPU, &order->choice);
	fputc('\n', out);
	count = box.count;
	other_count = box.other_count;
	if (order->filter[0])
		filter(order, &box);
	put_processes(out, order, &box);
	box.count = count;
	box.other_count = other_count;
	box_close(&box);
	fclose(out);
	return need(text);
}

static void look_at_window(struct order *order)
{
	struct winsize window = { 0 };
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row && window.ws_col;

	order->rows = known ? window.ws_row : 24;
	order->columns = known ? window.ws_col : 80;
}

/* What fits the window as it is now, line by line; what is behind a line goes. */
static void show(const struct order *order, const char *text)
{
	unsigned rows = order->rows, columns = order->columns;
	char last[160];

	fputs("\033[H", stdout);
	for (unsigned row = 0; row + 1 < rows && *text; row++) {
		size_t length = strcspn(text, "\n");
		char *line = need(strndup(text, length));

		put_safe(stdout, line, columns);
		fputs("\033[K\n", stdout);
		free(line);
		text += length + (text[length] == '\n');
	}
	if (order->typing || order->filter[0])
		snprintf(last, sizeof(last), "filter: %s%s", order->filter, order->typing ?
			"_   Enter: done  Esc: none" : "   q quit  / filter  m a u p sort");
	else
		snprintf(last, sizeof(last), "q quit   sort: m memory  a active  u user  p pid   / filter");
	fputs("\033[J", stdout);
	put_safe(stdout, last, columns - 1);
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

	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	/* In the background this stops us until somebody takes us to the front, or ends us. */
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGWINCH, &resize, NULL); /* poll() returns: the next frame fits */
	fputs("\033[?1049h\033[2J", stdout);
}

static void give_back_terminal(void)
{
	fputs("\033[?1049l", stdout);
	fflush(stdout);
	if (tcgetpgrp(STDIN_FILENO) == getpgrp()) /* else it would stop us */
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void type(struct order *order, char key)
{
	size_t length = strlen(order->filter);

	if (key == '\r' || key == '\n' || key == 27) {
		order->typing = false;
		if (key == 27)
			order->filter[0] = '\0';
	} else if (key == 127 || key == 8) {
		order->filter[length ? length - 1 : 0] = '\0';
	} else if (key >= ' ' && length + 1 < sizeof(order->filter)) {
		order->filter[length] = key;
		order->filter[length + 1] = '\0';
	}
}

/* False: it is over. */
static bool wait_for_key(struct order *order)
{
	struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
	char key = 0;

	if (poll(&keys, 1, (int)(order->every_ns / 1000000)) <= 0)
		return !ended;
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 3 || (key == 'q' && !order->typing))
		return false;
	if (order->typing)
		type(order, key);
	else if (key == '/')
		order->typing = true;
	else if (key && strchr("maup", key))
		order->sort = key;
	return !ended;
}

static void live(struct order *order)
{
	take_terminal();
	do {
		char *text;

		look_at_window(order);
		text = draw(order);
		show(order, text);
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

/* The usual ones, and what was used in the last tables beside what is used now. */
static void choose_columns(struct ps_choice *choice)
{
	static const struct ps_column trend = { "trend", "<TREND", trend_of_row };
	const unsigned at = 4;

	ps_usual(choice);
	memmove(&choice->columns[at + 1], &choice->columns[at],
		(choice->count - at) * sizeof(choice->columns[0]));
	choice->columns[at] = &trend;
	choice->count++;
	choice->gpu_trend = trend_of_gpu;
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "batch", 'b', NULL, 0, "Tables one after the other, for a file or a pipe", 0 },
		{ "iterations", 'n', "N", 0, "End after so many tables", 0 },
		{ "delay", 'd', "T", 0, "From one table to the next (default 2s)", 0 },
		{ "sort", 's', "KEY", 0, "By memory (default), active, user or pid", 0 },
		{ "filter", 'f', "TEXT", 0, "Only what has this in pid, user, GPU, command, job or labels", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "Who holds GPU memory on this machine, live.\v"
			"Keys: q quits; m, a, u and p sort by memory, activity, user and pid; / filters.\n"
			"Exit status: 0, 2 usage; 128+N when signal N ended it." };
	struct order order = { .every_ns = 2000000000, .sort = 'm' };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	choose_columns(&order.choice);
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
