/*
 * cmd_fit.c - `cuward fit SIZE`: which GPU has room, under the limits that bind here.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "cuward.h"
#include "format.h"
#include "gpus.h"
#include "ps.h"
#include "table.h"

struct order {
	struct limit size;
	const char *text;
	bool json, quiet;
};

/* One GPU, by its ordinal here. */
struct room {
	unsigned index;
	char uuid[48];
	uint64_t total_bytes, used_bytes, room_bytes;
	const char *bound; /* what leaves that little: "memory", or whose limit */
	bool fits;
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

static void bind_to(struct room *room, uint64_t bytes, const char *bound)
{
	if (bytes >= room->room_bytes)
		return;
	room->room_bytes = bytes;
	room->bound = bound;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* What this user's processes hold there, for user_max. */
static uint64_t held_by_us(const struct box *box, size_t gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < box->count; i++)
		for (size_t j = 0; j < box->processes[i].hold_count && box->processes[i].uid == getuid(); j++)
			if (box->processes[i].holds[j].gpu == gpu &&
				box->processes[i].holds[j].used_bytes != BYTES_UNKNOWN)
				sum = slots_add(sum, box->processes[i].holds[j].used_bytes);
	return sum;
}

/* False: the limits here cannot be understood, and that was said. */
static bool find_limits(const struct gpu_fact *facts, unsigned count, uint64_t asked[SLOT_DEVICES],
	struct admin *admin)
{
	struct limit_device devices[SLOT_DEVICES];
	struct limit limit;
	const char *memory = getenv("CUWARD_MEMORY");
	char why[300];

	for (unsigned i = 0; i < count; i++) {
		memcpy(devices[i].uuid, facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = facts[i].total_bytes;
	}
	if (limit_parse(&limit, memory ? memory : "none", why, sizeof(why)) &&
		limit_resolve(&limit, devices, count, asked, why, sizeof(why)) &&
		admin_read(admin, devices, count, getuid(), why, sizeof(why)))
		return true;
	fprintf(stderr, "cuward: fit: %s\n", why);
	return false;
}

static void find_room(struct room *room, const struct box *box, const struct gpu_fact *fact)
{
	uint64_t tracked = 0;

	for (size_t i = 0; i < box->gpu_count; i++)
		if (memcmp(box->gpus[i].uuid, fact->uuid, sizeof(fact->uuid)) == 0)
			tracked = slots_add(box->gpus[i].used_bytes, box->gpus[i].overhead_bytes);
	/* The driver knows of everybody; what is asked for and not given out yet, only we do. */
	room->used_bytes = fact->used_bytes > 0 && (uint64_t)fact->used_bytes > tracked ?
		(uint64_t)fact->used_bytes : tracked;
	room->total_bytes = fact->total_bytes;
	room->room_bytes = less(fact->total_bytes, room->used_bytes);
	room->bound = "memory";
}

static void apply_limits(struct room *room, const struct box *box, const struct gpu_fact *fact,
	uint64_t asked, const struct admin *admin)
{
	uint64_t user = admin->max[ADMIN_USER][room->index].bytes, held = 0;

	for (size_t i = 0; i < box->gpu_count; i++)
		if (memcmp(box->gpus[i].uuid, fact->uuid, sizeof(fact->uuid)) == 0)
			held = held_by_us(box, i);
	bind_to(room, asked, "CUWARD_MEMORY");
	bind_to(room, admin->max[ADMIN_PROCESS][room->index].bytes, "process_max");
	bind_to(room, admin->max[ADMIN_JOB][room->index].bytes, "job_max");
	bind_to(room, user == BYTES_NONE ? user : less(user, held), "user_max");
}

static uint64_t size_on(const struct limit *size, const struct gpu_fact *fact)
{
	struct limit_device device = { .total_bytes = fact->total_bytes };
	uint64_t bytes[SLOT_DEVICES];
	char why[100];

	return limit_resolve(size, &device, 1, bytes, why, sizeof(why)) ? bytes[0] : BYTES_NONE;
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
	static const char *const headings[] = { "GPU", "<UUID", "ROOM", "<BOUND BY", "USED", "TOTAL",
		"<FITS" };
	struct table table = { 0 };

	if (order->quiet) {
		if (count && rooms[0].fits)
			puts(rooms[0].uuid);
		return;
	}
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(&table, headings[i]);
	for (unsigned i = 0; i < count; i++) {
		table_cell(&table, format_count(rooms[i].index));
		table_cell(&table, rooms[i].uuid);
		table_cell(&table, format_bytes(rooms[i].room_bytes));
		table_cell(&table, rooms[i].bound);
		table_cell(&table, format_bytes(rooms[i].used_bytes));
		table_cell(&table, format_bytes(rooms[i].total_bytes));
		table_cell(&table, rooms[i].fits ? "yes" : "no");
	}
	table_print(&table, stdout, 0);
}

static void print_json(const struct room *rooms, unsigned count)
{
	json_t *all = json_array(), *document;

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(all, json_pack("{s:i, s:s, s:o, s:s, s:o, s:o, s:b}",
			"index", (int)rooms[i].index, "uuid", rooms[i].uuid, "room_bytes",
			ps_bytes(rooms[i].room_bytes), "bound_by", rooms[i].bound, "used_bytes",
			ps_bytes(rooms[i].used_bytes), "total_bytes", ps_bytes(rooms[i].total_bytes), "fits",
			rooms[i].fits));
	document = json_pack("{s:i, s:o}", "schema", 1, "gpus", all);
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

static int fit(const struct order *order, const struct box *box)
{
	static struct gpu_fact facts[SLOT_DEVICES];
	static struct room rooms[SLOT_DEVICES];
	static struct admin admin;
	uint64_t asked[SLOT_DEVICES];
	unsigned count = gpus_ask(facts);

	if (!count) {
		fprintf(stderr, "cuward: fit: no CUDA driver or no GPU is found here\n");
		return EXIT_UNAVAILABLE;
	}
	if (!find_limits(facts, count, asked, &admin))
		return EXIT_FOUND;
	for (unsigned i = 0; i < count; i++) {
		struct box_gpu gpu = { .total_bytes = 0 };

		memcpy(gpu.uuid, facts[i].uuid, sizeof(gpu.uuid));
		snprintf(rooms[i].uuid, sizeof(rooms[i].uuid), "%s", box_uuid(&gpu));
		rooms[i].index = i;
		find_room(&rooms[i], box, &facts[i]);
		apply_limits(&rooms[i], box, &facts[i], asked[i], &admin);
		rooms[i].fits = size_on(&order->size, &facts[i]) <= rooms[i].room_bytes;
	}
	qsort(rooms, count, sizeof(*rooms), by_room);
	if (order->json)
		print_json(rooms, count);
	else
		print_rooms(order, rooms, count);
	for (unsigned i = 0; i < count; i++)
		if (rooms[i].fits)
			return EXIT_FINE;
	return EXIT_FOUND;
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
	struct box box;
	int status;

	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	box_open(&box, false);
	status = fit(&order, &box);
	box_close(&box);
	return status;
}
