/*
 * cmd_export.c - `cuward export`: Prometheus metrics, once, into a file again and again, or over HTTP.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuward.h"
#include "export.h"
#include "policy.h"

volatile int export_ended;

struct order {
	struct export_order what;
	const char *file, *address;
	uint64_t every_ns;
	bool once, every_given;
};

static unsigned number(const struct argp_state *state, const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > 100000)
		argp_error(state, "'%s' is no number of processes", text);
	return (unsigned)value;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case '1': order->once = true; return 0;
	case 't': order->file = argument; return 0;
	case 'l': order->address = argument; return 0;
	case 'N': order->what.nvml = true; return 0;
	case 'p': order->what.processes_max = number(state, argument); return 0;
	case 'e':
		order->every_given = true;
		if (!policy_duration(argument, &order->every_ns) || order->every_ns < 1000000000)
			argp_error(state, "--every: '%s' is no time from 1s on, as in 90s, 10m, 2h", argument);
		return 0;
	case ARGP_KEY_ARG: argp_usage(state); return 0;
	case ARGP_KEY_END:
		if (order->address && (order->once || order->file))
			argp_error(state, "--listen is for itself: no --once, no --textfile");
		if (order->address && !*order->address)
			argp_error(state, "--listen: where? PORT, or HOST:PORT");
		if (order->every_given && !order->file)
			argp_error(state, "--every is for --textfile");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void end_by_signal(int number_of_signal)
{
	(void)number_of_signal;
	export_ended = 1;
}

static int fail(const char *file)
{
	fprintf(stderr, "cuward: export: %s: %s\n", file, strerror(errno));
	return EXIT_FOUND;
}

/* A reader sees the old file or the new one, never a part. */
static int write_file(const struct order *order)
{
	char beside[PATH_MAX + 32];
	size_t bytes;
	char *text = export_metrics(&order->what, &bytes);
	FILE *out;
	bool fine;

	snprintf(beside, sizeof(beside), "%s.%d.tmp", order->file, getpid());
	out = fopen(beside, "wxe");
	fine = out && fwrite(text, 1, bytes, out) == bytes;
	fine = out && fclose(out) == 0 && fine;
	free(text);
	if (fine && rename(beside, order->file) == 0)
		return EXIT_FINE;
	fail(order->file);
	if (out)
		unlink(beside);
	return EXIT_FOUND;
}

static int write_once(const struct order *order)
{
	size_t bytes;
	char *text;
	bool fine;

	if (order->file)
		return write_file(order);
	text = export_metrics(&order->what, &bytes);
	fine = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
	free(text);
	return fine ? EXIT_FINE : fail("stdout");
}

static int write_again_and_again(const struct order *order)
{
	while (!export_ended) {
		int status = write_file(order);

		if (status != EXIT_FINE)
			return status;
		if (!export_ended)
			nanosleep(&(struct timespec){ .tv_sec = (time_t)(order->every_ns / 1000000000),
				.tv_nsec = (long)(order->every_ns % 1000000000) }, NULL);
	}
	return EXIT_FINE;
}

int cmd_export(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "once", '1', NULL, 0, "Once, and to stdout unless --textfile is given (the default)", 0 },
		{ "textfile", 't', "FILE", 0, "Write FILE, for node_exporter; without --once every 15 s", 0 },
		{ "every", 'e', "T", 0, "Write it so often (default 15s)", 0 },
		{ "listen", 'l', "ADDR", 0, "Serve http://ADDR/metrics: PORT, HOST:PORT (localhost)", 0 },
		{ "nvml", 'N', NULL, 0, "Also what NVML knows, as of processes not under cuward", 0 },
		{ "processes", 'p', "N", 0, "List so many processes, those that hold most (default 256)", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "Who holds GPU memory on this machine, as Prometheus metrics.\v"
			"Exit status: 0, 1 the file cannot be written, 2 usage, 3 ADDR cannot be listened on." };
	struct order order = { .every_ns = 15000000000, .what.processes_max = 256 };
	struct sigaction end = { .sa_handler = end_by_signal };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (order.address)
		return export_serve(&order.what, order.address);
	return order.file && !order.once ? write_again_and_again(&order) : write_once(&order);
}
