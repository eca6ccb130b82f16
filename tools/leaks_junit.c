/*
 * leaks_junit.c - leaks as JUnit XML: one test a leak, or a single one that passed.
 */
#include "leaks.h"

#include <inttypes.h>

#include "need.h"

/* What XML cannot hold at all becomes a question mark; jansson has seen that the rest is UTF-8. */
static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '"': fputs("&quot;", out); break;
		case '\t': case '\n': case '\r': fprintf(out, "&#%d;", *text); break;
		default: fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
		}
}

static const char *word(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static void put_frames(FILE *out, const json_t *frames)
{
	const json_t *frame;
	size_t i;

	json_array_foreach (frames, i, frame) {
		put_escaped(out, word(frame, "function"));
		if (json_is_string(json_object_get(frame, "file"))) {
			fputs(" at ", out);
			put_escaped(out, leak_file(word(frame, "file")));
			fprintf(out, ":%" JSON_INTEGER_FORMAT,
				json_integer_value(json_object_get(frame, "line")));
		} else {
			fputs(" in ", out);
			put_escaped(out, word(frame, "module"));
			fprintf(out, "+0x%" PRIx64,
				(uint64_t)json_integer_value(json_object_get(frame, "offset")));
		}
		fputc('\n', out);
	}
}

static void put_case(FILE *out, const struct leak *leak)
{
	char *sentence = leak_sentence(leak);
	struct leak_place place = { 0 };

	leak_place_of(leak, &place);
	fputs("    <testcase classname=\"cuward.", out);
	put_escaped(out, word(leak->process, "command"));
	fputs("\" name=\"", out);
	put_escaped(out, place.function ? place.function : place.module ? place.module : "unknown");
	fprintf(out, " [%s]\"", leak->hash);
	if (place.file) {
		fputs(" file=\"", out);
		put_escaped(out, leak_file(place.file));
		fprintf(out, "\" line=\"%" PRIu64 "\"", place.line);
	}
	fputs(">\n", out);
	if (leak_fails(leak)) {
		fprintf(out, "      <failure type=\"%s\" message=\"", leak->verdict);
		put_escaped(out, sentence);
		fputs("\">", out);
		put_frames(out, json_object_get(leak->entry, "python"));
		put_frames(out, json_object_get(leak->entry, "native"));
		fputs("</failure>\n", out);
	} else {
		fputs("      <skipped message=\"", out);
		put_escaped(out, leak->suppressed_by ? leak->suppressed_by : "known");
		fputs("\"/>\n", out);
	}
	fputs("    </testcase>\n", out);
	free(sentence);
}

void leaks_junit(FILE *out, const struct leaks *leaks)
{
	size_t skipped = leaks->count - leaks->failing, tests = leaks->count;

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	if (tests == 0)
		tests = 1;
	fprintf(out, "<testsuites tests=\"%zu\" failures=\"%" PRIu64 "\" errors=\"0\">\n"
		"  <testsuite name=\"GPU memory\" tests=\"%zu\" failures=\"%" PRIu64
		"\" errors=\"0\" skipped=\"%zu\">\n", tests, leaks->failing, tests, leaks->failing,
		skipped);
	for (size_t i = 0; i < leaks->count; i++)
		put_case(out, &leaks->all[i]);
	/* A file without a test looks like a run that failed. */
	if (leaks->count == 0)
		fputs("    <testcase classname=\"cuward\" name=\"no leaks\"/>\n", out);
	fputs("  </testsuite>\n</testsuites>\n", out);
}
