/*
 * view_html.c - the timeline as one HTML page: the page itself is tools/share/timeline.html, and
 * what it shows is put into it as JSON.
 *
 * How large the page is does not depend on how many events there were, nor on how many processes:
 * a lane is a string of at most 1024 letters, of many lanes and processes the busiest are shown,
 * curves of memory share a budget of points, and tables have their first rows.
 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

#include "need.h"
#include "view_jansson.h"

#define COLUMNS 1024
#define LANES_MAX 1000
#define PROCESSES_MAX 500
#define ROWS_MAX 500
#define CHANGES_SHOWN 1024
#define CHANGES_LEAST 32
#define CHANGES_IN_ALL 65536
#define WORDS_MAX 200000

/* The page, with marks where the data and the words go. */
__asm__(".section .rodata\n"
	".global view_html_page\n"
	".global view_html_page_end\n"
	"view_html_page: .incbin \"tools/share/timeline.html\"\n"
	"view_html_page_end: .byte 0\n"
	".previous\n");
extern const char view_html_page[], view_html_page_end[];

/* The busiest: who was busy for longer than `least_ns`, and so many of those who were just as long. */
struct chosen {
	uint64_t least_ns;
	size_t ties;
	bool some_left_out;
};

static bool is_chosen(struct chosen *chosen, uint64_t busy_ns)
{
	if (busy_ns == chosen->least_ns && chosen->ties)
		return chosen->ties--;
	return busy_ns > chosen->least_ns;
}

/* What is shown, so that the page stays small. */
struct budget {
	bool *processes; /* by number */
	bool processes_left_out;
	struct chosen lanes;
	unsigned changes; /* of memory, a curve */
};

