/*
 * events_text.c - events from and to text, one a line; the form is told in events_text.h.
 */
#include "events_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields that have words for their numbers ---- */

struct field_words {
	const char *field;
	unsigned count;
	const char *words[16];
};

static const struct field_words field_words[] = {
#define X(id, word, ...) word,
	{ "kind", KIND_COUNT, { CUWARD_KINDS(X) } },
	{ "direction", DIRECTION_COUNT, { CUWARD_DIRECTIONS(X) } },
	{ "scope", SCOPE_COUNT, { CUWARD_SCOPES(X) } },
	{ "how", END_COUNT, { CUWARD_ENDS(X) } },
	{ "reason", UNTIMED_COUNT, { CUWARD_UNTIMED(X) } },
	{ "verdict", VERDICT_COUNT, { CUWARD_VERDICTS(X) } },
	{ "what", 2, { [OBJECT_CREATED] = "created", [OBJECT_DESTROYED] = "destroyed" } },
#undef X
};

static const struct field_words *words_of(const char *field)
{
	for (size_t i = 0; i < sizeof(field_words) / sizeof(*field_words); i++)
		if (strcmp(field_words[i].field, field) == 0)
			return &field_words[i];
	return NULL;
}

/* ---- reading ---- */

struct text_host {
	struct text_host *next;
	uint32_t source;
	char name[];
};

struct text_source {
	struct event_source source;
	FILE *file;
	char *name;
	char *line;
	size_t line_bytes;
	unsigned long number; /* of the line */
	uint64_t last_ns;
	struct text_host *hosts; /* the current one first */
	bool ended;
};

static bool wrong(struct text_source *text, const char *what, const char *token)
{
	event_source_say(&text->source, "%s:%lu: %s%s%.60s%s", text->name, text->number, what,
		token ? " '" : "", token ? token : "", token ? "'" : "");
	text->source.facts.damaged = true;
	text->ended = true;
	return false;
}

static bool parse_number(const char *token, uint64_t *value)
{
	bool negative = token[0] == '-';
	const char *digits = token + negative;
	int base = digits[0] == '0' && digits[1] == 'x' ? 16 : 10;
	char *end;

	if (!isxdigit((unsigned char)digits[0]))
		return false;
	errno = 0;
	*value = strtoull(digits, &end, base);
	if (negative)
		*value = -*value;
	return errno == 0 && *end == '\0' && end != digits;
}

static bool use_host(struct text_source *text, const char *name)
{
	struct text_host *host = calloc(1, sizeof(*host) + strlen(name) + 1);

	if (!host)
		return wrong(text, "out of memory", NULL);
	strcpy(host->name, name);
	host->source = text->hosts ? text->hosts->source + 1 : 0;
	for (struct text_host *known = text->hosts; known; known = known->next)
		if (strcmp(known->name, name) == 0)
			host->source = known->source;
	host->next = text->hosts;
	text->hosts = host;
	return true;
}

static bool read_directive(struct text_source *text, char *line)
{
	char *argument = strchr(line, ' ');
	uint64_t count;

	if (argument)
		*argument++ = '\0';
	if (!argument || !*argument)
		return wrong(text, "a directive needs an argument:", line);
	if (strcmp(line, "%source") == 0)
		return use_host(text, argument);
	if (strcmp(line, "%discarded") != 0)
		return wrong(text, "unknown directive", line);
	if (!parse_number(argument, &count))
		return wrong(text, "not a count:", argument);
	text->source.facts.discarded += count;
	return true;
}

