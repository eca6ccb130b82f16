/*
 * text.c - words and numbers into a struct report_out; no malloc, no stdio, no locale.
 */
#include "text.h"

#include <string.h>

static void flush(struct report_out *out)
{
	if (!out->failed && out->used > 0 && !out->flush(out, out->buffer, out->used))
		out->failed = true;
	out->used = 0;
}

bool report_finish(struct report_out *out)
{
	flush(out);
	return !out->failed;
}

void text_bytes(struct report_out *out, const char *bytes, size_t count)
{
	while (count > 0) {
		size_t room = sizeof(out->buffer) - out->used;
		size_t part = count < room ? count : room;

		memcpy(out->buffer + out->used, bytes, part);
		out->used += part;
		bytes += part;
		count -= part;
		if (out->used == sizeof(out->buffer))
			flush(out);
	}
}

void text_put(struct report_out *out, const char *text)
{
	text_bytes(out, text, strlen(text));
}

void text_char(struct report_out *out, char c)
{
	text_bytes(out, &c, 1);
}

void text_clean(struct report_out *out, const char *text, size_t max)
{
	for (size_t i = 0; i < max && text[i]; i++) {
		if (out->quoted && (text[i] == '"' || text[i] == '\\'))
			text_char(out, '\\');
		text_char(out, text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?');
	}
}

/* number in the base, with leading zeros up to digits_min. */
static void put_digits(struct report_out *out, uint64_t number, unsigned base, unsigned digits_min)
{
	static const char digits[] = "0123456789abcdef";
	char text[24];
	unsigned at = sizeof(text);

	while (number > 0 || sizeof(text) - at < digits_min) {
		text[--at] = digits[number % base];
		number /= base;
	}
	text_bytes(out, text + at, sizeof(text) - at);
}

void text_number(struct report_out *out, uint64_t number)
{
	put_digits(out, number, 10, 1);
}

void text_hex(struct report_out *out, uint64_t number, unsigned digits_min)
{
	put_digits(out, number, 16, digits_min);
}

void text_count(struct report_out *out, uint64_t count, const char *noun)
{
	text_number(out, count);
	text_char(out, ' ');
	text_put(out, noun);
	if (count != 1)
		text_char(out, 's');
}

void text_size(struct report_out *out, uint64_t bytes)
{
	static const char *const units[] = { " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
	unsigned unit = 0;
	uint64_t part;

	if (bytes < 1024) {
		text_count(out, bytes, "byte");
		return;
	}
	while (unit < 5 && bytes >> (10 * (unit + 2)))
		unit++;
	text_number(out, bytes >> (10 * (unit + 1)));
	part = bytes & ((1ull << (10 * (unit + 1))) - 1);
	if (part) {
		part = (uint64_t)((unsigned __int128)part * 100 >> (10 * (unit + 1)));
		text_char(out, '.');
		put_digits(out, part, 10, 2);
	}
	text_put(out, units[unit]);
}

void text_span(struct report_out *out, uint64_t ns)
{
	uint64_t seconds = ns / 1000000000;

	if (seconds < 120)
		text_number(out, seconds);
	else
		text_number(out, seconds < 7200 ? seconds / 60 : seconds / 3600);
	text_put(out, seconds < 120 ? " s" : seconds < 7200 ? " min" : " h");
}

/* The civil date of a day since 1970; the year begins in March, so that a leap day ends it. */
static void put_date(struct report_out *out, uint64_t days)
{
	uint64_t shifted = days + 719468, era = shifted / 146097, day = shifted % 146097;
	uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	uint64_t day_of_year = day - (365 * year + year / 4 - year / 100);
	uint64_t month = (5 * day_of_year + 2) / 153;

	put_digits(out, era * 400 + year + (month >= 10), 10, 4);
	text_char(out, '-');
	put_digits(out, month < 10 ? month + 3 : month - 9, 10, 2);
	text_char(out, '-');
	put_digits(out, day_of_year - (153 * month + 2) / 5 + 1, 10, 2);
}

void text_time(struct report_out *out, uint64_t realtime_ns)
{
	uint64_t ms = realtime_ns / 1000000;

	put_date(out, ms / 86400000);
	text_char(out, 'T');
	put_digits(out, ms / 3600000 % 24, 10, 2);
	text_char(out, ':');
	put_digits(out, ms / 60000 % 60, 10, 2);
	text_char(out, ':');
	put_digits(out, ms / 1000 % 60, 10, 2);
	text_char(out, '.');
	put_digits(out, ms % 1000, 10, 3);
	text_char(out, 'Z');
}

void text_uuid(struct report_out *out, const uint8_t uuid[16])
{
	text_put(out, "GPU-");
	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text_char(out, '-');
		text_hex(out, uuid[i], 2);
	}
}
