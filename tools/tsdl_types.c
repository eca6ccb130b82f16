/*
 * tsdl_types.c - the types of TSDL: numbers, strings, structs, variants, arrays, and their names.
 */
#include <string.h>

#include "need.h"
#include "tsdl_private.h"

#define DEPTH_MAX 32
#define MEMBERS_MAX 65536

static struct tsdl_type *new_type(struct parser *parser, enum tsdl_kind kind)
{
	struct tsdl_type *type = arena_take(&parser->tsdl->arena, sizeof(*type));

	type->kind = kind;
	type->align = 1;
	type->base = 10;
	type->big_endian = parser->tsdl->big_endian;
	return type;
}

static uint64_t add_bits(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t multiply_bits(uint64_t a, uint64_t b)
{
	return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

/* Room for one more in an array of the arena: its old place is wasted, which is less than half. */
static void *grow(struct parser *parser, void *array, size_t count, size_t bytes)
{
	void *larger;

	if (count & (count - 1))
		return array;
	larger = arena_take(&parser->tsdl->arena, bytes * (count ? 2 * count : 1));
	if (count)
		memcpy(larger, array, count * bytes);
	return larger;
}

/* ---- named types ---- */

void tsdl_scope_open(struct parser *parser, struct type_scope *scope)
{
	*scope = (struct type_scope){ .up = parser->scope };
	parser->scope = scope;
}

void tsdl_scope_close(struct parser *parser)
{
	parser->scope = parser->scope->up;
}

static void define(struct parser *parser, const char *name, const struct tsdl_type *type)
{
	struct named_type *named = arena_take(&parser->tsdl->arena, sizeof(*named));

	*named = (struct named_type){ parser->scope->types, name, type };
	parser->scope->types = named;
}

static const struct tsdl_type *find_type(const struct parser *parser, const char *name)
{
	for (const struct type_scope *scope = parser->scope; scope; scope = scope->up)
		for (const struct named_type *named = scope->types; named; named = named->next)
			if (strcmp(named->name, name) == 0)
				return named->type;
	return NULL;
}

/* "struct x"; NULL if no name follows. */
static const char *tagged_name(struct parser *parser, const char *keyword)
{
	char text[256];

	if (parser->token.kind != TOKEN_NAME || tsdl_is(parser, "align"))
		return NULL;
	snprintf(text, sizeof(text), "%s %.*s", keyword,
		parser->token.length < 200 ? (int)parser->token.length : 200, parser->token.text);
	tsdl_step(parser);
	return arena_text(&parser->tsdl->arena, text, strlen(text));
}

static const struct tsdl_type *refer(struct parser *parser, const char *name)
{
	const struct tsdl_type *type = name ? find_type(parser, name) : NULL;

	if (!type)
		tsdl_wrong(parser, name ? "unknown type" : "expected a type");
	return type;
}

/* ---- numbers ---- */

static bool word_is(const char *word, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

#define WORD_IS(word, ...) \
	word_is(word, (const char *const[]){ __VA_ARGS__ }, \
		sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static bool read_base(struct parser *parser, struct tsdl_type *type)
{
	const char *word;
	uint64_t base;

	if (parser->token.kind == TOKEN_NUMBER) {
		if (!tsdl_number(parser, &base))
			return false;
		type->base = base == 2 || base == 8 || base == 16 ? (unsigned char)base : 10;
		return true;
	}
	if (!tsdl_name(parser, &word))
		return false;
	type->base = WORD_IS(word, "x", "X", "p", "hexadecimal", "hex") ? 16
		: WORD_IS(word, "o", "oct", "octal") ? 8 : WORD_IS(word, "b", "binary") ? 2 : 10;
	return true;
}

static bool read_sign(struct parser *parser, struct tsdl_type *type)
{
	const char *word;
	uint64_t number;

	if (parser->token.kind == TOKEN_NUMBER) {
		if (!tsdl_number(parser, &number))
			return false;
		type->is_signed = number != 0;
		return true;
	}
	if (!tsdl_name(parser, &word))
		return false;
	type->is_signed = WORD_IS(word, "true", "TRUE");
	return true;
}

static bool read_order(struct parser *parser, struct tsdl_type *type)
{
	const char *word;

	if (!tsdl_name(parser, &word))
		return false;
	if (WORD_IS(word, "be", "network"))
		type->big_endian = true;
	else if (WORD_IS(word, "le"))
		type->big_endian = false;
	return true;
}

/* clock.NAME.value */
static bool read_map(struct parser *parser, struct tsdl_type *type)
{
	return tsdl_expect(parser, "clock") && tsdl_expect(parser, ".") &&
		tsdl_name(parser, &type->clock) && tsdl_expect(parser, ".") && tsdl_expect(parser, "value");
}

static bool read_bits(struct parser *parser, uint64_t most, unsigned *bits)
{
	uint64_t number;

	if (!tsdl_number(parser, &number))
		return false;
	if (number == 0 || number > most)
		return tsdl_wrong(parser, "size or alignment out of range");
	*bits = (unsigned)number;
	return true;
}

static bool read_align(struct parser *parser, unsigned *align)
{
	unsigned bits = 0;

	if (!read_bits(parser, 4096, &bits))
		return false;
	if (bits & (bits - 1))
		return tsdl_wrong(parser, "an alignment is a power of two");
	*align = bits;
	return true;
}

struct number_parts {
	unsigned align, exponent, mantissa;
};

static bool read_attribute(struct parser *parser, struct tsdl_type *type,
	struct number_parts *parts)
{
	const char *name, *word;

	if (!tsdl_name(parser, &name) || !tsdl_expect(parser, "="))
		return false;
	if (WORD_IS(name, "size"))
		return read_bits(parser, 64, &type->size);
	if (WORD_IS(name, "align"))
		return read_align(parser, &parts->align);
	if (WORD_IS(name, "exp_dig"))
		return read_bits(parser, 64, &parts->exponent);
	if (WORD_IS(name, "mant_dig"))
		return read_bits(parser, 64, &parts->mantissa);
	if (WORD_IS(name, "signed"))
		return read_sign(parser, type);
	if (WORD_IS(name, "base"))
		return read_base(parser, type);
	if (WORD_IS(name, "byte_order"))
		return read_order(parser, type);
	if (WORD_IS(name, "map"))
		return read_map(parser, type);
	if (!WORD_IS(name, "encoding")) {
		while (parser->token.kind != TOKEN_END && !tsdl_is(parser, ";") && !tsdl_is(parser, "}"))
			tsdl_step(parser);
		return true;
	}
	if (!tsdl_name(parser, &word))
		return false;
	type->is_text = WORD_IS(word, "UTF8", "utf8", "utf-8", "UTF-8", "ASCII", "ascii");
	return true;
}

static bool read_attributes(struct parser *parser, struct tsdl_type *type,
	struct number_parts *parts)
{
	while (!parser->failed && !tsdl_accept(parser, "}"))
		if (!read_attribute(parser, type, parts) || !tsdl_expect(parser, ";"))
			return false;
	return !parser->failed;
}

static const struct tsdl_type *read_number(struct parser *parser, enum tsdl_kind kind)
{
	struct tsdl_type *type = new_type(parser, kind);
	struct number_parts parts = { 0 };

	if (!tsdl_expect(parser, "{") || !read_attributes(parser, type, &parts))
		return NULL;
	if (kind == TSDL_FLOAT) {
		type->size = parts.exponent + parts.mantissa;
		if (type->size != 32 && type->size != 64)
			return tsdl_wrong(parser, "a floating point number of no known size"), NULL;
	}
	if (!type->size)
		return tsdl_wrong(parser, "an integer without a size"), NULL;
	type->align = parts.align ? parts.align : type->size % 8 == 0 ? 8 : 1;
	type->min_bits = type->size;
	return type;
}

static const struct tsdl_type *read_string(struct parser *parser)
{
	struct tsdl_type *type = new_type(parser, TSDL_STRING);
	struct number_parts parts = { 0 };

	type->align = 8;
	type->min_bits = 8;
	if (tsdl_accept(parser, "{") && !read_attributes(parser, type, &parts))
		return NULL;
	return type;
}

/* ---- enums ---- */

static bool read_label(struct parser *parser, struct tsdl_type *type, uint64_t *next)
{
	struct tsdl_label label;

	if (!tsdl_name(parser, &label.name))
		return false;
	if (tsdl_accept(parser, "=") && !tsdl_number(parser, next))
		return false;
	label.from = label.to = *next;
	if (tsdl_accept(parser, "...") && !tsdl_number(parser, &label.to))
		return false;
	*next = label.to + 1;
	type->labels = grow(parser, type->labels, type->label_count, sizeof(*type->labels));
	type->labels[type->label_count++] = label;
	return true;
}

static const struct tsdl_type *read_enum(struct parser *parser)
{
	const char *name = tagged_name(parser, "enum");
	const struct tsdl_type *container = NULL;
	struct tsdl_type *type;
	uint64_t next = 0;

	if (!tsdl_is(parser, ":") && !tsdl_is(parser, "{"))
		return refer(parser, name);
	if (tsdl_accept(parser, ":"))
		container = tsdl_type(parser);
	else
		container = refer(parser, "int");
	if (!container || container->kind != TSDL_INTEGER || !tsdl_expect(parser, "{"))
		return tsdl_wrong(parser, "an enum needs an integer"), NULL;
	type = new_type(parser, TSDL_ENUM);
	*type = *container;
	type->kind = TSDL_ENUM;
	while (!parser->failed && !tsdl_accept(parser, "}")) {
		if (!read_label(parser, type, &next))
			return NULL;
		if (!tsdl_is(parser, "}") && !tsdl_expect(parser, ","))
			return NULL;
	}
	if (name)
		define(parser, name, type);
	return parser->failed ? NULL : type;
}

/* ---- arrays, sequences ---- */

static const char *without_underscore(const char *raw)
{
	return raw + (raw[0] == '_');
}

bool tsdl_path(struct parser *parser, const char ***path, unsigned *count)
{
	const char *raw;

	*path = NULL;
	*count = 0;
	do {
		if (!tsdl_name(parser, &raw))
			return false;
		if (*count == DEPTH_MAX)
			return tsdl_wrong(parser, "too long a path");
		*path = grow(parser, *path, *count, sizeof(**path));
		(*path)[(*count)++] = without_underscore(raw);
	} while (tsdl_accept(parser, "."));
	return true;
}

/* What stands behind the name of a field: [3], [length]; the first is the outermost. */
static const struct tsdl_type *read_dimensions(struct parser *parser,
	const struct tsdl_type *element, unsigned depth)
{
	struct tsdl_type *type;

	if (!tsdl_accept(parser, "["))
		return element;
	if (depth == DEPTH_MAX)
		return tsdl_wrong(parser, "too many dimensions"), NULL;
	type = new_type(parser, TSDL_ARRAY);
	if (parser->token.kind == TOKEN_NUMBER) {
		if (!tsdl_number(parser, &type->length))
			return NULL;
	} else {
		type->kind = TSDL_SEQUENCE;
		if (!tsdl_path(parser, &type->path, &type->path_count))
			return NULL;
	}
	if (!tsdl_expect(parser, "]"))
		return NULL;
	type->element = read_dimensions(parser, element, depth + 1);
	if (!type->element)
		return NULL;
	type->align = type->element->align;
	type->min_bits = multiply_bits(type->length, type->element->min_bits);
	return type;
}

/* ---- structs, variants ---- */

static bool add_member(struct parser *parser, struct tsdl_type *type, const char *raw,
	const struct tsdl_type *of)
{
	if (type->member_count == MEMBERS_MAX)
		return tsdl_wrong(parser, "too many fields");
	type->members = grow(parser, type->members, type->member_count, sizeof(*type->members));
	type->members[type->member_count++] =
		(struct tsdl_member){ without_underscore(raw), raw, of };
	if (type->kind == TSDL_STRUCT) {
		type->min_bits = add_bits(type->min_bits, of->min_bits);
		if (of->align > type->align)
			type->align = of->align;
	}
	return true;
}

static bool read_member(struct parser *parser, struct tsdl_type *type)
{
	const struct tsdl_type *base, *whole;
	const char *raw;

	if (tsdl_accept(parser, "typealias"))
		return tsdl_typealias(parser);
	if (tsdl_accept(parser, "typedef"))
		return tsdl_typedef(parser);
	base = tsdl_type(parser);
	while (base && tsdl_name(parser, &raw)) {
		whole = read_dimensions(parser, base, 0);
		if (!whole || !add_member(parser, type, raw, whole))
			return false;
		if (!tsdl_accept(parser, ","))
			return tsdl_expect(parser, ";");
	}
	return false;
}

static bool read_members(struct parser *parser, struct tsdl_type *type)
{
	struct type_scope scope;
	bool fine = true;

	tsdl_scope_open(parser, &scope);
	while (fine && !tsdl_accept(parser, "}"))
		fine = read_member(parser, type);
	tsdl_scope_close(parser);
	return fine;
}

static const struct tsdl_type *read_struct(struct parser *parser)
{
	const char *name = tagged_name(parser, "struct");
	struct tsdl_type *type;
	unsigned align = 1;

	if (!tsdl_accept(parser, "{"))
		return refer(parser, name);
	type = new_type(parser, TSDL_STRUCT);
	if (!read_members(parser, type))
		return NULL;
	if (tsdl_accept(parser, "align") && (!tsdl_expect(parser, "(") ||
		!read_align(parser, &align) || !tsdl_expect(parser, ")")))
		return NULL;
	if (align > type->align)
		type->align = align;
	if (name)
		define(parser, name, type);
	return type;
}

static const struct tsdl_type *read_variant(struct parser *parser)
{
	const char *name = tsdl_is(parser, "<") ? NULL : tagged_name(parser, "variant");
	struct tsdl_type *type = new_type(parser, TSDL_VARIANT);
	const struct tsdl_type *known;

	if (tsdl_accept(parser, "<") && (!tsdl_path(parser, &type->path, &type->path_count) ||
		!tsdl_expect(parser, ">")))
		return NULL;
	if (tsdl_accept(parser, "{")) {
		if (!read_members(parser, type))
			return NULL;
		if (name)
			define(parser, name, type);
		return type;
	}
	known = refer(parser, name);
	if (!known)
		return NULL;
	type->members = known->members;
	type->member_count = known->member_count;
	return type;
}

/* ---- all of them ---- */

/* "unsigned long" and the like; the last name, where a field's name must follow, is left. */
static const struct tsdl_type *read_alias(struct parser *parser)
{
	char name[256] = "";
	const struct tsdl_type *type = NULL;
	struct parser before = *parser;

	for (unsigned i = 0; parser->token.kind == TOKEN_NAME && i < 8; i++) {
		const struct tsdl_type *longer;
		size_t used = strlen(name);

		snprintf(name + used, sizeof(name) - used, "%s%.*s", used ? " " : "",
			parser->token.length < 200 ? (int)parser->token.length : 200, parser->token.text);
		tsdl_step(parser);
		longer = find_type(parser, name);
		if (longer) {
			type = longer;
			before = *parser;
		}
	}
	*parser = before;
	return type ? type : refer(parser, *name ? name : NULL);
}

static const struct tsdl_type *read_type(struct parser *parser)
{
	tsdl_accept(parser, "const");
	if (tsdl_accept(parser, "integer"))
		return read_number(parser, TSDL_INTEGER);
	if (tsdl_accept(parser, "floating_point"))
		return read_number(parser, TSDL_FLOAT);
	if (tsdl_accept(parser, "string"))
		return read_string(parser);
	if (tsdl_accept(parser, "enum"))
		return read_enum(parser);
	if (tsdl_accept(parser, "struct"))
		return read_struct(parser);
	if (tsdl_accept(parser, "variant"))
		return read_variant(parser);
	return read_alias(parser);
}

const struct tsdl_type *tsdl_type(struct parser *parser)
{
	const struct tsdl_type *type;

	if (parser->depth == DEPTH_MAX)
		return tsdl_wrong(parser, "types are nested too deep"), NULL;
	parser->depth++;
	type = parser->failed ? NULL : read_type(parser);
	parser->depth--;
	return type;
}

/* The names up to ';', as one: "unsigned long". */
static bool read_new_name(struct parser *parser, const struct tsdl_type *type)
{
	char name[256] = "";

	while (parser->token.kind == TOKEN_NAME) {
		size_t used = strlen(name);

		snprintf(name + used, sizeof(name) - used, "%s%.*s", used ? " " : "",
			parser->token.length < 200 ? (int)parser->token.length : 200, parser->token.text);
		tsdl_step(parser);
	}
	if (!*name)
		return tsdl_wrong(parser, "expected a name for the type");
	define(parser, arena_text(&parser->tsdl->arena, name, strlen(name)), type);
	return tsdl_expect(parser, ";");
}

bool tsdl_typealias(struct parser *parser)
{
	const struct tsdl_type *type = tsdl_type(parser);

	return type && tsdl_expect(parser, ":=") && read_new_name(parser, type);
}

bool tsdl_typedef(struct parser *parser)
{
	const struct tsdl_type *type = tsdl_type(parser);
	const char *raw;

	while (type && tsdl_name(parser, &raw)) {
		const struct tsdl_type *whole = read_dimensions(parser, type, 0);

		if (!whole)
			return false;
		define(parser, raw, whole);
		if (!tsdl_accept(parser, ","))
			return tsdl_expect(parser, ";");
	}
	return false;
}
