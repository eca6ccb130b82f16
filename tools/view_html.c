/*
 * view_html.c - the timeline as one HTML page: the page itself is tools/share/timeline.html, and
 * what it shows is put into it as JSON.
 *
 * How large the page is does not depend on how many events there were: a lane is a string of at
 * most 1024 letters, and past LANES_MAX lanes the busiest are shown.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "need.h"
#include "view_jansson.h"

#define COLUMNS 1024
#define LANES_MAX 1000
#define CHANGES_SHOWN 1024

/* The page, with a mark where the data goes. */
__asm__(".section .rodata\n"
	".global view_html_page\n"
	".global view_html_page_end\n"
	"view_html_page: .incbin \"tools/share/timeline.html\"\n"
	"view_html_page_end: .byte 0\n"
	".previous\n");
extern const char view_html_page[], view_html_page_end[];

static const char mark[] = "@@DATA@@";

static uint64_t column_start(const struct model *model, unsigned column)
{
	uint64_t span_ns = model->to_ns - model->from_ns;

	return model->from_ns + (uint64_t)((unsigned __int128)span_ns * column / COLUMNS);
}

/* ---- a lane as letters: 0 is nothing, A to Z and a to z more and more; runs are counted ---- */

struct letters {
	char text[COLUMNS * 8];
	size_t used;
	char last;
	unsigned count;
};

static void end_run(struct letters *letters)
{
	if (letters->count > 1)
		letters->used += (size_t)snprintf(letters->text + letters->used,
			sizeof(letters->text) - letters->used, "%u", letters->count);
	if (letters->count)
		letters->text[letters->used++] = letters->last;
	letters->count = 0;
}

static void add_letter(struct letters *letters, char letter)
{
	if (letter != letters->last)
		end_run(letters);
	letters->last = letter;
	letters->count++;
}

/* 1 to 52, 0 only if there was nothing at all. */
static char letter_of(uint64_t part, uint64_t whole, bool any)
{
	static const char all[] = ".ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint64_t level = whole ? (uint64_t)(((unsigned __int128)part * 52 + whole - 1) / whole) : 0;

	level = level > 52 ? 52 : level;
	return all[!level && any ? 1 : level];
}

static json_t *strip_json(const struct model *model, const struct strip *strip)
{
	struct letters letters = { .used = 0 };

	for (unsigned i = 0; i < COLUMNS; i++) {
		uint64_t from = column_start(model, i), to = column_start(model, i + 1);
		struct strip_bucket sum = strip_sum(strip, from, to);

		add_letter(&letters, letter_of(sum.ns, to - from, sum.count));
	}
	end_run(&letters);
	return json_stringn(letters.text, letters.used);
}

/* ---- memory ---- */

static void add_level(json_t *list, const struct model *model, uint64_t time_ns, uint64_t level)
{
	json_array_append_new(list, json_pack("[I,I]", (json_int_t)(time_ns - model->from_ns),
		(json_int_t)(level > INT64_MAX ? INT64_MAX : level)));
}

/* Every change; of many, the highest level of each column. */
static json_t *memory_json(const struct model *model, const struct steps *steps)
{
	json_t *list = json_array();
	bool exact = !steps->too_many && steps->change_count <= CHANGES_SHOWN;
	uint64_t before = 0;

	for (size_t i = 0; i < steps->change_count && exact; i++)
		add_level(list, model, steps->changes[i].time_ns, steps->changes[i].level);
	for (unsigned i = 0; i < COLUMNS && !exact; i++) {
		uint64_t from = column_start(model, i), to = column_start(model, i + 1);
		uint64_t level = from < to ? steps_highest(steps, from, to) : before;

		if (level != before)
			add_level(list, model, from, level);
		before = level;
	}
	return list;
}

/* ---- lanes ---- */

static const struct spans *lane_spans(const struct model *model, const struct model_lane *lane)
{
	return model->gpu_timing ? &lane->gpu : &lane->api;
}

static int longer_first(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a < b) - (a > b);
}

/* Lanes that are busy for less are left out; 0: there are not so many. */
static uint64_t least_shown(const struct model *model)
{
	size_t count = 0, capacity = 0;
	uint64_t *busy = NULL, least = 0;

	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (size_t k = 0; k < process->lane_count && !process->hidden; k++) {
			busy = need_room(busy, count, &capacity, sizeof(*busy));
			busy[count++] = lane_spans(model, &process->lanes[k])->busy_ns;
		}
	}
	if (count > LANES_MAX) {
		qsort(busy, count, sizeof(*busy), longer_first);
		least = busy[LANES_MAX] + 1;
	}
	free(busy);
	return least;
}

