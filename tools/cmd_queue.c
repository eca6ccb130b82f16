/*
 * cmd_queue.c - `cuward queue`: who waits for GPU memory, whose turn it is, and what is kept for whom.
 */
#include <argp.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "box.h"
#include "cuward.h"
#include "format.h"
#include "ps.h"
#include "queue.h"
#include "reserve.h"
#include "table.h"
#include "user_name.h"

struct order {
	bool json, csv;
};

/* Everything there is to tell. */
struct line {
	struct queue queue;
	struct reserve_list reserves;
	struct box box;
	uint64_t now_ns;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	(void)argument;
	switch (key) {
	case 'j': order->json = true; return 0;
	case 'c': order->csv = true; return 0;
	case ARGP_KEY_ARG: argp_usage(state); return 0;
	case ARGP_KEY_END:
		if (order->json && order->csv)
			argp_error(state, "--json or --csv?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t most_asked(const struct queue_place *place)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < place->count; i++)
		most = place->asks[i].bytes > most ? place->asks[i].bytes : most;
	return most;
}

/* Of a promise: what its run holds of it by now, on all its GPUs. */
static uint64_t held_of(const struct line *line, const struct queue_place *place)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < line->box.count; i++)
		if (line->box.processes[i].uid == place->uid && line->box.processes[i].owner != OWNER_DEAD &&
			box_in_job(&line->box.processes[i], place->job))
			sum = slots_add(sum, line->box.processes[i].used_bytes);
	return sum;
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static const char *state_of(const struct queue_place *place)
{
	return place->admitted ? "admitted" : place->stopped ? "stopped" : "waiting";
}

/* Those that can be read: first who waits, then who was let in. */
static size_t readable(const struct line *line)
{
	return line->queue.count - line->queue.broken;
}

/* ---- for people ---- */

static const char *where(const struct queue_place *place)
{
	static char text[64];
	char uuid[48];

	queue_uuid_text(uuid, place->asks[0].uuid);
	if (place->count == 1)
		snprintf(text, sizeof(text), "%.12s", uuid);
	else
		snprintf(text, sizeof(text), "%s %u", place->any ? "one of" : "each of", place->count);
	return text;
}

static void put_place(struct table *table, const struct line *line, size_t i)
{
	const struct queue_place *place = &line->queue.places[i];
	char *user = user_name(place->uid);
	char priority[16];

	snprintf(priority, sizeof(priority), "%d", place->priority);
	table_cell(table, place->admitted ? "" : format_count(i + 1));
	table_cell(table, state_of(place));
	table_cell(table, user);
	table_cell(table, format_count(place->pid));
	table_cell(table, priority);
	table_cell(table, format_ns(since(line->now_ns, place->since_ns)));
	table_cell(table, format_bytes(most_asked(place)));
	table_cell(table, where(place));
	table_cell(table, place->command);
	free(user);
}

static void put_reserves(const struct line *line)
{
	static const char *const headings[] = { "<ID", "<KEPT FOR", "BYTES", "<GPU", "FOR", "<HOLDS BACK" };
	struct table table = { 0 };

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(&table, headings[i]);
	for (size_t i = 0; i < line->reserves.count; i++) {
		const struct reserve *reserve = &line->reserves.all[i];

		for (unsigned j = 0; j < reserve->count; j++) {
			char uuid[48];

			queue_uuid_text(uuid, reserve->keeps[j].uuid);
			uuid[12] = '\0';
			table_cell(&table, reserve->id);
			table_cell(&table, reserve_whose(reserve));
			table_cell(&table, format_bytes(reserve->keeps[j].bytes));
			table_cell(&table, uuid);
			table_cell(&table, format_ns(since(reserve->until_ns, line->now_ns)));
			table_cell(&table, reserve->common ? "all others" : "your own runs");
		}
	}
	table_print(&table, stdout, 0);
}

static void print_text(const struct line *line)
{
	static const char *const headings[] = { "#", "<STATE", "<USER", "PID", "PRIORITY", "SINCE", "ASKED",
		"<ON", "<COMMAND" };
	struct table table = { 0 };

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_column(&table, headings[i]);
	for (size_t i = 0; i < readable(line); i++)
		put_place(&table, line, i);
	table_print(&table, stdout, 0);
	if (!line->reserves.count)
		return;
	putchar('\n');
	put_reserves(line);
}

/* ---- for programs ---- */

static json_t *asks_json(const struct queue_ask *asks, unsigned count)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < count; i++) {
		char uuid[48];

		queue_uuid_text(uuid, asks[i].uuid);
		json_array_append_new(all, json_pack("{s:s, s:o}", "uuid", uuid, "bytes",
			ps_bytes(asks[i].bytes)));
	}
	return all;
}

