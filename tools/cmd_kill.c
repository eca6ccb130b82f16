/*
 * cmd_kill.c - `cuward kill PID`: end one process that holds GPU memory, with care.
 *
 * By a descriptor of the process, opened before it is shown and asked about: a pid that is handed on
 * in the meantime means nobody else. Nor is a slot believed that names the pid of another process.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "pidfd.h"
#include "policy.h"
#include "ps.h"

struct order {
	pid_t pid;
	uint64_t grace_ns;
	bool yes;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;
	char *end;
	unsigned long pid;

	switch (key) {
	case 'y': order->yes = true; return 0;
	case 'g':
		if (!policy_duration(argument, &order->grace_ns))
			argp_error(state, "--grace: '%s' is no time, as in 90s, 10m, 2h", argument);
		return 0;
	case ARGP_KEY_ARG:
		pid = strtoul(argument, &end, 10);
		if (order->pid)
			argp_usage(state);
		if (argument[0] < '0' || argument[0] > '9' || *end || pid == 0 || pid > INT32_MAX)
			argp_error(state, "'%s' is no pid; nobody is ended by name", argument);
		order->pid = (pid_t)pid;
		return 0;
	case ARGP_KEY_END:
		if (!order->pid)
			argp_error(state, "which process?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int fail(int status, const char *why)
{
	fprintf(stderr, "cuward: kill: %s\n", why);
	return status;
}

/* ---- what is lost ---- */

static void show(const struct box *box, const struct box_process *process)
{
	const char *active = ps_activity(box, process);

	fprintf(stderr, "process %s, ", ps_pid(process));
	put_safe(stderr, process->who->command, 60);
	fprintf(stderr, " of ");
	put_safe(stderr, process->user, 40);
	fprintf(stderr, ", started %s ago, ", format_ns(box->now_ns - process->who->start_realtime_ns));
	fprintf(stderr, strpbrk(active, "0123456789") ? "last active %s ago\n" : "active: %s\n", active);
	for (size_t i = 0; i < process->hold_count; i++)
		if (process->holds[i].used_bytes)
			fprintf(stderr, "  holds %s on %s\n", format_bytes(process->holds[i].used_bytes),
				box_gpu_name(box, &box->gpus[process->holds[i].gpu]));
}

static void show_other(const struct box *box, const struct box_other *other)
{
	fprintf(stderr, "process %d, ", other->pid);
	put_safe(stderr, other->known ? other->command : "unknown", 60);
	fprintf(stderr, " of ");
	put_safe(stderr, other->known ? other->user : "unknown", 40);
	fprintf(stderr, ", not under cuward\n");
	for (size_t i = 0; i < box->other_count; i++)
		if (box->others[i].pid == other->pid)
			fprintf(stderr, "  holds %s on %s\n", box->others[i].used_bytes == BYTES_UNKNOWN ?
				"an unknown amount" : format_bytes(box->others[i].used_bytes),
				box_gpu_name(box, &box->gpus[box->others[i].gpu]));
}

static bool agreed(void)
{
	char answer[16] = "";

	fprintf(stderr, "end it? [y/N] ");
	if (!fgets(answer, sizeof(answer), stdin)) {
		fputc('\n', stderr);
		fail(EXIT_FOUND, "nobody is there to ask; --yes says so beforehand");
		return false;
	}
	return answer[0] == 'y' || answer[0] == 'Y';
}

/* ---- the end ---- */

static int end(int fd, const struct order *order)
{
	if (!pidfd_signal(fd, SIGTERM))
		return errno == EPERM ? fail(EXIT_NO_PERMISSION, "it belongs to another user") :
			fail(EXIT_FOUND, strerror(errno));
	if (pidfd_ends_within(fd, order->grace_ns)) {
		printf("process %d ended by SIGTERM\n", order->pid);
		return EXIT_FINE;
	}
	if (!pidfd_signal(fd, SIGKILL) && errno != ESRCH)
		return fail(EXIT_FOUND, strerror(errno));
	if (!pidfd_ends_within(fd, 30000000000))
		return fail(EXIT_FOUND, "it does not end, even by SIGKILL: it is stuck in the kernel");
	printf("process %d ended by SIGKILL, %s after SIGTERM\n", order->pid, format_ns(order->grace_ns));
	return EXIT_FINE;
}

static int kill_it(const struct order *order)
{
	int fd = pidfd_of(order->pid);
	const struct box_process *process;
	const struct box_other *other;
	struct box box;
	int status;

	if (fd < 0)
		return fail(EXIT_FOUND, errno == ESRCH ? "there is no process with this pid" : strerror(errno));
	/* Only now: it is the process behind the descriptor, or has ended. */
	box_open(&box, false);
	process = box_find(&box, order->pid);
	if (process && (process->pid != order->pid || process->owner != OWNER_ALIVE))
		process = NULL;
	if (!process)
		box_add_others(&box);
	other = box_find_other(&box, order->pid);
	if (process && !box_is_what_it_says(process)) {
		status = fail(EXIT_FOUND, BOX_NOT_WHAT_IT_SAYS);
	} else if (!process && !other) {
		status = fail(EXIT_FOUND, "no living process with this pid uses CUDA under cuward, and NVML "
			"tells of none");
	} else {
		if (process)
			show(&box, process);
		else
			show_other(&box, other);
		fprintf(stderr, "what it has computed and not saved is lost\n");
		status = order->yes || agreed() ? end(fd, order) : EXIT_FOUND;
	}
	box_close(&box);
	close(fd);
	return status;
}

int cmd_kill(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "yes", 'y', NULL, 0, "Do not ask", 0 },
		{ "grace", 'g', "T", 0, "From SIGTERM to SIGKILL (default 10s)", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option, .args_doc = "PID",
		.doc = "End a process that holds GPU memory: show what is lost, ask, SIGTERM, wait, SIGKILL.\v"
			"Exit status: 0 it ended, 1 it did not or is none of ours, 2 usage, 4 no permission." };
	struct order order = { .grace_ns = 10000000000 };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	return kill_it(&order);
}
