/*
 * tsdl.c - the blocks of TSDL: trace, env, clock, stream, event.
 */
#include "tsdl.h"

#include <stdio.h>
#include <string.h>

#include "need.h"
#include "tsdl_private.h"

/* ---- what a block is made of ---- */

struct block {
	const char *name;
	bool (*entry)(struct parser *parser, const char *key, void *target);
};

/* "event.header" and the like, as one. */
static bool read_key(struct parser *parser, char *key, size_t bytes)
{
	size_t used = 0;

	do {
		const char *part;

		if (!tsdl_name(parser, &part))
			return false;
		used += (size_t)snprintf(key + used, bytes - used, "%s%s", used ? "." : "", part);
		if (used >= bytes)
			return tsdl_wrong(parser, "too long a name");
	} while (tsdl_accept(parser, "."));
	return true;
}

static bool read_block(struct parser *parser, const struct block *block, void *target)
{
	struct type_scope scope;
	bool fine = tsdl_expect(parser, "{");
	char key[128];

	tsdl_scope_open(parser, &scope);
	while (fine && !tsdl_accept(parser, "}")) {
		if (tsdl_accept(parser, "typealias"))
			fine = tsdl_typealias(parser);
		else if (tsdl_accept(parser, "typedef"))
			fine = tsdl_typedef(parser);
		else
			fine = read_key(parser, key, sizeof(key)) && block->entry(parser, key, target);
	}
	tsdl_scope_close(parser);
	return fine && tsdl_expect(parser, ";");
}

static bool read_type_entry(struct parser *parser, const struct tsdl_type **type)
{
	if (!tsdl_expect(parser, ":="))
		return false;
	*type = tsdl_type(parser);
	if (*type && (*type)->kind != TSDL_STRUCT)
		return tsdl_wrong(parser, "expected a struct");
	return *type && tsdl_expect(parser, ";");
}

static bool read_number_entry(struct parser *parser, uint64_t *number)
{
	return tsdl_expect(parser, "=") && tsdl_number(parser, number) && tsdl_expect(parser, ";");
}

static bool read_name_entry(struct parser *parser, const char **name)
{
	return tsdl_expect(parser, "=") && tsdl_name(parser, name) && tsdl_expect(parser, ";");
}

/* ---- trace ---- */

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 32) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	for (unsigned i = 0; i < 16; i++) {
		text += *text == '-';
		if (hex_digit(text[0]) < 0 || hex_digit(text[1]) < 0)
			return false;
		uuid[i] = (uint8_t)(hex_digit(text[0]) * 16 + hex_digit(text[1]));
		text += 2;
	}
	return *text == '\0';
}

static bool trace_entry(struct parser *parser, const char *key, void *target)
{
	struct tsdl *tsdl = target;
	const char *text;

	if (strcmp(key, "packet.header") == 0)
		return read_type_entry(parser, &tsdl->packet_header);
	if (strcmp(key, "uuid") != 0)
		return tsdl_skip_value(parser);
	if (!read_name_entry(parser, &text))
		return false;
	tsdl->has_uuid = parse_uuid(text, tsdl->uuid);
	return true;
}

static bool env_entry(struct parser *parser, const char *key, void *target)
{
	struct tsdl *tsdl = target;
	struct tsdl_env *env = arena_take(&tsdl->arena, sizeof(*env));
	uint64_t number = 0;

	env->name = arena_text(&tsdl->arena, key, strlen(key));
	if (!tsdl_expect(parser, "="))
		return false;
	if (parser->token.kind == TOKEN_STRING ? !tsdl_name(parser, &env->text)
		: !tsdl_number(parser, &number))
		return false;
	env->number = (int64_t)number;
	env->next = tsdl->env;
	tsdl->env = env;
	return tsdl_expect(parser, ";");
}

static bool clock_entry(struct parser *parser, const char *key, void *target)
{
	struct tsdl_clock *clock = target;
	uint64_t number;

	if (strcmp(key, "name") == 0)
		return read_name_entry(parser, &clock->name);
	if (strcmp(key, "freq") == 0)
		return read_number_entry(parser, &clock->frequency);
	if (strcmp(key, "offset") == 0)
		return read_number_entry(parser, &clock->offset);
	if (strcmp(key, "offset_s") != 0)
		return tsdl_skip_value(parser);
	if (!read_number_entry(parser, &number))
		return false;
	clock->offset_s = (int64_t)number;
	return true;
}

/* ---- streams and events ---- */

static bool stream_entry(struct parser *parser, const char *key, void *target)
{
	struct tsdl_stream *stream = target;

	if (strcmp(key, "id") == 0)
		return read_number_entry(parser, &stream->id);
	if (strcmp(key, "packet.context") == 0)
		return read_type_entry(parser, &stream->packet_context);
	if (strcmp(key, "event.header") == 0)
		return read_type_entry(parser, &stream->event_header);
	if (strcmp(key, "event.context") == 0)
		return read_type_entry(parser, &stream->event_context);
	return tsdl_skip_value(parser);
}

static bool event_entry(struct parser *parser, const char *key, void *target)
{
	struct tsdl_event *event = target;

	if (strcmp(key, "id") == 0)
		return read_number_entry(parser, &event->id);
	if (strcmp(key, "stream_id") == 0)
		return read_number_entry(parser, &event->stream_id);
	if (strcmp(key, "name") == 0)
		return read_name_entry(parser, &event->name);
	if (strcmp(key, "context") == 0)
		return read_type_entry(parser, &event->context);
	if (strcmp(key, "fields") == 0)
		return read_type_entry(parser, &event->fields);
	return tsdl_skip_value(parser);
}