static json_t *place_json(const struct line *line, size_t i)
{
	const struct queue_place *place = &line->queue.places[i];
	char *user = user_name(place->uid);
	json_t *one = json_pack("{s:o, s:s, s:I, s:s, s:I, s:I, s:i, s:o, s:o, s:o, s:b, s:o, s:s, s:s}",
		"position", place->admitted ? json_null() : json_integer((json_int_t)i + 1),
		"state", state_of(place), "uid", (json_int_t)place->uid, "user", user,
		"pid", (json_int_t)place->pid, "pid_ns", (json_int_t)place->pid_ns,
		"priority", place->priority, "since", ps_time(place->since_ns),
		"waited_ns", place->admitted ? json_null() :
			json_integer((json_int_t)since(line->now_ns, place->since_ns)),
		"asked_bytes", ps_bytes(most_asked(place)), "any", place->any,
		"gpus", asks_json(place->asks, place->count), "job", place->job, "command", place->command);

	if (place->admitted)
		json_object_set_new(one, "held_bytes", ps_bytes(held_of(line, place)));
	free(user);
	return one;
}

static json_t *broken_json(const struct line *line)
{
	json_t *all = json_array();

	for (size_t i = readable(line); i < line->queue.count; i++) {
		const struct queue_place *place = &line->queue.places[i];
		char *name = safe_text(place->name, 0);

		json_array_append_new(all, json_pack("{s:s, s:I, s:s}", "file", name, "uid",
			(json_int_t)place->uid, "problem", place->problem));
		free(name);
	}
	return all;
}

static json_t *reserves_json(const struct line *line)
{
	json_t *all = json_array();

	for (size_t i = 0; i < line->reserves.count; i++) {
		const struct reserve *reserve = &line->reserves.all[i];

		json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:o, s:b, s:o}", "id", reserve->id,
			"for", reserve_whose(reserve), "since", ps_time(reserve->since_ns), "until",
			ps_time(reserve->until_ns), "all_users", reserve->common, "gpus",
			asks_json(reserve->keeps, reserve->count)));
	}
	return all;
}

static void print_json(const struct line *line)
{
	json_t *waiting = json_array(), *admitted = json_array(), *document;

	for (size_t i = 0; i < readable(line); i++)
		json_array_append_new(line->queue.places[i].admitted ? admitted : waiting, place_json(line, i));
	document = json_pack("{s:i, s:b, s:o, s:o, s:o, s:o}", "schema", 1, "all_users", line->queue.common,
		"waiting", waiting, "admitted", admitted, "reserves", reserves_json(line), "unreadable",
		broken_json(line));
	json_dumpf(document, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(document);
}

static void csv_text(const char *text)
{
	char *safe = safe_text(text, 0);

	putchar('"');
	for (const char *c = safe; *c; c++)
		printf("%s%c", *c == '"' ? "\"" : "", *c);
	putchar('"');
	free(safe);
}

static void print_csv(const struct line *line)
{
	fputs("position,state,uid,user,pid,priority,waited_ns,asked_bytes,gpus,any,job,command\r\n", stdout);
	for (size_t i = 0; i < readable(line); i++) {
		const struct queue_place *place = &line->queue.places[i];
		char *user = user_name(place->uid), uuid[48];

		printf("%s,%s,%u,", place->admitted ? "" : format_count(i + 1), state_of(place), place->uid);
		csv_text(user);
		printf(",%u,%d,%s,%" PRIu64 ",", place->pid, place->priority, place->admitted ? "" :
			format_count(since(line->now_ns, place->since_ns)), most_asked(place));
		for (unsigned j = 0; j < place->count; j++) {
			queue_uuid_text(uuid, place->asks[j].uuid);
			printf("%s%s", j ? " " : "", uuid);
		}
		printf(",%d,%s,", place->any, place->job);
		csv_text(place->command);
		fputs("\r\n", stdout);
		free(user);
	}
}

/* ---- all ---- */

static void say_broken(const struct line *line)
{
	fflush(stdout);
	for (size_t i = readable(line); i < line->queue.count; i++) {
		const struct queue_place *place = &line->queue.places[i];

		fprintf(stderr, "cuward: %s/", line->queue.folder);
		put_safe(stderr, place->name, 0);
		fprintf(stderr, " of uid %u cannot be understood: %s%s\n", place->uid, place->problem,
			place->admitted ? "; it counts as all memory of every GPU" : "");
	}
}

static bool open_line(struct line *line, char *why, size_t why_bytes)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	line->now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	box_open(&line->box, false);
	return queue_folder(&line->queue, why, why_bytes) && queue_look(&line->queue, why, why_bytes) &&
		reserve_list_open(&line->reserves, NULL, why, why_bytes);
}

static void close_line(struct line *line)
{
	box_close(&line->box);
	queue_forget(&line->queue);
	reserve_list_close(&line->reserves);
}

int cmd_queue(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "As JSON", 0 },
		{ "csv", 'c', NULL, 0, "As CSV", 0 },
		{ 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "Who waits for GPU memory (cuward run --wait), in the order of their turns; to whom some "
			"was promised; and what is kept for whom (cuward reserve).\v"
			"Exit status: 0, 1 something there cannot be understood, 2 usage." };
	struct order order = { 0 };
	struct line line = { 0 };
	char why[PATH_MAX + 300];
	int status = EXIT_FINE;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	if (!open_line(&line, why, sizeof(why))) {
		fputs("cuward: queue: ", stderr);
		put_safe(stderr, why, 0);
		fputc('\n', stderr);
		status = EXIT_FOUND;
	}
	(order.json ? print_json : order.csv ? print_csv : print_text)(&line);
	say_broken(&line);
	if (line.queue.broken)
		status = EXIT_FOUND;
	close_line(&line);
	return status;
}