static json_t *lane_json(const struct model *model, const struct model_lane *lane)
{
	const struct spans *spans = lane_spans(model, lane);
	json_t *object = json_object();
	char label[48];

	if (lane->stream == 0)
		snprintf(label, sizeof(label), "no stream");
	else if (lane->stream == 1)
		snprintf(label, sizeof(label), "legacy stream");
	else if (lane->stream == 2)
		snprintf(label, sizeof(label), "thread %" PRIu32, lane->tid);
	else
		snprintf(label, sizeof(label), "stream %" PRIx64, lane->stream);
	set_text(object, "label", label);
	set_number(object, "busy_ns", spans->busy_ns);
	set_number(object, "launches", lane->work.launches);
	json_object_set_new(object, "activity", strip_json(model, &spans->strip));
	return object;
}

static json_t *device_json(const struct model *model, const struct model_process *process,
	unsigned index, uint64_t least_ns)
{
	const struct model_device *device = &process->devices[index];
	bool limited = device->limit_bytes && device->limit_bytes != UINT64_MAX;
	json_t *object = json_object(), *lanes = json_array();

	set_number(object, "index", index);
	set_text(object, "name", device->name);
	set_text(object, "uuid", device->uuid);
	set_known(object, "limit_bytes", limited, device->limit_bytes);
	set_number(object, "peak_bytes", device->memory.peak);
	set_number(object, "denied", device->denied);
	json_object_set_new(object, "memory", memory_json(model, &device->memory));
	json_object_set_new(object, "refused", strip_json(model, &device->refusals));
	for (size_t i = 0; i < process->lane_count; i++) {
		const struct model_lane *lane = &process->lanes[i];

		if (lane->device == index && lane_spans(model, lane)->busy_ns >= least_ns)
			json_array_append_new(lanes, lane_json(model, lane));
	}
	json_object_set_new(object, "lanes", lanes);
	return object;
}

static json_t *process_json(const struct model *model, const struct model_process *process,
	uint64_t least_ns)
{
	json_t *object = json_object(), *devices = json_array();

	set_number(object, "number", process->number + 1);
	set_text(object, "command", process->defined ? process->command : "(not defined)");
	set_known(object, "pid", process->defined, process->pid);
	set_text(object, "host", process->host);
	set_text(object, "end", view_end_text(process));
	for (unsigned i = 0; i < process->device_count; i++)
		if (process->devices[i].uuid && process->devices[i].used &&
			!model_is_no_device(process, i))
			json_array_append_new(devices, device_json(model, process, i, least_ns));
	json_object_set_new(object, "devices", devices);
	return object;
}

/* ---- the page ---- */

/* What the terminal shows above its tables, and its warnings. */
static json_t *text_json(const struct model *model, const struct trace_facts *facts, bool doubts)
{
	static const struct view_style style = { .columns = 100 };
	char *text = NULL;
	size_t bytes;
	FILE *out = need(open_memstream(&text, &bytes));
	json_t *value;

	if (doubts)
		view_put_doubts(out, model, facts, &style);
	else
		view_put_header(out, model, facts);
	fclose(out);
	value = json_string(text);
	free(text);
	return value ? value : json_string("");
}

static json_t *document(const struct model *model, const struct trace_facts *facts)
{
	uint64_t least_ns = least_shown(model);
	json_t *object = json_object(), *processes = json_array();

	set_number(object, "columns", COLUMNS);
	set_number(object, "from_ns", model->from_ns - model->first_ns);
	set_number(object, "span_ns", model->to_ns - model->from_ns);
	set_text(object, "timing", model->gpu_timing ? "gpu" : "api");
	json_object_set_new(object, "lanes_left_out", json_boolean(least_ns > 0));
	json_object_set_new(object, "header", text_json(model, facts, false));
	json_object_set_new(object, "doubts", text_json(model, facts, true));
	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden)
			json_array_append_new(processes, process_json(model, model->processes[i], least_ns));
	json_object_set_new(object, "timeline", processes);
	view_stats_tables(object, model);
	return object;
}

/* Nothing in it may end the element that it stands in. */
static void put_data(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	json_t *object = document(model, facts);
	char *text = need(json_dumps(object, JSON_COMPACT));

	for (const char *at = text; *at;) {
		size_t plain = strcspn(at, "<>&");

		fwrite(at, 1, plain, out);
		at += plain;
		if (*at)
			fprintf(out, "\\u%04x", (unsigned char)*at++);
	}
	free(text);
	json_decref(object);
}

void view_html(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	size_t bytes = (size_t)(view_html_page_end - view_html_page);
	const char *at = need(memmem(view_html_page, bytes, mark, strlen(mark)));
	size_t before = (size_t)(at - view_html_page);

	fwrite(view_html_page, 1, before, out);
	put_data(out, model, facts);
	fwrite(at + strlen(mark), 1, bytes - before - strlen(mark), out);
}