static uint64_t column_start(const struct model *model, unsigned column, unsigned columns)
{
	uint64_t span_ns = model->to_ns - model->from_ns;

	return model->from_ns + (uint64_t)((unsigned __int128)span_ns * column / columns);
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
		uint64_t from = column_start(model, i, COLUMNS);
		uint64_t to = column_start(model, i + 1, COLUMNS);
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
static json_t *memory_json(const struct model *model, const struct steps *steps, unsigned most)
{
	json_t *list = json_array();
	bool exact = !steps->too_many && steps->change_count <= most;
	uint64_t before = 0;

	for (size_t i = 0; i < steps->change_count && exact; i++)
		add_level(list, model, steps->changes[i].time_ns, steps->changes[i].level);
	for (unsigned i = 0; i < most && !exact; i++) {
		uint64_t from = column_start(model, i, most), to = column_start(model, i + 1, most);
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

static bool is_shown(const struct model_process *process, unsigned index)
{
	return process->devices[index].uuid && process->devices[index].used &&
		!model_is_no_device(process, index);
}

static int longer_first(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a < b) - (a > b);
}

struct times {
	uint64_t *ns;
	size_t count, capacity;
};

static void add_time(struct times *times, uint64_t ns)
{
	times->ns = need_room(times->ns, times->count, &times->capacity, sizeof(*times->ns));
	times->ns[times->count++] = ns;
}

/* Frees the times. */
static struct chosen choose(struct times *times, size_t most)
{
	struct chosen chosen = { .ties = SIZE_MAX, .some_left_out = times->count > most };

	if (chosen.some_left_out) {
		qsort(times->ns, times->count, sizeof(*times->ns), longer_first);
		chosen.least_ns = times->ns[most - 1];
		chosen.ties = 0;
		for (size_t i = most; i > 0 && times->ns[i - 1] == chosen.least_ns; i--)
			chosen.ties++;
	}
	free(times->ns);
	return chosen;
}

static uint64_t busy_of(const struct model *model, const struct model_process *process)
{
	return (model->gpu_timing ? &process->gpu : &process->api)->busy_ns;
}

static void choose_processes(struct budget *budget, const struct model *model)
{
	struct times times = { 0 };
	struct chosen chosen;

	for (size_t i = 0; i < model->process_count; i++)
		if (!model->processes[i]->hidden)
			add_time(&times, busy_of(model, model->processes[i]));
	chosen = choose(&times, PROCESSES_MAX);
	budget->processes = need_zeroed(model->process_count, sizeof(*budget->processes));
	budget->processes_left_out = chosen.some_left_out;
	for (size_t i = 0; i < model->process_count; i++)
		budget->processes[i] = !model->processes[i]->hidden &&
			is_chosen(&chosen, busy_of(model, model->processes[i]));
}

static struct budget make_budget(const struct model *model)
{
	struct budget budget = { .changes = CHANGES_SHOWN };
	struct times lanes = { 0 };
	unsigned curves = 0;

	choose_processes(&budget, model);
	for (size_t i = 0; i < model->process_count; i++) {
		const struct model_process *process = model->processes[i];

		for (size_t k = 0; k < process->lane_count && budget.processes[i]; k++)
			add_time(&lanes, lane_spans(model, &process->lanes[k])->busy_ns);
		for (unsigned k = 0; k < process->device_count && budget.processes[i]; k++)
			curves += is_shown(process, k);
	}
	budget.lanes = choose(&lanes, LANES_MAX);
	if (curves > CHANGES_IN_ALL / CHANGES_SHOWN)
		budget.changes = CHANGES_IN_ALL / curves;
	if (budget.changes < CHANGES_LEAST)
		budget.changes = CHANGES_LEAST;
	return budget;
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

/* As they are numbered, and threads as they came: the busiest first would not be found again. */
static int by_stream(const void *left, const void *right)
{
	const struct model_lane *a = *(const struct model_lane *const *)left;
	const struct model_lane *b = *(const struct model_lane *const *)right;

	return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream)
				      : (a > b) - (a < b);
}

static json_t *lanes_json(const struct model *model, const struct model_process *process,
	unsigned device, struct chosen *chosen)
{
	const struct model_lane **lanes = need_zeroed(process->lane_count, sizeof(*lanes));
	json_t *list = json_array();
	size_t count = 0;

	for (size_t i = 0; i < process->lane_count; i++)
		if (process->lanes[i].device == device &&
			is_chosen(chosen, lane_spans(model, &process->lanes[i])->busy_ns))
			lanes[count++] = &process->lanes[i];
	qsort(lanes, count, sizeof(*lanes), by_stream);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, lane_json(model, lanes[i]));
	free(lanes);
	return list;
}

static json_t *device_json(const struct model *model, const struct model_process *process,
	unsigned index, struct budget *budget)
{
	const struct model_device *device = &process->devices[index];
	bool limited = device->limit_bytes && device->limit_bytes != UINT64_MAX;
	json_t *object = json_object();

	set_number(object, "index", index);
	set_text(object, "name", device->name);
	set_text(object, "uuid", device->uuid);
	set_known(object, "limit_bytes", limited, device->limit_bytes);
	set_number(object, "peak_bytes", device->memory.peak);
	set_number(object, "denied", device->denied);
	json_object_set_new(object, "memory", memory_json(model, &device->memory, budget->changes));
	json_object_set_new(object, "refused", strip_json(model, &device->refusals));
	json_object_set_new(object, "lanes", lanes_json(model, process, index, &budget->lanes));
	return object;
}

static json_t *process_json(const struct model *model, const struct model_process *process,
	struct budget *budget)
{
	json_t *object = json_object(), *devices = json_array();

	set_number(object, "number", process->number + 1);
	set_text(object, "command", process->defined ? process->command : "(not defined)");
	set_known(object, "pid", process->defined, process->pid);
	set_text(object, "host", process->host);
	set_text(object, "end", view_end_text(process));
	for (unsigned i = 0; i < process->device_count; i++)
		if (is_shown(process, i))
			json_array_append_new(devices, device_json(model, process, i, budget));
	json_object_set_new(object, "devices", devices);
	return object;
}

/* ---- the page ---- */

enum words { HEADER, DOUBTS, FINDINGS, STATS };

static void put_findings(FILE *out, const struct model *model)
{
	size_t count;
	struct view_finding *findings = view_findings(model, &count);

	for (size_t i = 0; i < count; i++)
		fprintf(out, "#%zu: %s\n", findings[i].process + 1, findings[i].text);
	free(findings);
}

/* What the terminal shows. It is there without a script, too. */
static char *words(const struct model *model, const struct trace_facts *facts, enum words what)
{
	static const struct view_style style = { .columns = 100 };
	char *text = NULL;
	size_t bytes;
	FILE *out = need(open_memstream(&text, &bytes));

	if (what == HEADER)
		view_put_header(out, model, facts);
	else if (what == DOUBTS)
		view_put_doubts(out, model, facts, &style);
	else if (what == FINDINGS)
		put_findings(out, model);
	else
		view_stats(out, model, facts, &style);
	fclose(out);
	return need(text);
}

static void put_words(FILE *out, const struct model *model, const struct trace_facts *facts,
	enum words what)
{
	char *text = words(model, facts, what);
	size_t bytes = strlen(text);

	/* Of many processes, the first ones. */
	for (const char *at = text; *at && (at < text + WORDS_MAX || at[-1] != '\n'); at++) {
		if (strchr("<>&", *at))
			fprintf(out, "&#%u;", (unsigned char)*at);
		else
			fputc(*at, out);
	}
	if (bytes > WORDS_MAX)
		fputs("...\n", out);
	free(text);
}

/* The first rows of each table, and how many more there are. */
static void set_tables(json_t *object, const struct model *model)
{
	json_t *tables = json_object(), *left_out = json_object(), *table;
	const char *name;

	view_stats_tables(tables, model);
	json_object_foreach (tables, name, table) {
		size_t rows = json_array_size(table);

		if (rows > ROWS_MAX)
			json_object_set_new(left_out, name, json_integer((json_int_t)(rows - ROWS_MAX)));
		while (json_array_size(table) > ROWS_MAX)
			json_array_remove(table, json_array_size(table) - 1);
	}
	json_object_update(object, tables);
	json_object_set_new(object, "rows_left_out", left_out);
	json_decref(tables);
}

static json_t *document(const struct model *model)
{
	struct budget budget = make_budget(model);
	json_t *object = json_object(), *processes = json_array();

	set_number(object, "columns", COLUMNS);
	set_number(object, "from_ns", model->from_ns - model->first_ns);
	set_number(object, "span_ns", model->to_ns - model->from_ns);
	set_text(object, "timing", model->gpu_timing ? "gpu" : "api");
	json_object_set_new(object, "lanes_left_out",
		json_boolean(budget.lanes.some_left_out || budget.processes_left_out));
	for (size_t i = 0; i < model->process_count; i++)
		if (budget.processes[i])
			json_array_append_new(processes, process_json(model, model->processes[i], &budget));
	free(budget.processes);
	json_object_set_new(object, "timeline", processes);
	set_tables(object, model);
	return object;
}

/* Nothing in it may end the element that it stands in. */
static void put_data(FILE *out, const struct model *model)
{
	json_t *object = document(model);
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

/* In the order in which they stand in the page. */
static const struct {
	const char *mark;
	enum words what;
} marks[] = {
	{ "@@HEADER@@", HEADER }, { "@@DOUBTS@@", DOUBTS }, { "@@FINDINGS@@", FINDINGS },
	{ "@@STATS@@", STATS },
};

static const char *put_up_to(FILE *out, const char *at, const char *mark)
{
	const char *found = need(memmem(at, (size_t)(view_html_page_end - at), mark, strlen(mark)));

	fwrite(at, 1, (size_t)(found - at), out);
	return found + strlen(mark);
}

void view_html(FILE *out, const struct model *model, const struct trace_facts *facts)
{
	const char *at = view_html_page;

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		at = put_up_to(out, at, marks[i].mark);
		put_words(out, model, facts, marks[i].what);
	}
	at = put_up_to(out, at, "@@DATA@@");
	put_data(out, model);
	fwrite(at, 1, (size_t)(view_html_page_end - at), out);
}
