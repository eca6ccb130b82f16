/*
 * cmd_mark.c - `cuward mark`: name this moment in a running process, for `run --leak marks`.
 *
 * The process sets the mark before its next allocation or free, or at its end: until then nothing
 * changes that a mark could see.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "ledger_read.h"
#include "state.h"

struct order {
	uint32_t pid;
	const char *name;
};

static int fail(int status, const char *what, const char *why)
{
	fputs("cuward: ", stderr);
	put_safe(stderr, what, 0);
	fprintf(stderr, ": %s\n", why);
	return status;
}

/* ---- the line ---- */

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;
	char *end;
	unsigned long pid;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num > 1)
			argp_usage(state);
		if (state->arg_num == 1) {
			order->name = argument;
			return 0;
		}
		pid = strtoul(argument, &end, 10);
		if (!isdigit((unsigned char)*argument) || *end || pid == 0 || pid > INT32_MAX)
			argp_error(state, "'%s' is no pid", argument);
		order->pid = (uint32_t)pid;
		return 0;
	case ARGP_KEY_END:
		if (!order->name || !*order->name)
			argp_error(state, "which process, and which name?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the process ---- */

/* Its latest image that lives. Pids of other namespaces are others' pids. */
static const struct ledger_file *find_process(const struct ledger_list *list, uint32_t pid,
	const char *dir)
{
	const struct ledger_file *found = NULL;

	for (size_t i = 0; i < list->count; i++) {
		const struct process_identity *who = &list->files[i].header->who;

		if (who->pid == pid && who->pid_ns == ledger_own_pid_ns() &&
			ledger_owner(&list->files[i], dir) != OWNER_DEAD)
			found = &list->files[i];
	}
	return found;
}

/* Two that mark at once take turns. Returns an exit status. */
static int write_mark(int fd, const char *path, const char *name)
{
	struct flock turn = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
		.l_start = offsetof(struct ledger_header, marks_asked), .l_len = sizeof(uint32_t) };
	char text[sizeof(((struct ledger_header *)0)->mark_asked[0])] = "";
	uint32_t counts[2]; /* asked, taken */
	off_t place;

	if (fcntl(fd, F_OFD_SETLKW, &turn) != 0 || pread(fd, counts, sizeof(counts), turn.l_start) !=
		(ssize_t)sizeof(counts))
		return fail(EXIT_FOUND, path, strerror(errno));
	if (counts[0] - counts[1] >= LEDGER_MARKS_ASKED)
		return fail(EXIT_FOUND, name, "the process has not set its last marks yet; it is idle");
	strncpy(text, name, sizeof(text) - 1);
	place = (off_t)(offsetof(struct ledger_header, mark_asked) +
		counts[0] % LEDGER_MARKS_ASKED * sizeof(text));
	counts[0]++;
	if (pwrite(fd, text, sizeof(text), place) != (ssize_t)sizeof(text) ||
		pwrite(fd, counts, sizeof(counts[0]), turn.l_start) != (ssize_t)sizeof(counts[0]))
		return fail(EXIT_FOUND, path, strerror(errno));
	return EXIT_FINE;
}

static int mark(const struct ledger_file *process, const char *name)
{
	int fd, status;

	if (process->header->leak_mode != LEAK_MARKS && process->header->leak_mode != LEAK_GROWTH)
		return fail(EXIT_FOUND, process->header->who.command,
			"this process was not started with --leak marks");
	fd = open(process->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fail(errno == EACCES ? EXIT_NO_PERMISSION : EXIT_FOUND, process->path,
			strerror(errno));
	status = write_mark(fd, process->path, name);
	close(fd);
	return status;
}

int cmd_mark(int argc, char **argv)
{
	static const struct argp parser = { .parser = parse_option, .args_doc = "PID NAME",
		.doc = "Name this moment in a process that runs with --leak marks.\v"
			"What is live at its last mark beyond what was live at the first is a leak.\n"
			"Exit status: 0, 1 there is no such process, or it has no use for marks, 2 usage, 4 no "
			"permission." };
	const struct ledger_file *process;
	struct ledger_list list = { 0 };
	struct order order = { 0 };
	char dir[PATH_MAX];
	const char *why;
	int status;

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	why = state_folder(dir);
	if (why)
		return fail(EXIT_UNAVAILABLE, "mark", why);
	ledger_list_open(&list, dir, "");
	process = find_process(&list, order.pid, dir);
	if (process)
		status = mark(process, order.name);
	else
		status = fail(EXIT_FOUND, "mark", "no process with this pid uses CUDA under cuward");
	ledger_list_close(&list);
	return status;
}
