/*
 * json.h - JSON, written as it goes into a struct report_out.
 *
 * One struct json a document (or a part of one). Each function takes the key of the value, NULL for
 * an element of an array. Strings may be anything: what is not UTF-8 becomes U+FFFD.
 */
#ifndef CUWARD_JSON_H
#define CUWARD_JSON_H

#include <stdint.h>

#include "report.h"

struct json {
	struct report_out *out;
	unsigned indent;  /* tabs before the lines of the outermost value */
	unsigned level;   /* objects and arrays that are open */
	unsigned flat;    /* level from which on everything stays on one line, 0 nowhere */
	bool begun;       /* something stands before the next value of this object or array */
};

/* The command also links jansson, which has functions of these names. */
#define json_string json_put_string
#define json_null json_put_null

/* Values inside `{` or `[` come on lines of their own; inside a flat one on the same line. */
void json_open(struct json *json, const char *key, char bracket);
void json_open_flat(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* Comma, line and key: what stands before a value that is then written by other means. */
void json_begin(struct json *json, const char *key);

void json_string(struct json *json, const char *key, const char *text);
/* At most max bytes of text, up to a 0 byte. */
void json_string_in(struct json *json, const char *key, const char *text, size_t max);
void json_number(struct json *json, const char *key, uint64_t number);
void json_signed(struct json *json, const char *key, int64_t number);
/* Bytes; BYTES_NONE is null. */
void json_bytes(struct json *json, const char *key, uint64_t bytes);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* A moment as RFC 3339; 0 is null. */
void json_time(struct json *json, const char *key, uint64_t realtime_ns);

#endif