static int hex_digit(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	return isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* One character behind a backslash; returns what follows, NULL if it is none we know. */
static char *unescape(char *from, char *to)
{
	static const char letters[] = "\"\\nt", values[] = "\"\\\n\t";
	const char *letter = *from ? strchr(letters, *from) : NULL;

	if (letter) {
		*to = values[letter - letters];
		return from + 1;
	}
	if (*from != 'x' || hex_digit(from[1]) < 0 || hex_digit(from[2]) < 0)
		return NULL;
	*to = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
	return *to ? from + 3 : NULL;
}

/* Unquote in place: the value only shrinks. Returns what follows the closing quote, or NULL. */
static char *unquote(char *from, char **value)
{
	char *to = from;

	if (*from++ != '"')
		return NULL;
	*value = to;
	while (*from && *from != '"') {
		if (*from == '\\')
			from = unescape(from + 1, to);
		else
			*to = *from++;
		if (!from)
			return NULL;
		to++;
	}
	if (*from != '"')
		return NULL;
	*to = '\0';
	return from + 1;
}

static bool parse_value(const struct event_field *field, const char *token, uint64_t *value)
{
	const struct field_words *words = words_of(field->name);

	for (unsigned i = 0; words && i < words->count; i++) {
		if (strcmp(words->words[i], token) == 0) {
			*value = i;
			return true;
		}
	}
	return parse_number(token, value);
}

static const struct event_field *find_field(const struct event_schema *schema, const char *name)
{
	for (unsigned i = 0; i < schema->count; i++)
		if (strcmp(schema->fields[i].name, name) == 0)
			return &schema->fields[i];
	return NULL;
}

/* Read FIELD=VALUE at *at and step over it. */
static bool read_field(struct text_source *text, const struct event_schema *schema, char **at,
	struct event *event, uint32_t *seen)
{
	char *name = *at, *value = strchr(name, '=');
	const struct event_field *field;
	uint64_t number = 0;

	if (!value)
		return wrong(text, "expected FIELD=VALUE, found", name);
	*value++ = '\0';
	field = find_field(schema, name);
	if (!field)
		return wrong(text, "this event has no field", name);
	if (*seen & 1u << (field - schema->fields))
		return wrong(text, "field given twice:", name);
	*seen |= 1u << (field - schema->fields);
	if (field->type == FIELD_str) {
		char *end = unquote(value, &value);

		if (!end || (*end && *end != ' '))
			return wrong(text, "bad quoted string in field", name);
		event_set_string(event, field, value);
		*at = end;
		return true;
	}
	*at = value + strcspn(value, " ");
	if (**at)
		*(*at)++ = '\0';
	if (!parse_value(field, value, &number))
		return wrong(text, "not a number or a known word:", value);
	if (value[0] == '-' && field->type != FIELD_i32)
		return wrong(text, "this field is never negative:", value);
	return event_set_number(event, field, number) || wrong(text, "number does not fit:", value);
}

static bool read_event(struct text_source *text, char *line, struct event *event)
{
	char *time = strtok_r(line, " ", &line), *name = strtok_r(NULL, " ", &line);
	const struct event_schema *schema;
	uint32_t seen = 0;
	uint64_t time_ns;

	if (!time || !parse_number(time, &time_ns) || time[0] == '-')
		return wrong(text, "not a time in ns:", time ? time : "");
	if (time_ns < text->last_ns)
		return wrong(text, "time goes backwards at", time);
	schema = name ? event_schema_named(name, &event->type) : NULL;
	if (!schema)
		return wrong(text, "unknown event", name ? name : "");
	*event = (struct event){ .type = event->type, .time_ns = time_ns,
		.source = text->hosts->source, .host = text->hosts->name };
	for (unsigned i = 0; i < schema->count; i++)
		if (schema->fields[i].type == FIELD_str)
			event_set_string(event, &schema->fields[i], "");
	for (line += strspn(line, " "); *line; line += strspn(line, " "))
		if (!read_field(text, schema, &line, event, &seen))
			return false;
	text->last_ns = time_ns;
	return true;
}

static bool text_next(struct event_source *source, struct event *event)
{
	struct text_source *text = (struct text_source *)source;
	ssize_t length;

	while (!text->ended && (length = getline(&text->line, &text->line_bytes, text->file)) >= 0) {
		char *line = text->line;

		text->number++;
		if (strlen(line) != (size_t)length)
			return wrong(text, "a zero byte in the line", NULL);
		line[strcspn(line, "\n")] = '\0';
		line += strspn(line, " \t");
		if (*line == '\0' || *line == '#')
			continue;
		if (*line == '%') {
			if (!read_directive(text, line))
				return false;
			continue;
		}
		if (!read_event(text, line, event))
			return false;
		source->facts.events++;
		return true;
	}
	if (!text->ended && ferror(text->file))
		return wrong(text, "cannot be read", NULL);
	return false;
}

static void text_close(struct event_source *source)
{
	struct text_source *text = (struct text_source *)source;

	while (text->hosts) {
		struct text_host *next = text->hosts->next;

		free(text->hosts);
		text->hosts = next;
	}
	fclose(text->file);
	free(text->line);
	free(text->name);
	free(text);
}

struct event_source *events_text_open(FILE *file, const char *name, const struct trace_log *log)
{
	struct text_source *text = calloc(1, sizeof(*text));

	if (!text)
		return NULL;
	text->source = (struct event_source){ .next = text_next, .close = text_close, .log = log };
	text->file = file;
	text->name = strdup(name);
	if (!text->name || !use_host(text, "localhost")) {
		text_close(&text->source);
		return NULL;
	}
	return &text->source;
}

/* ---- writing ---- */

static void write_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < ' ' || c == 127)
			fprintf(file, "\\x%02x", c);
		else
			fputc(c, file);
	}
	fputc('"', file);
}

static void write_field(FILE *file, const struct event *event, const struct event_field *field)
{
	const struct field_words *words = words_of(field->name);
	uint64_t value = field->type == FIELD_str ? 0 : event_number(event, field);

	fprintf(file, " %s=", field->name);
	if (field->type == FIELD_str)
		write_string(file, event_string(event, field));
	else if (words && value < words->count)
		fputs(words->words[value], file);
	else if (field->type == FIELD_x64)
		fprintf(file, "0x%" PRIx64, value);
	else if (field->type == FIELD_i32)
		fprintf(file, "%" PRId64, (int64_t)value);
	else
		fprintf(file, "%" PRIu64, value);
}

void events_text_write(FILE *file, const struct event *event)
{
	const struct event_schema *schema = event_schema(event->type);

	fprintf(file, "%" PRIu64 " %s", event->time_ns, schema->name);
	for (unsigned i = 0; i < schema->count; i++)
		write_field(file, event, &schema->fields[i]);
	fputc('\n', file);
}
