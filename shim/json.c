/*
 * json.c - JSON, written as it goes into a struct report_out.
 */
#include "json.h"

#include <string.h>

#include "text.h"

static void new_line(struct json *json)
{
	if (json->flat && json->level >= json->flat) {
		text_char(json->out, ' ');
		return;
	}
	text_char(json->out, '\n');
	for (unsigned i = 0; i < json->indent + json->level; i++)
		text_char(json->out, '\t');
}

/* Bytes of the UTF-8 character that begins here; 0 if none does within count bytes. */
static size_t utf8_length(const unsigned char *at, size_t count)
{
	uint32_t value = at[0];
	size_t length = value < 0x80 ? 1 : value < 0xc2 ? 0 : value < 0xe0 ? 2 : value < 0xf0 ? 3 :
		value < 0xf5 ? 4 : 0;

	if (length == 0 || length > count)
		return 0;
	value &= 0xffu >> length;
	for (size_t i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (at[i] & 0x3f);
	}
	if (length == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000)))
		return 0;
	return length == 4 && (value < 0x10000 || value > 0x10ffff) ? 0 : length;
}

static void put_ascii(struct report_out *out, char c)
{
	if (c == '"' || c == '\\') {
		text_char(out, '\\');
		text_char(out, c);
	} else if (c == '\n') {
		text_put(out, "\\n");
	} else if (c == '\t') {
		text_put(out, "\\t");
	} else if ((unsigned char)c < 0x20 || c == 0x7f) {
		text_put(out, "\\u");
		text_hex(out, (unsigned char)c, 4);
	} else {
		text_char(out, c);
	}
}

static void put_string(struct report_out *out, const char *text, size_t count)
{
	text_char(out, '"');
	while (count > 0) {
		size_t length = utf8_length((const unsigned char *)text, count);

		if (length == 0)
			text_put(out, "\xef\xbf\xbd");
		else if (length == 1)
			put_ascii(out, *text);
		else
			text_bytes(out, text, length);
		text += length ? length : 1;
		count -= length ? length : 1;
	}
	text_char(out, '"');
}

void json_begin(struct json *json, const char *key)
{
	/* The outermost value stands where the caller is. */
	if (json->level == 0)
		return;
	if (json->begun)
		text_char(json->out, ',');
	json->begun = true;
	new_line(json);
	if (key) {
		put_string(json->out, key, strlen(key));
		text_put(json->out, ": ");
	}
}

void json_open(struct json *json, const char *key, char bracket)
{
	json_begin(json, key);
	text_char(json->out, bracket);
	json->level++;
	json->begun = false;
}

void json_open_flat(struct json *json, const char *key, char bracket)
{
	json_open(json, key, bracket);
	if (!json->flat)
		json->flat = json->level;
}

void json_close(struct json *json, char bracket)
{
	bool flat = json->flat && json->level >= json->flat;

	json->level--;
	if (json->begun && flat)
		text_char(json->out, ' ');
	else if (json->begun)
		new_line(json);
	if (json->flat > json->level)
		json->flat = 0;
	text_char(json->out, bracket);
	json->begun = true;
}

void json_string(struct json *json, const char *key, const char *text)
{
	json_begin(json, key);
	put_string(json->out, text, strlen(text));
}

void json_string_in(struct json *json, const char *key, const char *text, size_t max)
{
	json_begin(json, key);
	put_string(json->out, text, strnlen(text, max));
}

void json_number(struct json *json, const char *key, uint64_t number)
{
	json_begin(json, key);
	text_number(json->out, number);
}

void json_signed(struct json *json, const char *key, int64_t number)
{
	json_begin(json, key);
	if (number < 0)
		text_char(json->out, '-');
	text_number(json->out, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void json_bytes(struct json *json, const char *key, uint64_t bytes)
{
	if (bytes == BYTES_NONE)
		json_null(json, key);
	else
		json_number(json, key, bytes);
}

void json_bool(struct json *json, const char *key, bool value)
{
	json_begin(json, key);
	text_put(json->out, value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
	json_begin(json, key);
	text_put(json->out, "null");
}

void json_time(struct json *json, const char *key, uint64_t realtime_ns)
{
	if (realtime_ns == 0) {
		json_null(json, key);
		return;
	}
	json_begin(json, key);
	text_char(json->out, '"');
	text_time(json->out, realtime_ns);
	text_char(json->out, '"');
}