static bool other_entry(struct parser *parser, const char *key, void *target)
{
	(void)key;
	(void)target;
	return tsdl_skip_value(parser);
}

/* ---- declarations ---- */

static bool read_clock(struct parser *parser)
{
	static const struct block block = { "clock", clock_entry };
	struct tsdl *tsdl = parser->tsdl;
	struct tsdl_clock *clock = arena_take(&tsdl->arena, sizeof(*clock));

	clock->name = "";
	clock->frequency = 1000000000;
	if (!read_block(parser, &block, clock))
		return false;
	if (clock->frequency == 0)
		return tsdl_wrong(parser, "a clock that stands still");
	clock->next = tsdl->clocks;
	tsdl->clocks = clock;
	return true;
}

static bool read_stream(struct parser *parser)
{
	static const struct block block = { "stream", stream_entry };
	struct tsdl *tsdl = parser->tsdl;
	struct tsdl_stream *stream = arena_take(&tsdl->arena, sizeof(*stream));

	if (!read_block(parser, &block, stream))
		return false;
	stream->next = tsdl->streams;
	tsdl->streams = stream;
	return true;
}

static bool read_event(struct parser *parser)
{
	static const struct block block = { "event", event_entry };
	struct tsdl *tsdl = parser->tsdl;
	struct tsdl_event *event = arena_take(&tsdl->arena, sizeof(*event));

	event->name = "";
	if (!read_block(parser, &block, event))
		return false;
	event->next = tsdl->events;
	tsdl->events = event;
	return true;
}

static bool read_declaration(struct parser *parser)
{
	static const struct block trace = { "trace", trace_entry }, env = { "env", env_entry },
		callsite = { "callsite", other_entry };

	if (tsdl_accept(parser, ";"))
		return true;
	if (tsdl_accept(parser, "typealias"))
		return tsdl_typealias(parser);
	if (tsdl_accept(parser, "typedef"))
		return tsdl_typedef(parser);
	if (tsdl_accept(parser, "trace"))
		return read_block(parser, &trace, parser->tsdl);
	if (tsdl_accept(parser, "env"))
		return read_block(parser, &env, parser->tsdl);
	if (tsdl_accept(parser, "callsite"))
		return read_block(parser, &callsite, NULL);
	if (tsdl_accept(parser, "clock"))
		return read_clock(parser);
	if (tsdl_accept(parser, "stream"))
		return read_stream(parser);
	if (tsdl_accept(parser, "event"))
		return read_event(parser);
	return tsdl_type(parser) && tsdl_expect(parser, ";");
}

/* Types may be declared before the trace block says what their byte order is. */
static bool find_byte_order(const char *text, size_t length)
{
	struct tsdl scratch = { 0 };
	struct parser parser = { .tsdl = &scratch, .at = text, .end = text + length, .line = 1 };
	bool in_trace = false, big = false;

	for (tsdl_step(&parser); parser.token.kind != TOKEN_END; tsdl_step(&parser)) {
		if (tsdl_is(&parser, "trace"))
			in_trace = true;
		if (in_trace && tsdl_accept(&parser, "byte_order")) {
			big = tsdl_accept(&parser, "=") && (tsdl_is(&parser, "be") || tsdl_is(&parser, "network"));
			break;
		}
	}
	arena_free(&scratch.arena);
	return big;
}

struct tsdl *tsdl_parse(const char *text, size_t length)
{
	struct tsdl *tsdl = need_zeroed(1, sizeof(*tsdl));
	struct type_scope scope = { 0 };
	struct parser parser = { .tsdl = tsdl, .at = text, .end = text + length, .line = 1,
		.scope = &scope };

	tsdl->big_endian = find_byte_order(text, length);
	tsdl_step(&parser);
	while (parser.token.kind != TOKEN_END && read_declaration(&parser))
		continue;
	/* A string that is not closed looks like the end. */
	if (!parser.failed && parser.at < parser.end)
		tsdl_wrong(&parser, "a string without its end");
	/* Where no stream is declared, there is one that has nothing to say about itself. */
	if (!tsdl->streams && tsdl->events && !parser.failed)
		tsdl->streams = arena_take(&tsdl->arena, sizeof(*tsdl->streams));
	return tsdl;
}

void tsdl_free(struct tsdl *tsdl)
{
	if (tsdl)
		arena_free(&tsdl->arena);
	free(tsdl);
}

const struct tsdl_clock *tsdl_clock_named(const struct tsdl *tsdl, const char *name)
{
	for (const struct tsdl_clock *clock = tsdl->clocks; clock; clock = clock->next)
		if (strcmp(clock->name, name) == 0)
			return clock;
	return NULL;
}

const struct tsdl_env *tsdl_env_named(const struct tsdl *tsdl, const char *name)
{
	for (const struct tsdl_env *env = tsdl->env; env; env = env->next)
		if (strcmp(env->name, name) == 0)
			return env;
	return NULL;
}

const char *tsdl_env_text(const struct tsdl *tsdl, const char *name)
{
	const struct tsdl_env *env = tsdl_env_named(tsdl, name);

	return env ? env->text : NULL;
}
