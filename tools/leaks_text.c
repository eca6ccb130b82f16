/*
 * leaks_text.c - leaks for people, as annotations of GitHub, and as suppressions.
 */
#include "leaks.h"

#include <ctype.h>
#include <inttypes.h>

#include "format.h"
#include "need.h"

static const char *word(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

char *leak_sentence(const struct leak *leak)
{
	const char *command = word(leak->process, "command");
	char *sentence;
	size_t bytes;
	FILE *out = need(open_memstream(&sentence, &bytes));

	fprintf(out, "%s in %" PRIu64 " allocation%s (%s%s%s", format_bytes(leak->bytes), leak->count,
		plural(leak->count), leak->kind, leak->api ? ", " : "", leak->api ? leak->api : "");
	if (leak->device >= 0)
		fprintf(out, ", GPU %" PRId64, leak->device);
	fprintf(out, ") %s %s", strcmp(leak->verdict, "growth") == 0 ? "keeps growing in" :
		"leaked by", command ? command : "a process");
	if (leak->processes > 1)
		fprintf(out, " and %" PRIu64 " other process%s", leak->processes - 1,
			leak->processes == 2 ? "" : "es");
	if (leak->state == LEAK_GROWN)
		fprintf(out, "; it was %s", format_bytes(leak->known_bytes));
	fclose(out);
	return sentence;
}

/* ---- for people ---- */

static void put_source(FILE *out, const json_t *frame)
{
	const char *file = word(frame, "file");
	json_int_t line = json_integer_value(json_object_get(frame, "line"));

	if (!file)
		return;
	fputs("  ", out);
	put_safe(out, leak_file(file), 0);
	if (line > 0)
		fprintf(out, ":%" JSON_INTEGER_FORMAT, line);
}

static void put_native(FILE *out, const json_t *frame)
{
	const char *function = word(frame, "function"), *module = word(frame, "module");

	fputs("    ", out);
	if (function)
		put_safe(out, function, 0);
	else
		fputs("?", out);
	put_source(out, frame);
	fputs("  (", out);
	put_safe(out, module ? module : "?", 0);
	fprintf(out, "+0x%" PRIx64 ")\n",
		(uint64_t)json_integer_value(json_object_get(frame, "offset")));
	if (word(frame, "note")) {
		fputs("      ", out);
		put_safe(out, word(frame, "note"), 0);
		fputc('\n', out);
	}
}

static void put_leak(FILE *out, const struct leak *leak)
{
	char *sentence = leak_sentence(leak);
	const json_t *frame;
	size_t i;

	fprintf(out, "%s: ", leak_state_word(leak->state));
	put_safe(out, sentence, 0);
	fprintf(out, " [%s]\n", leak->hash);
	if (leak->suppressed_by) {
		fputs("    suppressed by ", out);
		put_safe(out, leak->suppressed_by, 0);
		fputc('\n', out);
	}
	json_array_foreach (json_object_get(leak->entry, "python"), i, frame) {
		fputs("    ", out);
		put_safe(out, word(frame, "function") ? word(frame, "function") : "?", 0);
		put_source(out, frame);
		fputs("  (python)\n", out);
	}
	json_array_foreach (json_object_get(leak->entry, "native"), i, frame)
		put_native(out, frame);
	free(sentence);
}

static void put_count(FILE *out, const struct leaks *leaks, enum leak_state state)
{
	size_t count = 0;

	for (size_t i = 0; i < leaks->count; i++)
		count += leaks->all[i].state == state;
	if (count > 0)
		fprintf(out, ", %zu %s", count, leak_state_word(state));
}

void leaks_text(FILE *out, const struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++)
		put_leak(out, &leaks->all[i]);
	fprintf(out, "%" PRIu64 " leak%s", leaks->failing, plural(leaks->failing));
	if (leaks->failing > 0)
		fprintf(out, ", %s in %" PRIu64 " allocation%s", format_bytes(leaks->failing_bytes),
			leaks->failing_count, plural(leaks->failing_count));
	put_count(out, leaks, LEAK_KNOWN);
	put_count(out, leaks, LEAK_SUPPRESSED);
	fprintf(out, "; %" PRIu64 " process%s\n", leaks->processes, leaks->processes == 1 ? "" : "es");
}

/* ---- GitHub's workflow commands ---- */

/* What could steer the terminal of who reads the log is not in it. */
static void put_escaped(FILE *out, const char *text, bool property)
{
	for (; *text; text++)
		if (*text == '%' || *text == '\r' || *text == '\n' ||
			(property && (*text == ':' || *text == ',')))
			fprintf(out, "%%%02X", (unsigned char)*text);
		else
			fputc(iscntrl((unsigned char)*text) ? '?' : *text, out);
}

void leaks_github(FILE *out, const struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++) {
		const struct leak *leak = &leaks->all[i];
		struct leak_place place;
		char *sentence;

		if (!leak_fails(leak))
			continue;
		fputs("::error ", out);
		if (leak_place_of(leak, &place) && place.file) {
			fputs("file=", out);
			put_escaped(out, leak_file(place.file), true);
			fprintf(out, ",line=%" PRIu64 ",", place.line ? place.line : 1);
		}
		sentence = leak_sentence(leak);
		fputs("title=GPU memory leak::", out);
		put_escaped(out, sentence, false);
		if (leak_place_of(leak, &place) && place.function) {
			fputs(", from ", out);
			put_escaped(out, place.function, false);
		}
		fputc('\n', out);
		free(sentence);
	}
}

/* ---- suppressions ---- */

/* One line, and nothing in it that a pattern or a comment would take for its own. */
static void put_pattern(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == '*' ? '*' : *text, out);
}

void leaks_suppressions(FILE *out, const struct leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++) {
		const struct leak *leak = &leaks->all[i];
		struct leak_place place = { 0 };
		char *sentence;

		if (!leak_fails(leak))
			continue;
		sentence = leak_sentence(leak);
		fputs("# ", out);
		put_safe(out, sentence, 0);
		fputc('\n', out);
		free(sentence);
		leak_place_of(leak, &place);
		if (place.function) {
			fputs("leak:^", out);
			put_pattern(out, place.function);
			fputs("$\n", out);
		} else if (place.module) {
			fputs("lib:^", out);
			put_pattern(out, place.module);
			fputs("$\n", out);
		} else {
			fprintf(out, "api:^%s$\n", leak->api ? leak->api : "*");
		}
	}
}
