/*
 * tsdl_lex.c - TSDL text as tokens.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tsdl_private.h"

bool tsdl_wrong(struct parser *parser, const char *what)
{
	if (!parser->failed)
		snprintf(parser->tsdl->error, sizeof(parser->tsdl->error), "line %u: %s, found '%.*s'",
			parser->token.line, what, parser->token.kind == TOKEN_END ? 11
			: (int)(parser->token.length < 40 ? parser->token.length : 40),
			parser->token.kind == TOKEN_END ? "end of text" : parser->token.text);
	parser->failed = true;
	return false;
}

static bool starts(const struct parser *parser, const char *mark)
{
	size_t length = strlen(mark);

	return (size_t)(parser->end - parser->at) >= length && memcmp(parser->at, mark, length) == 0;
}

static void skip_until(struct parser *parser, const char *mark)
{
	while (parser->at < parser->end && !starts(parser, mark))
		parser->line += *parser->at++ == '\n';
	if (parser->at < parser->end)
		parser->at += strlen(mark);
	parser->line += *mark == '\n';
}

static void skip_blanks(struct parser *parser)
{
	for (;;) {
		if (starts(parser, "/*"))
			skip_until(parser, "*/");
		else if (starts(parser, "//"))
			skip_until(parser, "\n");
		else if (parser->at < parser->end && isspace((unsigned char)*parser->at))
			parser->line += *parser->at++ == '\n';
		else
			return;
	}
}

static void take_number(struct parser *parser, struct token *token)
{
	char digits[80], *end;
	size_t length = 0;

	while (parser->at + length < parser->end && length < sizeof(digits) - 1 &&
		isalnum((unsigned char)parser->at[length]))
		length++;
	memcpy(digits, parser->at, length);
	digits[length] = '\0';
	token->kind = TOKEN_NUMBER;
	token->length = length;
	token->number = strtoull(digits, &end, 0);
	if (end[strspn(end, "uUlL")] != '\0')
		token->kind = TOKEN_MARK; /* and so no number, wherever it stands */
	parser->at += length;
}

static char unescaped(char c)
{
	static const char letters[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
	const char *letter = c ? strchr(letters, c) : NULL;

	return letter ? values[letter - letters] : c;
}

static void take_string(struct parser *parser, struct token *token)
{
	const char *from = ++parser->at;
	char *text;

	while (parser->at < parser->end && *parser->at != '"' && *parser->at != '\n')
		parser->at += *parser->at == '\\' && parser->at + 1 < parser->end ? 2 : 1;
	text = arena_text(&parser->tsdl->arena, from, (size_t)(parser->at - from));
	token->text = text;
	token->kind = parser->at < parser->end && *parser->at == '"' ? TOKEN_STRING : TOKEN_END;
	for (; from < parser->at; text++) {
		if (*from == '\\' && from + 1 < parser->at)
			*text = unescaped(*++from);
		else
			*text = *from;
		from++;
	}
	*text = '\0';
	token->length = (size_t)(text - token->text);
	parser->at += parser->at < parser->end;
}

static bool is_name(int c)
{
	return isalnum(c) || c == '_';
}

void tsdl_step(struct parser *parser)
{
	struct token *token = &parser->token;

	skip_blanks(parser);
	*token = (struct token){ .text = parser->at, .line = parser->line, .length = 1 };
	if (parser->at == parser->end) {
		token->length = 0;
		return;
	}
	if (isdigit((unsigned char)*parser->at)) {
		take_number(parser, token);
	} else if (*parser->at == '"') {
		take_string(parser, token);
	} else if (is_name((unsigned char)*parser->at)) {
		token->kind = TOKEN_NAME;
		while (parser->at + token->length < parser->end &&
			is_name((unsigned char)parser->at[token->length]))
			token->length++;
		parser->at += token->length;
	} else {
		token->kind = TOKEN_MARK;
		token->length = starts(parser, "...") ? 3 : starts(parser, ":=") ? 2 : 1;
		parser->at += token->length;
	}
}

bool tsdl_is(const struct parser *parser, const char *word)
{
	return (parser->token.kind == TOKEN_NAME || parser->token.kind == TOKEN_MARK) &&
		strlen(word) == parser->token.length &&
		memcmp(parser->token.text, word, parser->token.length) == 0;
}

bool tsdl_accept(struct parser *parser, const char *word)
{
	if (!tsdl_is(parser, word))
		return false;
	tsdl_step(parser);
	return true;
}

bool tsdl_expect(struct parser *parser, const char *word)
{
	char what[40];

	if (tsdl_accept(parser, word))
		return true;
	snprintf(what, sizeof(what), "expected '%s'", word);
	return tsdl_wrong(parser, what);
}

bool tsdl_name(struct parser *parser, const char **name)
{
	if (parser->token.kind != TOKEN_NAME && parser->token.kind != TOKEN_STRING)
		return tsdl_wrong(parser, "expected a name");
	*name = arena_text(&parser->tsdl->arena, parser->token.text, parser->token.length);
	tsdl_step(parser);
	return true;
}

bool tsdl_number(struct parser *parser, uint64_t *number)
{
	bool negative = tsdl_accept(parser, "-");

	if (!negative)
		tsdl_accept(parser, "+");
	if (parser->token.kind != TOKEN_NUMBER)
		return tsdl_wrong(parser, "expected a number");
	*number = negative ? -parser->token.number : parser->token.number;
	tsdl_step(parser);
	return true;
}

bool tsdl_skip_value(struct parser *parser)
{
	unsigned open = 0;

	while (parser->token.kind != TOKEN_END && (open || !tsdl_is(parser, ";"))) {
		open += tsdl_is(parser, "{");
		if (tsdl_is(parser, "}") && open-- == 0)
			break;
		tsdl_step(parser);
	}
	return tsdl_expect(parser, ";");
}
