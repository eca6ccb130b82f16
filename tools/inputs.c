/*
 * inputs.c - finds out what each TRACE argument is, and merges them all by time.
 */
#include "inputs.h"

#include <errno.h>
#include <sys/stat.h>

#include "ctf.h"
#include "events_text.h"
#include "need.h"

struct input {
	struct event_source *source;
	struct event next;
	bool has_next;
};

struct inputs {
	struct event_source source;
	struct input *items;
	size_t count, capacity;
	struct input *last; /* its event was handed out */
	struct ctf_dirs dirs;
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

static void fetch(struct input *input, size_t number)
{
	input->has_next = input->source->next(input->source, &input->next);
	/* Keys of one input are not those of another. */
	input->next.source |= (uint32_t)number << 16;
}

static bool inputs_next(struct event_source *source, struct event *event)
{
	struct inputs *inputs = (struct inputs *)source;
	struct input *first = NULL;

	if (inputs->last)
		fetch(inputs->last, (size_t)(inputs->last - inputs->items));
	for (size_t i = 0; i < inputs->count; i++) {
		struct input *input = &inputs->items[i];

		if (input->has_next && (!first || input->next.time_ns < first->next.time_ns))
			first = input;
	}
	inputs->last = first;
	if (first)
		*event = first->next;
	source->facts = (struct trace_facts){ 0 };
	for (size_t i = 0; !first && i < inputs->count; i++)
		add_facts(&source->facts, &inputs->items[i].source->facts);
	return first != NULL;
}

static void inputs_close(struct event_source *source)
{
	struct inputs *inputs = (struct inputs *)source;

	for (size_t i = 0; i < inputs->count; i++)
		inputs->items[i].source->close(inputs->items[i].source);
	ctf_dirs_free(&inputs->dirs);
	free(inputs->items);
	free(inputs);
}

static void add_input(struct inputs *inputs, struct event_source *source)
{
	inputs->items = need_room(inputs->items, inputs->count, &inputs->capacity,
		sizeof(*inputs->items));
	inputs->items[inputs->count++] = (struct input){ .source = need(source) };
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

static bool is_text(FILE *file)
{
	char start[512];
	size_t length = fread(start, 1, sizeof(start), file);

	rewind(file);
	return !memchr(start, '\0', length);
}

static int add_file(struct inputs *inputs, const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return cannot_open(inputs, path);
	if (!is_text(file)) {
		fclose(file);
		return refuse(inputs, path, "not a trace: neither a trace folder nor events as text",
			INPUT_NOT_A_TRACE);
	}
	add_input(inputs, events_text_open(file, path, inputs->source.log));
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

	inputs->source = (struct event_source){ .next = inputs_next, .close = inputs_close, .log = log };
	*status = 0;
	for (unsigned i = 0; i < count && *status == 0; i++)
		*status = add_path(inputs, paths[i]);
	if (*status != 0) {
		inputs_close(&inputs->source);
		return NULL;
	}
	if (inputs->dirs.count)
		add_input(inputs, ctf_open(&inputs->dirs, log));
	for (size_t i = 0; i < inputs->count; i++)
		fetch(&inputs->items[i], i);
	return &inputs->source;
}

int inputs_verdict(struct event_source *source, const char *name)
{
	const struct trace_facts *facts = &source->facts;

	if (facts->events)
		return 0;
	if (facts->foreign) {
		event_source_say(source, "%s: a trace without events of cuward; %llu of other providers", name,
			(unsigned long long)facts->foreign);
		return INPUT_FOREIGN;
	}
	if (!facts->damaged)
		event_source_say(source, "%s: the trace holds no events; were they enabled, did the program"
			" reach the session, could the buffers be allocated?", name);
	return INPUT_NO_EVENTS;
}
