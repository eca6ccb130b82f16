/*
 * inputs.c - finds out what each TRACE argument is, and merges them all by time.
 */
#include "inputs.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "ctf.h"
#include "events_text.h"
#include "need.h"

struct input {
	struct event_source *source;
	struct event next;
	uint32_t first_key; /* keys of this input begin here */
	size_t number;
};

struct inputs {
	struct event_source source;
	struct input **all;
	size_t count, capacity;
	struct input **heap; /* those with an event, earliest first */
	size_t heap_count;
	bool handed_out; /* the event of heap[0] */
	uint32_t keys;
	struct ctf_dirs dirs;
	struct ctf_parts **parts;
	size_t parts_count, parts_capacity;
};

static void add_facts(struct trace_facts *sum, const struct trace_facts *one)
{
	sum->events += one->events;
	sum->foreign += one->foreign;
	sum->discarded += one->discarded;
	sum->lost_packets += one->lost_packets;
	sum->warnings += one->warnings;
	sum->discarded_unknown |= one->discarded_unknown;
	sum->damaged |= one->damaged;
}

/* ---- merging by time ---- */

static bool fetch(struct input *input)
{
	if (!input->source->next(input->source, &input->next))
		return false;
	input->next.source += input->first_key;
	return true;
}

static bool earlier(const struct input *a, const struct input *b)
{
	return a->next.time_ns < b->next.time_ns ||
		(a->next.time_ns == b->next.time_ns && a->number < b->number);
}

static void sift_down(struct inputs *inputs, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct input *input = inputs->heap[at];

		if (child >= inputs->heap_count)
			return;
		if (child + 1 < inputs->heap_count && earlier(inputs->heap[child + 1], inputs->heap[child]))
			child++;
		if (!earlier(inputs->heap[child], input))
			return;
		inputs->heap[at] = inputs->heap[child];
		inputs->heap[child] = input;
		at = child;
	}
}

static void start(struct inputs *inputs)
{
	inputs->heap = need_zeroed(inputs->count, sizeof(*inputs->heap));
	for (size_t i = 0; i < inputs->count; i++)
		if (fetch(inputs->all[i]))
			inputs->heap[inputs->heap_count++] = inputs->all[i];
	for (size_t i = inputs->heap_count / 2; i-- > 0;)
		sift_down(inputs, i);
}

static bool inputs_next(struct event_source *source, struct event *event)
{
	struct inputs *inputs = (struct inputs *)source;

	if (inputs->handed_out) {
		if (!fetch(inputs->heap[0]))
			inputs->heap[0] = inputs->heap[--inputs->heap_count];
		sift_down(inputs, 0);
	}
	inputs->handed_out = inputs->heap_count > 0;
	if (inputs->handed_out) {
		*event = inputs->heap[0]->next;
		return true;
	}
	for (size_t i = 0; i < inputs->count; i++) {
		add_facts(&source->facts, &inputs->all[i]->source->facts);
		inputs->all[i]->source->facts = (struct trace_facts){ 0 };
	}
	return false;
}

static void inputs_close(struct event_source *source)
{
	struct inputs *inputs = (struct inputs *)source;

	for (size_t i = 0; i < inputs->count; i++) {
		inputs->all[i]->source->close(inputs->all[i]->source);
		free(inputs->all[i]);
	}
	for (size_t i = 0; i < inputs->parts_count; i++)
		ctf_parts_free(inputs->parts[i]);
	ctf_dirs_free(&inputs->dirs);
	free(inputs->parts);
	free(inputs->all);
	free(inputs->heap);
	free(inputs);
}

static void add_input(struct inputs *inputs, struct event_source *source, uint32_t first_key)
{
	struct input *input = need_zeroed(1, sizeof(*input));

	input->source = need(source);
	input->first_key = first_key;
	input->number = inputs->count;
	inputs->all = need_room(inputs->all, inputs->count, &inputs->capacity, sizeof(*inputs->all));
	inputs->all[inputs->count++] = input;
}

/* ---- traces ---- */

static void damage(struct inputs *inputs, const char *name, const char *what, const char *why)
{
	event_source_say(&inputs->source, "%s: %s: %s", name, what, why);
	inputs->source.facts.damaged = true;
}

static void open_part(struct inputs *inputs, const struct ctf_parts *parts, size_t part,
	const struct ctf_dir *dir)
{
	char why[512], again[512], name[PATH_MAX];
	struct event_source *source;

	snprintf(name, sizeof(name), "%s/%s", dir->path, parts->names[part]);
	source = ctf_open(parts->paths[part], name, inputs->source.log, why, sizeof(why));
	if (!source && ctf_salvage(parts, part)) {
		source = ctf_open(parts->paths[part], name, inputs->source.log, again, sizeof(again));
		if (source)
			damage(inputs, name, "the stream is cut off",
				"its last packet is incomplete; what was read of it counts");
	}
	if (source)
		add_input(inputs, source, dir->session << 16);
	else
		damage(inputs, name, "the stream cannot be read", why);
}

