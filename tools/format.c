/*
 * format.c - numbers and names for people.
 */
#include "format.h"

#include <inttypes.h>
#include <langinfo.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

#include "need.h"

#define TEXT_BYTES 48

static char *next_text(void)
{
	static __thread char texts[16][TEXT_BYTES];
	static __thread unsigned used;

	return texts[used++ % 16];
}

/* value / unit with three digits that count; rounded down, so that 1023.9 never becomes 1024. */
static const char *scaled(uint64_t value, uint64_t unit, const char *name)
{
	char *text = next_text();
	uint64_t whole = value / unit;
	unsigned decimals = whole < 10 ? 2 : whole < 100 ? 1 : 0, factor = decimals == 2 ? 100 : 10;
	unsigned rest = (unsigned)((unsigned __int128)(value % unit) * factor / unit);

	if (decimals)
		snprintf(text, TEXT_BYTES, "%" PRIu64 ".%0*u %s", whole, (int)decimals, rest, name);
	else
		snprintf(text, TEXT_BYTES, "%" PRIu64 " %s", whole, name);
	return text;
}

const char *format_bytes(uint64_t bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned power = 0;

	while (power < 6 && bytes >> 10 * (power + 1))
		power++;
	if (power == 0) {
		char *text = next_text();

		snprintf(text, TEXT_BYTES, "%" PRIu64 " B", bytes);
		return text;
	}
	return scaled(bytes, 1ull << 10 * power, names[power]);
}

const char *format_ns(uint64_t ns)
{
	char *text = next_text();
	uint64_t minutes = ns / 60000000000ull;

	if (ns >= 1000 && minutes == 0)
		return ns < 1000000 ? scaled(ns, 1000, "us")
			: ns < 1000000000 ? scaled(ns, 1000000, "ms") : scaled(ns, 1000000000, "s");
	if (minutes == 0)
		snprintf(text, TEXT_BYTES, "%" PRIu64 " ns", ns);
	else if (minutes < 60)
		snprintf(text, TEXT_BYTES, "%" PRIu64 " m %02u s", minutes,
			(unsigned)(ns / 1000000000 % 60));
	else
		snprintf(text, TEXT_BYTES, "%" PRIu64 " h %02u m", minutes / 60, (unsigned)(minutes % 60));
	return text;
}

const char *format_count(uint64_t count)
{
	char *text = next_text();

	snprintf(text, TEXT_BYTES, "%" PRIu64, count);
	return text;
}

const char *format_percent(uint64_t part, uint64_t whole)
{
	char *text = next_text();
	uint64_t tenths = whole ? (uint64_t)(((unsigned __int128)part * 1000 + whole / 2) / whole) : 0;

	if (!whole)
		return "?";
	snprintf(text, TEXT_BYTES, "%" PRIu64 ".%u %%", tenths / 10, (unsigned)(tenths % 10));
	return text;
}

const char *format_moment(uint64_t ns)
{
	char *text = next_text(), date[32];
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm))
		return "?";
	snprintf(text, TEXT_BYTES, "%s.%06u UTC", date, (unsigned)(ns % 1000000000 / 1000));
	return text;
}

bool locale_is_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static bool is_plain(char character)
{
	return character >= ' ' && character <= '~';
}

/* One character of text: its columns and bytes, 0 columns if it must not be printed as it is. */
static unsigned next_character(const char *text, size_t *bytes)
{
	mbstate_t state = { 0 };
	wchar_t wide;
	size_t length;
	int columns;

	*bytes = 1;
	if (is_plain(*text)) /* nearly all of them, in every locale */
		return 1;
	length = mbrtowc(&wide, text, strlen(text), &state);
	if (length == 0 || length == (size_t)-1 || length == (size_t)-2)
		return 0;
	*bytes = length;
	columns = iswprint((wint_t)wide) ? wcwidth(wide) : 0;
	return columns > 0 ? (unsigned)columns : 0;
}

unsigned put_safe(FILE *out, const char *text, unsigned columns)
{
	const char *mark = locale_is_utf8() ? "…" : "~";
	unsigned used = 0;

	while (*text) {
		size_t bytes;
		unsigned width = next_character(text, &bytes);
		unsigned takes = width ? width : 4 * (unsigned)bytes;
		bool last = text[bytes] == '\0';

		if (used + takes > columns - !last && columns) {
			if (used < columns) {
				fputs(mark, out);
				used++;
			}
			break;
		}
		if (width)
			fwrite(text, 1, bytes, out);
		for (size_t i = 0; i < bytes && !width; i++)
			fprintf(out, "\\x%02x", (unsigned char)text[i]);
		text += bytes;
		used += takes;
	}
	return used;
}

char *safe_text(const char *text, unsigned columns)
{
	char *safe = NULL;
	size_t bytes = 0;
	FILE *out;

	while (is_plain(text[bytes]))
		bytes++;
	if (!text[bytes] && (!columns || bytes <= columns))
		return need_copy(text); /* a table of many processes is made of such */
	out = need(open_memstream(&safe, &bytes));
	put_safe(out, text, columns);
	fclose(out);
	return need(safe);
}

unsigned text_columns(const char *text)
{
	unsigned columns = 0;

	while (*text) {
		size_t bytes;

		columns += next_character(text, &bytes);
		text += bytes;
	}
	return columns;
}
