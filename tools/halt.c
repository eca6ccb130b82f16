/*
 * halt.c - SIGSTOP and SIGCONT for one process or for those of a job, by descriptors of theirs.
 *
 * A slot is believed only if the process behind the descriptor is what it says: neither a pid that was
 * handed on nor somebody's lie in his own file stops anybody else.
 */
#include "halt.h"

#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "format.h"
#include "pidfd.h"
#include "proc_state.h"
#include "ps.h"

/* A job may start processes while it is being stopped. */
#define ROUNDS_MAX 10

struct order {
	const char *what; /* a pid or a job */
	const char *name; /* of the command */
	bool go_on;
	int status;
	unsigned found, changed;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (order->what)
			argp_usage(state);
		order->what = argument;
		return 0;
	case ARGP_KEY_END:
		if (!order->what || !*order->what)
			argp_error(state, "which process, or which job?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* The worst of all. */
static void fail(struct order *order, const struct box_process *process, int status, const char *why)
{
	fprintf(stderr, "cuward: %s: process %s: %s\n", order->name, ps_pid(process), why);
	if (status > order->status)
		order->status = status;
}

/* ---- one process ---- */

/* A descriptor of this very process; -1, and it was said why. */
static int open_process(struct order *order, const struct box_process *process)
{
	int fd = process->pid ? pidfd_of(process->pid) : -1;

	if (fd < 0) {
		fail(order, process, EXIT_FOUND, process->pid ? strerror(errno) :
			"its pid is not known here: it is of another pid namespace");
		return -1;
	}
	if (box_is_what_it_says(process))
		return fd;
	fail(order, process, EXIT_FOUND, BOX_NOT_WHAT_IT_SAYS);
	close(fd);
	return -1;
}

static bool is_stopped(const struct box_process *process)
{
	struct proc_state proc;

	return proc_state(process->pid, &proc) && proc.stopped;
}

/* Each thread has to notice; one in the kernel may take its time. */
static bool becomes(const struct box_process *process, bool stopped)
{
	for (int i = 0; i < 100; i++) {
		if (is_stopped(process) == stopped)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return false;
}

static void show(const struct box *box, const struct box_process *process)
{
	printf("process %s, ", ps_pid(process));
	put_safe(stdout, process->who->command, 60);
	printf(" of ");
	put_safe(stdout, process->user, 40);
	printf(", holds ");
	if (!process->used_bytes)
		printf("nothing");
	for (size_t i = 0, shown = 0; i < process->hold_count; i++)
		if (process->holds[i].used_bytes)
			printf("%s%s on %s", shown++ ? ", " : "", process->holds[i].used_bytes ==
				BYTES_UNKNOWN ? "unknown" : format_bytes(process->holds[i].used_bytes),
				box_gpu_name(box, &box->gpus[process->holds[i].gpu]));
}

static void change(struct order *order, const struct box *box, const struct box_process *process)
{
	int fd = open_process(order, process);

	if (fd < 0)
		return;
	if (!pidfd_signal(fd, order->go_on ? SIGCONT : SIGSTOP)) {
		fail(order, process, errno == EPERM ? EXIT_NO_PERMISSION : EXIT_FOUND, strerror(errno));
	} else {
		order->changed++;
		show(box, process);
		if (order->go_on)
			printf(": goes on\n");
		else if (becomes(process, true))
			printf(": stands still, and keeps what it holds\n");
		else
			printf(": will stand still once the kernel lets go of it\n");
	}
	close(fd);
}

/* ---- all of them ---- */

static bool is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0';
}

/* How many of those it is about were not as they are to be. */
static unsigned change_all(struct order *order)
{
	struct box box;
	unsigned before = order->changed;

	box_open(&box, false);
	order->found = 0;
	for (size_t i = 0; i < box.count; i++) {
		const struct box_process *process = &box.processes[i];
		bool fits = is_number(order->what) ?
			process == box_find(&box, box_pid(order->what)) :
			process->owner == OWNER_ALIVE && box_in_job(process, order->what);

		order->found += fits;
		if (fits && (order->go_on ? is_stopped(process) : !is_stopped(process)))
			change(order, &box, process);
	}
	box_close(&box);
	return order->changed - before;
}

static int carry_out(struct order *order)
{
	for (int i = 0; i < ROUNDS_MAX && change_all(order) && order->status == EXIT_FINE; i++)
		if (order->go_on || is_number(order->what))
			break;
	if (order->changed || order->status != EXIT_FINE)
		return order->status;
	fprintf(stderr, "cuward: %s: ", order->name);
	put_safe(stderr, order->what, 0);
	if (!order->found)
		fprintf(stderr, ": no living process of this %s uses CUDA under cuward; nobody is "
			"meant by name\n", is_number(order->what) ? "pid" : "job");
	else
		fprintf(stderr, order->go_on ? ": nothing there was stopped\n" : ": it stands still already\n");
	return order->found ? EXIT_FINE : EXIT_FOUND;
}

int halt_command(int argc, char **argv, bool go_on)
{
	const struct argp parser = { .parser = parse_option, .args_doc = "PID|JOB",
		.doc = go_on ? "Let a process or the processes of a job go on that were stopped, by "
			"cuward pause, by --on-limit pause or by anybody (SIGCONT).\v"
			"Exit status: 0, 1 there is no such process or job, 2 usage, 4 no permission." :
			"Stop a process that uses the GPU, or all such processes of a job, until cuward resume "
			"(SIGSTOP). They keep the memory they hold, and kernels that were launched go on.\v"
			"Exit status: 0, 1 there is no such process or job, 2 usage, 4 no permission." };
	struct order order = { .go_on = go_on, .name = go_on ? "resume" : "pause" };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	return carry_out(&order);
}
