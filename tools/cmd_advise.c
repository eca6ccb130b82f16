/*
 * cmd_advise.c - `cuward advise`: what reports of runs say about the next one, and what they cannot say.
 */
#include <argp.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "advise.h"
#include "cuward.h"
#include "format.h"

struct order {
	bool json;
	char **paths;
	unsigned count;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	(void)argument;
	switch (key) {
	case 'j': order->json = true; return 0;
	case ARGP_KEY_ARGS:
		order->paths = state->argv + state->next;
		order->count = (unsigned)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which report? Name files, or a folder with reports");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* ---- words ---- */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_limit(const struct advice *a)
{
	printf("  limit    -m %s: a tenth more than %s\n", advise_limit(a->suggested_bytes),
		a->need_bytes > a->peak_bytes ? "it asked for" : "its peak");
	if (a->limit_bytes == BYTES_NONE)
		return;
	printf("           it ran under %s (", format_bytes(a->limit_bytes));
	put_safe(stdout, a->limit_source, 40);
	printf("), and used %s of it\n", format_percent(a->limit_peak_bytes, a->limit_bytes));
}

static void print_fit(const struct advice *a)
{
	if (!a->fit_known)
		return;
	if (a->fit)
		printf("  fit      %" PRIu64 " such process%s at once on a GPU of %s", a->fit,
			a->fit == 1 ? "" : "es", format_bytes(a->total_bytes));
	else
		printf("  fit      with that limit not even one on a GPU of %s", format_bytes(a->total_bytes));
	if (a->overhead_bytes != HISTORY_UNKNOWN)
		printf(", each with %s for contexts and modules", format_bytes(a->overhead_bytes));
	printf("\n");
}

static void print_batch(const struct advice *a)
{
	if (a->batch_known) {
		printf("  batch    about %s, and %s for each of the batch",
			format_bytes((uint64_t)a->batch_base), format_bytes((uint64_t)a->batch_each));
		printf("; %s takes up to %" PRIu64 " (largest seen: %" PRIu64 ")\n",
			a->limit_bytes < a->total_bytes ? "the limit" : "the GPU", a->batch_max,
			a->batch_largest_seen);
	} else if (a->batches < 2) {
		printf("  batch    not known: run it with two sizes, each with --label batch=SIZE and "
			"nothing refused\n");
	} else {
		printf("  batch    the peaks do not grow in proportion to the batch\n");
	}
}

static void print_unknown(const struct advice *a)
{
	if (a->denied)
		printf("  unknown  it was refused memory %" PRIu64 " time%s: what it would have asked for next "
			"is not known\n", a->denied, plural(a->denied));
	if (a->cut_short)
		printf("  unknown  %u run%s did not end by %s: %s peak may have been still to come\n",
			a->cut_short, plural(a->cut_short), a->cut_short == 1 ? "itself" : "themselves",
			a->cut_short == 1 ? "its" : "their");
	if (a->overhead_bytes == HISTORY_UNKNOWN)
		printf("  unknown  what contexts and modules take was not measured, so fewer may fit\n");
	if (a->pools_kept)
		printf("  unknown  its pools kept more than was live; CUWARD_POOLS=reserved would charge that "
			"too\n");
	if (a->untracked_bytes)
		printf("  unknown  %s that the driver gave out were not tracked: others', or fragments\n",
			format_bytes(a->untracked_bytes));
}

static void print_text(const struct advice *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct advice *a = &all[i];

		put_safe(stdout, a->command, 60);
		printf(": %u process%s, at most %s on one GPU\n", a->runs, a->runs == 1 ? "" : "es",
			format_bytes(a->peak_bytes));
		print_limit(a);
		print_fit(a);
		print_batch(a);
		print_unknown(a);
	}
	if (count)
		printf("A peak says what these runs took; other inputs may take more.\n");
	else
		printf("No process in there used GPU memory.\n");
}

/* ---- JSON ---- */

static json_t *bytes(uint64_t number)
{
	return number >= INT64_MAX ? json_null() : json_integer((json_int_t)number);
}

static json_t *json_batch(const struct advice *a)
{
	return !a->batch_known ? json_null() : json_pack("{s:I, s:I, s:I, s:I}",
		"base_bytes", (json_int_t)a->batch_base, "each_bytes", (json_int_t)a->batch_each,
		"largest_seen", (json_int_t)a->batch_largest_seen, "max", (json_int_t)a->batch_max);
}

static void print_json(const struct advice *all, size_t count)
{
	json_t *rows = json_array(), *document;

	for (size_t i = 0; i < count; i++) {
		const struct advice *a = &all[i];
		char *command = safe_text(a->command, 0);

		json_array_append_new(rows, json_pack(
			"{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:b, s:o}",
			"command", command, "processes", (int)a->runs, "peak_bytes", bytes(a->peak_bytes),
			"overhead_bytes", bytes(a->overhead_bytes), "limit_bytes", bytes(a->limit_bytes),
			"total_bytes", a->total_bytes ? bytes(a->total_bytes) : json_null(),
			"denied", bytes(a->denied), "need_bytes", bytes(a->need_bytes),
			"suggested_bytes", bytes(a->suggested_bytes),
			"suggested", advise_limit(a->suggested_bytes),
			"fit", a->fit_known ? bytes(a->fit) : json_null(),
			"untracked_bytes", bytes(a->untracked_bytes), "cut_short", (int)a->cut_short,
			"pools_kept", a->pools_kept, "batch", json_batch(a)));
		free(command);
	}
	document = json_pack("{s:i, s:o}", "schema", 1, "commands", rows);
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

int cmd_advise(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "As JSON", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "REPORT|FOLDER|HISTORY...",
		.doc = "How much memory the next run needs, how many fit on a GPU, and how far a batch may "
			"grow, from what runs took; and what that does not tell.\v"
			"Exit status: 0, 1 something cannot be read, 2 usage." };
	struct order order = { 0 };
	struct history history = { 0 };
	struct advice *all;
	size_t count;
	int status = EXIT_FINE;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	for (unsigned i = 0; i < order.count; i++)
		history_add(&history, order.paths[i]);
	all = advise(&history, &count);
	(order.json ? print_json : print_text)(all, count);
	if (history.unreadable) {
		fprintf(stderr, "cuward: advise: ");
		put_safe(stderr, history.why, 0);
		fputc('\n', stderr);
		status = EXIT_FOUND;
	}
	free(all);
	history_free(&history);
	return status;
}