/* The whole trace does not open: a stream that is broken must not hide the others. */
static void open_apart(struct inputs *inputs, const struct ctf_dir *dir, const char *why)
{
	struct ctf_parts *parts = ctf_split(dir->path);
	size_t before = inputs->count;

	inputs->parts = need_room(inputs->parts, inputs->parts_count, &inputs->parts_capacity,
		sizeof(*inputs->parts));
	inputs->parts[inputs->parts_count++] = parts;
	for (size_t i = 0; i < parts->count; i++)
		open_part(inputs, parts, i, dir);
	if (inputs->count == before)
		damage(inputs, dir->path, "the trace cannot be read; its metadata may be incomplete,"
			" as after a killed session daemon", why);
}

static void open_traces(struct inputs *inputs)
{
	for (size_t i = 0; i < inputs->dirs.count; i++) {
		const struct ctf_dir *dir = &inputs->dirs.items[i];
		char why[512];
		struct event_source *source =
			ctf_open(dir->path, dir->path, inputs->source.log, why, sizeof(why));

		if (source)
			add_input(inputs, source, dir->session << 16);
		else
			open_apart(inputs, dir, why);
	}
}

/* ---- what is it? ---- */

static int refuse(struct inputs *inputs, const char *path, const char *why, int status)
{
	event_source_say(&inputs->source, "%s: %s", path, why);
	return status;
}

static int cannot_open(struct inputs *inputs, const char *path)
{
	return refuse(inputs, path, strerror(errno),
		errno == EACCES || errno == EPERM ? INPUT_FORBIDDEN : INPUT_NOT_A_TRACE);
}

static int add_folder(struct inputs *inputs, const char *path)
{
	switch (ctf_find(&inputs->dirs, path)) {
	case CTF_TRACES:
		return 0;
	case CTF_EMPTY:
		return refuse(inputs, path, "the folder is empty; no trace was written here", INPUT_EMPTY);
	case CTF_NO_METADATA:
		inputs->source.facts.damaged = true;
		return refuse(inputs, path, "there are streams of a trace, but its metadata is missing;"
			" without it nothing can be read", INPUT_NO_EVENTS);
	default:
		return refuse(inputs, path, "this folder holds no trace", INPUT_NOT_A_TRACE);
	}
}

/* Does its first line, comments and directives aside, begin like an event? */
static bool is_events(FILE *file)
{
	char line[512];
	bool is = true;

	while (fgets(line, sizeof(line), file)) {
		size_t blanks = strspn(line, " \t\n"), digits = strspn(line + blanks, "0123456789");

		if (line[blanks] == '\0' || line[blanks] == '#' || line[blanks] == '%')
			continue;
		is = digits > 0 && line[blanks + digits] == ' ';
		break;
	}
	rewind(file);
	return is;
}

static int add_file(struct inputs *inputs, const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return cannot_open(inputs, path);
	if (!is_events(file)) {
		fclose(file);
		return refuse(inputs, path, "not a trace: neither a trace folder nor events as text",
			INPUT_NOT_A_TRACE);
	}
	/* Sessions count from 0; files of text from the other end. */
	add_input(inputs, events_text_open(file, path, inputs->source.log), --inputs->keys << 16);
	return 0;
}

static int add_path(struct inputs *inputs, const char *path)
{
	struct stat about;

	if (stat(path, &about) != 0)
		return cannot_open(inputs, path);
	return S_ISDIR(about.st_mode) ? add_folder(inputs, path) : add_file(inputs, path);
}

struct event_source *inputs_open(char *const *paths, unsigned count, const struct trace_log *log,
	int *status)
{
	struct inputs *inputs = need_zeroed(1, sizeof(*inputs));

	inputs->source =
		(struct event_source){ .next = inputs_next, .close = inputs_close, .log = log };
	*status = 0;
	for (unsigned i = 0; i < count && *status == 0; i++)
		*status = add_path(inputs, paths[i]);
	if (*status != 0) {
		inputs_close(&inputs->source);
		return NULL;
	}
	open_traces(inputs);
	start(inputs);
	return &inputs->source;
}

int inputs_verdict(struct event_source *source, const char *name)
{
	const struct trace_facts *facts = &source->facts;

	if (facts->events)
		return 0;
	if (facts->foreign) {
		event_source_say(source, "%s: a trace without events of cuward; %llu of other providers",
			name, (unsigned long long)facts->foreign);
		return INPUT_FOREIGN;
	}
	if (!facts->damaged)
		event_source_say(source, "%s: the trace holds no events; were they enabled, did the program"
			" reach the session, could the buffers be allocated?", name);
	return INPUT_NO_EVENTS;
}
