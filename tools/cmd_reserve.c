/*
 * cmd_reserve.c - `cuward reserve`: keep GPU memory for somebody, for a while.
 */
#include <argp.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "cuward.h"
#include "format.h"
#include "gpus.h"
#include "limit.h"
#include "policy.h"
#include "reserve.h"

struct order {
	const char *size, *whose, *gpu;
	uint64_t ns;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case 'g': order->gpu = argument; return 0;
	case 'f':
		if (!policy_duration(argument, &order->ns) || !order->ns)
			argp_error(state, "--for: '%s' is no time, as in 90s, 10m, 2h", argument);
		return 0;
	case ARGP_KEY_ARG:
		if (order->whose)
			argp_usage(state);
		*(order->size ? &order->whose : &order->size) = argument;
		return 0;
	case ARGP_KEY_END:
		if (!order->size)
			argp_error(state, "how much?");
		if (!order->ns)
			argp_error(state, "for how long? --for 2h");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int fail(int status, const char *why)
{
	fputs("cuward: reserve: ", stderr);
	put_safe(stderr, why, 0);
	fputc('\n', stderr);
	return status;
}

static int fail_too_much(uint64_t bytes, unsigned index, const struct limit_device *device)
{
	char why[200], wanted[32];

	snprintf(wanted, sizeof(wanted), "%s", format_bytes(bytes));
	snprintf(why, sizeof(why), "GPU %u has %s in all: %s of it cannot be kept; --gpu names another "
		"one, 100%% is all of each", index, format_bytes(device->total_bytes), wanted);
	return fail(EXIT_USAGE, why);
}

/* SIZE of each GPU, or of the one that --gpu names. */
static int find_keeps(struct reserve *reserve, const struct order *order)
{
	struct gpu_fact facts[SLOT_DEVICES];
	struct limit_device devices[SLOT_DEVICES];
	unsigned count = gpus_ask(facts);
	uint64_t bytes[SLOT_DEVICES];
	struct limit limit;
	char text[300], why[300];

	if (!count)
		return fail(EXIT_UNAVAILABLE, "no CUDA driver or no GPU is found here");
	for (unsigned i = 0; i < count; i++) {
		memcpy(devices[i].uuid, facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = facts[i].total_bytes;
	}
	snprintf(text, sizeof(text), "%.100s%s%.150s", order->gpu ? order->gpu : "", order->gpu ? "=" : "",
		order->size);
	if (strpbrk(order->size, ",=") || !limit_parse(&limit, text, why, sizeof(why)) ||
		!limit_resolve(&limit, devices, count, bytes, why, sizeof(why)))
		return fail(EXIT_USAGE, strpbrk(order->size, ",=") ? "SIZE is one size, as in 20G or 50%" : why);
	for (unsigned i = 0; i < count; i++) {
		if (bytes[i] == BYTES_NONE)
			continue;
		if (bytes[i] > devices[i].total_bytes)
			return fail_too_much(bytes[i], i, &devices[i]);
		memcpy(reserve->keeps[reserve->count].uuid, devices[i].uuid, 16);
		reserve->keeps[reserve->count++].bytes = bytes[i];
	}
	if (reserve->count)
		return EXIT_FINE;
	return fail(EXIT_USAGE, "no GPU of this name is there, or no size is given");
}

/* For others only root can keep something, where all users meet. */
static int find_whose(struct reserve *reserve, const struct order *order)
{
	int common = geteuid() == 0 ? admin_dir_open("reserve") : -1;

	if (common >= 0)
		close(common);
	if (!order->whose)
		return EXIT_FINE;
	if (common < 0)
		return fail(geteuid() == 0 ? EXIT_UNAVAILABLE : EXIT_NO_PERMISSION, geteuid() == 0 ?
			"for others something can be kept only where all users meet, in " CUWARD_RUNDIR
			", which is not there: see `cuward doctor`" :
			"for others only root can keep something; without a name it holds back your own runs");
	if (!reserve_parse_whose(reserve, order->whose))
		return fail(EXIT_USAGE, "there is no user or group of this name");
	return EXIT_FINE;
}

static int make(const struct order *order)
{
	struct reserve reserve = { 0 };
	char why[PATH_MAX + 300];
	struct timespec now;
	int status = find_whose(&reserve, order);

	if (!status)
		status = find_keeps(&reserve, order);
	if (status)
		return status;
	clock_gettime(CLOCK_REALTIME, &now);
	reserve.since_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	reserve.until_ns = reserve.since_ns + order->ns;
	if (!reserve_make(&reserve, why, sizeof(why)))
		return fail(EXIT_FOUND, why);
	printf("%s\n", reserve.id);
	if (!reserve.common)
		fprintf(stderr, "cuward: this holds back your own `cuward run --wait`, --gpu auto and "
			"`cuward fit`, nobody else's\n");
	return EXIT_FINE;
}

int cmd_reserve(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "for", 'f', "T", 0, "For so long: 90s, 10m, 2h", 0 },
		{ "gpu", 'g', "GPU", 0, "Of this one, by index or UUID (default: so much of each)", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "SIZE [@GROUP|@USER|USER]",
		.doc = "Keep GPU memory free: cuward run --wait, --gpu auto and cuward fit of all others "
			"leave it. Prints the id by which cuward release ends it.\v"
			"Root keeps it from all users but those named, where the administrator made " CUWARD_RUNDIR
			"; anybody else only from his own runs. It outlives this command, not its time.\n"
			"Exit status: 0, 1 it could not be made, 2 usage, 3 there is no GPU or no "
			CUWARD_RUNDIR ", 4 no permission." };
	struct order order = { 0 };

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	return make(&order);
}
