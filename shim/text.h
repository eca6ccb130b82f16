/*
 * text.h - words and numbers into a struct report_out; no malloc, no stdio, no locale.
 */
#ifndef CUWARD_TEXT_H
#define CUWARD_TEXT_H

#include <stdint.h>

#include "report.h"

void text_bytes(struct report_out *out, const char *bytes, size_t count);
void text_put(struct report_out *out, const char *text);
void text_char(struct report_out *out, char c);

/*
 * At most max bytes up to a 0 byte, for a terminal: what is not printable ASCII becomes a '?'. While
 * out->quoted, what would end a string of JSON is escaped.
 */
void text_clean(struct report_out *out, const char *text, size_t max);

void text_number(struct report_out *out, uint64_t number);
void text_hex(struct report_out *out, uint64_t number, unsigned digits_min);

/* "1 thing", "2 things": the noun is given in the singular. */
void text_count(struct report_out *out, uint64_t count, const char *noun);

/* A size for people: "17 bytes", "4 MiB", "1.50 GiB". */
void text_size(struct report_out *out, uint64_t bytes);

/* A time span for people: "12 s", "5 min", "30 h". */
void text_span(struct report_out *out, uint64_t ns);

/* A moment in UTC as RFC 3339, to the millisecond. */
void text_time(struct report_out *out, uint64_t realtime_ns);

/* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
void text_uuid(struct report_out *out, const uint8_t uuid[16]);

#endif
