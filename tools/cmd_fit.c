/*
 * cmd_fit.c - `cuward fit SIZE`: which GPU has room, under the limits that bind here.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuward.h"
#include "format.h"
#include "ps.h"
#include "room.h"
#include "table.h"

struct order {
	struct limit size;
	const char *text;
	bool json, quiet;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;
	char why[200];

	switch (key) {
	case 'j': order->json = true; return 0;
	case 'q': order->quiet = true; return 0;
	case ARGP_KEY_ARG:
		if (order->text)
			argp_usage(state);
		order->text = argument;
		if (!limit_parse(&order->size, argument, why, sizeof(why)))
			argp_error(state, "%s", why);
		if (order->size.count || order->size.all.unit == LIMIT_NONE)
			argp_error(state, "'%s' is no size", argument);
		return 0;
	case ARGP_KEY_END:
		if (!order->text)
			argp_error(state, "how much?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* False: the limits here cannot be understood, and that was said. */
static bool find_asked(struct room_view *view, char *why, size_t why_bytes)
{
	struct limit_device devices[SLOT_DEVICES];
	struct limit limit;
	const char *memory = getenv("CUWARD_MEMORY");

	for (unsigned i = 0; i < view->count; i++) {
		memcpy(devices[i].uuid, view->facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = view->facts[i].total_bytes;
	}
	return limit_parse(&limit, memory ? memory : "none", why, why_bytes) &&
		limit_resolve(&limit, devices, view->count, view->asked, why, why_bytes);
}

static uint64_t size_on(const struct limit *size, const struct room *room)
{
	struct limit_device device = { .total_bytes = room->total_bytes };
	uint64_t bytes[SLOT_DEVICES];
	char why[100];

	return limit_resolve(size, &device, 1, bytes, why, sizeof(why)) ? bytes[0] : BYTES_NONE;
}

/* Who waits comes first. */
static bool is_waited_for(const struct room_view *view, const struct room *room)
{
	for (size_t i = 0; i < view->queue.waiting; i++)
		if (!view->queue.places[i].stopped && queue_asks_for(&view->queue.places[i], room->uuid))
			return true;
	return false;
}

static bool fits(const struct order *order, const struct room *room)
{
	return size_on(&order->size, room) <= room->room_bytes;
}

static int by_room(const void *left, const void *right)
{
	const struct room *a = left, *b = right;

	if (a->room_bytes != b->room_bytes)
		return a->room_bytes > b->room_bytes ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

static void print_rooms(const struct order *order, const struct room *rooms, unsigned count)
{
	bool first = count && fits(order, &rooms[0]);

	static const char *const headings[] = { "GPU", "<UUID", "ROOM", "<BOUND BY", "USED", "TOTAL",
		"<FITS" };
	struct table table = { 0 };

	if (order->quiet) {
		if (first)
			puts(rooms[0].name);
		return;
	}
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(&table, headings[i]);
	for (unsigned i = 0; i < count; i++) {
		table_cell(&table, format_count(rooms[i].index));
		table_cell(&table, rooms[i].name);
		table_cell(&table, format_bytes(rooms[i].room_bytes));
		table_cell(&table, rooms[i].bound);
		table_cell(&table, format_bytes(rooms[i].used_bytes));
		table_cell(&table, format_bytes(rooms[i].total_bytes));
		table_cell(&table, fits(order, &rooms[i]) ? "yes" : "no");
	}
	table_print(&table, stdout, 0);
}

static void print_json(const struct order *order, const struct room *rooms, unsigned count)
{
	json_t *all = json_array(), *document;

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(all, json_pack("{s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:b}",
			"index", (int)rooms[i].index, "uuid", rooms[i].name, "room_bytes",
			ps_bytes(rooms[i].room_bytes), "bound_by", rooms[i].bound, "used_bytes",
			ps_bytes(rooms[i].used_bytes), "promised_bytes", ps_bytes(rooms[i].promised_bytes),
			"reserved_bytes", ps_bytes(rooms[i].reserved_bytes), "total_bytes",
			ps_bytes(rooms[i].total_bytes), "fits", fits(order, &rooms[i])));
	document = json_pack("{s:i, s:o}", "schema", 1, "gpus", all);
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

static int answer(const struct order *order, const struct room_view *view)
{
	static struct room rooms[SLOT_DEVICES];
	int status = EXIT_FOUND;

	room_find(view, rooms);
	for (unsigned i = 0; i < view->count; i++) {
		if (is_waited_for(view, &rooms[i])) {
			rooms[i].room_bytes = 0;
			rooms[i].bound = "queue";
		}
		if (fits(order, &rooms[i]))
			status = EXIT_FINE;
	}
	qsort(rooms, view->count, sizeof(*rooms), by_room);
	if (order->json)
		print_json(order, rooms, view->count);
	else
		print_rooms(order, rooms, view->count);
	return status;
}

static int fit(const struct order *order)
{
	static struct room_view view;
	char why[PATH_MAX + 300];
	int status = EXIT_FOUND;

	view.uid = getuid();
	view.job = getenv("CUWARD_JOB") ? getenv("CUWARD_JOB") : "";
	view.count = gpus_ask(view.facts);
	if (!view.count) {
		fprintf(stderr, "cuward: fit: no CUDA driver or no GPU is found here\n");
		return EXIT_UNAVAILABLE;
	}
	if (!find_asked(&view, why, sizeof(why)) || !room_view_open(&view, why, sizeof(why))) {
		fputs("cuward: fit: ", stderr);
		put_safe(stderr, why, 0);
		fputc('\n', stderr);
	} else {
		status = answer(order, &view);
	}
	room_view_close(&view);
	return status;
}

int cmd_fit(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "As JSON", 0 },
		{ "quiet", 'q', NULL, 0, "Only the UUID of the GPU with most room, if it fits", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option, .args_doc = "SIZE",
		.doc = "Which GPU has room for so much, under the limits that bind here; most room first.\v"
			"Memory of programs that do not run under cuward is known where NVML is.\n"
			"Exit status: 0 it fits somewhere, 1 nowhere, 2 usage, 3 there is no GPU." };
	struct order order = { 0 };

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	return fit(&order);
}
