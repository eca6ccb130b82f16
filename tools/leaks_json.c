/*
 * leaks_json.c - leaks as JSON, and as SARIF 2.1.0 for code scanning.
 */
#include "leaks.h"

#include <ctype.h>

#include "need.h"

static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static json_t *text_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

static bool print(FILE *out, json_t *document)
{
	bool fine = json_dumpf(document, out, JSON_INDENT(2)) == 0;

	fputc('\n', out);
	json_decref(document);
	return fine;
}

/* ---- JSON ---- */

static json_t *leak_object(const struct leak *leak)
{
	json_t *object = json_object();

	set(object, "state", json_string(leak_state_word(leak->state)));
	set(object, "verdict", json_string(leak->verdict));
	set(object, "kind", json_string(leak->kind));
	set(object, "api", text_or_null(leak->api));
	set(object, "device", leak->device < 0 ? json_null() : json_integer(leak->device));
	set(object, "bytes", json_integer((json_int_t)leak->bytes));
	set(object, "count", json_integer((json_int_t)leak->count));
	set(object, "processes", json_integer((json_int_t)leak->processes));
	set(object, "hash", json_string(leak->hash));
	set(object, "suppressed_by", text_or_null(leak->suppressed_by));
	set(object, "command", json_incref(json_object_get(leak->process, "command")));
	set(object, "python", json_incref(json_object_get(leak->entry, "python")));
	set(object, "native", json_incref(json_object_get(leak->entry, "native")));
	return object;
}

bool leaks_json(FILE *out, const struct leaks *leaks)
{
	json_t *document = json_object(), *list = json_array();

	for (size_t i = 0; i < leaks->count; i++)
		json_array_append_new(list, leak_object(&leaks->all[i]));
	set(document, "schema", json_integer(1));
	set(document, "processes_read", json_integer((json_int_t)leaks->processes));
	set(document, "failing", json_integer((json_int_t)leaks->failing));
	set(document, "failing_bytes", json_integer((json_int_t)leaks->failing_bytes));
	set(document, "failing_count", json_integer((json_int_t)leaks->failing_count));
	set(document, "leaks", list);
	return print(out, document);
}

/* ---- SARIF ---- */

static json_t *message(const char *text)
{
	return json_pack("{s:s}", "text", text);
}

/* A path as a URI: relative where it is relative. */
static json_t *uri_of(const char *path)
{
	char *uri, *at;
	json_t *value;

	path = leak_file(path);
	uri = at = need_zeroed(strlen(path) * 3 + 8, 1);
	if (*path == '/')
		at = stpcpy(at, "file://");
	for (; *path; path++)
		if (isalnum((unsigned char)*path) || strchr("/-._~+", *path))
			*at++ = *path;
		else
			at += sprintf(at, "%%%02X", (unsigned char)*path);
	value = json_string(uri);
	free(uri);
	return value;
}

static json_t *physical(const char *file, json_int_t line)
{
	json_t *physical = json_object(), *artifact = json_object();

	set(artifact, "uri", uri_of(file));
	set(physical, "artifactLocation", artifact);
	if (line > 0)
		set(physical, "region", json_pack("{s:I}", "startLine", line));
	return physical;
}

static json_t *location(const struct leak_place *place)
{
	json_t *location = json_object();

	if (place->file)
		set(location, "physicalLocation", physical(place->file, (json_int_t)place->line));
	if (place->function)
		set(location, "logicalLocations", json_pack("[{s:s, s:s}]", "name", place->function,
			"kind", "function"));
	return location;
}

static void add_frames(json_t *to, const json_t *frames, bool python)
{
	const json_t *frame;
	size_t i;

	json_array_foreach (frames, i, frame) {
		struct leak_place place = {
			.function = json_string_value(json_object_get(frame, "function")),
			.file = json_string_value(json_object_get(frame, "file")),
			.line = (uint64_t)json_integer_value(json_object_get(frame, "line")),
		};
		json_t *stack_frame = json_object();
		const char *module = json_string_value(json_object_get(frame, "module"));

		set(stack_frame, "location", location(&place));
		if (!python && module)
			set(stack_frame, "module", json_string(module));
		json_array_append_new(to, stack_frame);
	}
}

static json_t *stack(const struct leak *leak)
{
	json_t *frames = json_array();

	add_frames(frames, json_object_get(leak->entry, "python"), true);
	add_frames(frames, json_object_get(leak->entry, "native"), false);
	return json_pack("{s:o, s:o}", "message", message("allocated here"), "frames", frames);
}

static const char *rule_of(const struct leak *leak)
{
	return strcmp(leak->verdict, "growth") == 0 ? "gpu-memory-growth" : "gpu-memory-leak";
}

static json_t *result(const struct leak *leak, bool compared)
{
	static const char *const states[] = { "new", "updated", "unchanged", "unchanged" };
	json_t *result = json_object();
	struct leak_place place;
	char *sentence = leak_sentence(leak);

	set(result, "ruleId", json_string(rule_of(leak)));
	set(result, "level", json_string(leak_fails(leak) ? "error" : "note"));
	set(result, "message", message(sentence));
	set(result, "locations", leak_place_of(leak, &place) ? json_pack("[o]", location(&place)) :
		json_array());
	set(result, "stacks", json_pack("[o]", stack(leak)));
	set(result, "partialFingerprints", json_pack("{s:s}", "cuwardLeak/v1", leak->hash));
	if (compared)
		set(result, "baselineState", json_string(states[leak->state]));
	if (leak->suppressed_by)
		set(result, "suppressions", json_pack("[{s:s, s:s}]", "kind", "external",
			"justification", leak->suppressed_by));
	set(result, "properties", json_pack("{s:I, s:I, s:s, s:s}", "bytes", (json_int_t)leak->bytes,
		"count", (json_int_t)leak->count, "kind", leak->kind, "state",
		leak_state_word(leak->state)));
	free(sentence);
	return result;
}

static json_t *rules(void)
{
	return json_pack("[{s:s, s:{s:s}}, {s:s, s:{s:s}}]",
		"id", "gpu-memory-leak", "shortDescription", "text", "GPU memory that was never freed",
		"id", "gpu-memory-growth", "shortDescription", "text", "GPU memory that keeps growing");
}

bool leaks_sarif(FILE *out, const struct leaks *leaks)
{
	json_t *results = json_array();
	bool compared = false;

	for (size_t i = 0; i < leaks->count; i++)
		compared = compared || leaks->all[i].known_bytes > 0;
	for (size_t i = 0; i < leaks->count; i++)
		json_array_append_new(results, result(&leaks->all[i], compared));
	return print(out, json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:s, s:o}}, s:o, s:s}]}",
		"$schema", "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0",
		"runs", "tool", "driver", "name", "cuward", "version", CUWARD_VERSION,
		"rules", rules(), "results", results, "columnKind", "unicodeCodePoints"));
}
