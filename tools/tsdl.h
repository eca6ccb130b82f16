/*
 * tsdl.h - the metadata of a CTF 1.8 trace: what its clocks, streams, events and fields are.
 *
 * Every declaration that was complete counts: what a damaged text explains before its damage is
 * used. All memory is the arena's, and types are shared by whoever refers to them.
 */
#ifndef TSDL_H
#define TSDL_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"

enum tsdl_kind {
	TSDL_INTEGER,
	TSDL_ENUM,
	TSDL_FLOAT,
	TSDL_STRING,
	TSDL_STRUCT,
	TSDL_VARIANT,
	TSDL_ARRAY,
	TSDL_SEQUENCE,
};

/* Names lose one leading underscore: LTTng puts it there to keep them apart from keywords. */
struct tsdl_member {
	const char *name;
	const char *raw; /* with it */
	const struct tsdl_type *type;
};

struct tsdl_label {
	const char *name;
	uint64_t from, to; /* of an enum of signed numbers: as int64_t */
};

struct tsdl_type {
	enum tsdl_kind kind;
	unsigned align;    /* bits */
	unsigned size;     /* bits of a number, or of the container of an enum */
	uint64_t min_bits; /* a value takes at least so many */
	bool is_signed, big_endian;
	bool is_text;            /* a number that is a character */
	unsigned char base;
	const char *clock;       /* that the number is a time of; NULL none */
	const struct tsdl_type *element; /* of an array or a sequence */
	uint64_t length;         /* of an array */
	const char **path;       /* to the tag of a variant, the length of a sequence */
	unsigned path_count;
	struct tsdl_member *members; /* of a struct, or the options of a variant */
	size_t member_count;
	struct tsdl_label *labels;
	size_t label_count;
};

struct tsdl_clock {
	const char *name;
	uint64_t frequency;
	int64_t offset_s;
	uint64_t offset; /* in its own ticks; LTTng's may have either sign, the sum wraps the same */
	struct tsdl_clock *next;
};

struct tsdl_env {
	const char *name;
	const char *text; /* NULL: a number */
	int64_t number;
	struct tsdl_env *next;
};

struct tsdl_event {
	uint64_t id;
	uint64_t stream_id;
	const char *name;
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

struct tsdl_stream {
	uint64_t id;
	const struct tsdl_type *packet_context, *event_header, *event_context;
	struct tsdl_stream *next;
};

struct tsdl {
	struct arena arena;
	bool big_endian;
	bool has_uuid;
	uint8_t uuid[16];
	const struct tsdl_type *packet_header;
	struct tsdl_clock *clocks;
	struct tsdl_env *env;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	char error[200]; /* where and why reading stopped; empty if it did not */
};

struct tsdl *tsdl_parse(const char *text, size_t length);
void tsdl_free(struct tsdl *tsdl);

const struct tsdl_clock *tsdl_clock_named(const struct tsdl *tsdl, const char *name);
/* NULL: there is none, or it is a number. */
const char *tsdl_env_text(const struct tsdl *tsdl, const char *name);
const struct tsdl_env *tsdl_env_named(const struct tsdl *tsdl, const char *name);

#endif
