/*
 * inputs.c - finds out what each TRACE argument is, and merges them all by time.
 */
#include "inputs.h"

#include <errno.h>
#include <sys/stat.h>

#include "ctf.h"
#include "events_text.h"
#include "format.h"
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
};

static void say(void *user, const char *sentence)
{
	(void)user;
	flockfile(stderr);
	fputs("cuward: ", stderr);
	put_safe(stderr, sentence, 0);
	fputc('\n', stderr);
	funlockfile(stderr);
}

const struct trace_log inputs_standard_error = { .say = say };

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

static bool end_of(struct inputs *inputs)
{
	for (size_t i = 0; i < inputs->count; i++)
		trace_facts_add(&inputs->source.facts, &inputs->all[i]->source->facts);
	return false;
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
	return end_of(inputs);
}

/* There is only one: nothing to merge, and nothing to copy. */
static bool inputs_next_of_one(struct event_source *source, struct event *event)
{
	struct inputs *inputs = (struct inputs *)source;
	struct input *input = inputs->all[0];

	if (!input->source->next(input->source, event))
		return end_of(inputs);
	event->source += input->first_key;
	return true;
}

static void inputs_progress(struct event_source *source, uint64_t *read_bytes,
	uint64_t *all_bytes)
{
	const struct inputs *inputs = (struct inputs *)source;

	for (size_t i = 0; i < inputs->count; i++)
		if (inputs->all[i]->source->progress)
			inputs->all[i]->source->progress(inputs->all[i]->source, read_bytes, all_bytes);
}

static void inputs_close(struct event_source *source)
{
	struct inputs *inputs = (struct inputs *)source;

	for (size_t i = 0; i < inputs->count; i++) {
		inputs->all[i]->source->close(inputs->all[i]->source);
		free(inputs->all[i]);
	}
	trace_facts_free(&source->facts);
	ctf_dirs_free(&inputs->dirs);
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
	const size_t locked = inputs->dirs.locked;

	switch (ctf_find(&inputs->dirs, path)) {
	case CTF_TRACES:
	case CTF_NO_METADATA: /* which may be guessed */
		if (inputs->dirs.locked == locked)
			return 0;
		event_source_say(&inputs->source, "%s: no permission to look into %zu of its folders", path,
			inputs->dirs.locked - locked);
		inputs->source.facts.damaged = true;
		return 0;
	case CTF_LOCKED: return refuse(inputs, path, strerror(EACCES), INPUT_FORBIDDEN);
	case CTF_EMPTY:
		return refuse(inputs, path, "the folder is empty; no trace was written here", INPUT_EMPTY);
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

struct event_source *inputs_open(char *const *paths, unsigned count,
	const struct event_range *range, const struct trace_log *log, int *status)
{
	struct inputs *inputs = need_zeroed(1, sizeof(*inputs));

	inputs->source =
		(struct event_source){ .next = inputs_next, .close = inputs_close,
		.progress = inputs_progress, .log = log };
	*status = 0;
	for (unsigned i = 0; i < count && *status == 0; i++)
		*status = add_path(inputs, paths[i]);
	if (*status != 0) {
		inputs_close(&inputs->source);
		return NULL;
	}
	if (inputs->dirs.count)
		add_input(inputs, ctf_open(&inputs->dirs, inputs->count ? NULL : range, log), 0);
	if (inputs->count == 1)
		inputs->source.next = inputs_next_of_one;
	else
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
		return facts->damaged ? INPUT_NO_EVENTS : INPUT_FOREIGN;
	}
	/* A daemon makes the metadata when a program comes, and the streams with its buffers. */
	if (!facts->damaged && facts->streamless)
		event_source_say(source, "%s: the trace holds no events: 0 events in 0 streams; a program"
			" came, and its buffers could not be allocated: less shared memory than they need"
			" (df /dev/shm)", name);
	else if (!facts->damaged)
		event_source_say(source, "%s: the trace holds no events; were they enabled, did the program"
			" reach the session, could the buffers be allocated?", name);
	return INPUT_NO_EVENTS;
}
