/*
 * format.h - numbers and names for people: bytes, times, moments, and text that cannot harm a
 * terminal.
 */
#ifndef FORMAT_H
#define FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Each returns a buffer of its own, good until the 16th later call. */
const char *format_bytes(uint64_t bytes);  /* 0 B, 1.50 GiB */
const char *format_ns(uint64_t ns);        /* 0 ns, 12.3 ms, 2.5 s, 3 h 05 m */
const char *format_count(uint64_t count);  /* 12 345 678 as 12345678 */
const char *format_percent(uint64_t part, uint64_t whole); /* 12.3 %, ? of nothing */
const char *format_moment(uint64_t ns);    /* 2025-01-31 12:00:00.000000 UTC */

/*
 * Write at most columns of text, whatever is in it: what does not print here, or could steer the
 * terminal, is written as \xHH. Cut text ends in a mark. Returns the columns written.
 */
unsigned put_safe(FILE *out, const char *text, unsigned columns);

/* The same as a string, to be freed; columns 0: all of it. */
char *safe_text(const char *text, unsigned columns);

/* The columns that text, already safe, takes on the terminal. */
unsigned text_columns(const char *text);

/* Does the locale print UTF-8? */
bool locale_is_utf8(void);

#endif
