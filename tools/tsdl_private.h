/*
 * tsdl_private.h - what the files of the TSDL parser share: tsdl_lex.c makes tokens, tsdl_types.c
 * types, tsdl.c the blocks around them.
 */
#ifndef TSDL_PRIVATE_H
#define TSDL_PRIVATE_H

#include "tsdl.h"

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_MARK };

struct token {
	enum token_kind kind;
	const char *text; /* a name or a mark as written, a string without its escapes */
	size_t length;
	uint64_t number;
	unsigned line;
};

/* A type with a name; "struct x" and the like have the keyword in it. */
struct named_type {
	struct named_type *next;
	const char *name;
	const struct tsdl_type *type;
};

struct type_scope {
	struct type_scope *up;
	struct named_type *types;
};

struct parser {
	struct tsdl *tsdl;
	const char *at, *end;
	unsigned line;
	struct token token; /* the next one */
	struct type_scope *scope;
	unsigned depth;
	bool failed;
};

/* ---- tsdl_lex.c ---- */

void tsdl_step(struct parser *parser);
/* Remember the first mistake; false, always. */
bool tsdl_wrong(struct parser *parser, const char *what);
bool tsdl_is(const struct parser *parser, const char *word);
/* Step over word if it is next. */
bool tsdl_accept(struct parser *parser, const char *word);
bool tsdl_expect(struct parser *parser, const char *word);
/* A name, a word or a number with its sign; false and a complaint if it is something else. */
bool tsdl_name(struct parser *parser, const char **name);
bool tsdl_number(struct parser *parser, uint64_t *number);
/* Step over whatever belongs to a value or block that means nothing to us, up to its ';' or '}'. */
bool tsdl_skip_value(struct parser *parser);

/* ---- tsdl_types.c ---- */

void tsdl_scope_open(struct parser *parser, struct type_scope *scope);
void tsdl_scope_close(struct parser *parser);
/* A type; NULL and a complaint if there is none. */
const struct tsdl_type *tsdl_type(struct parser *parser);
/* typealias and typedef, the word itself read already. */
bool tsdl_typealias(struct parser *parser);
bool tsdl_typedef(struct parser *parser);
/* a.b.c, each without its leading underscore. */
bool tsdl_path(struct parser *parser, const char ***path, unsigned *count);

#endif
