/*
 * report_sites.c - call sites of a ledger: checked entries, frames of a stack, and words for them.
 */
#include "report_sites.h"

#include <string.h>

#include "text.h"

/* ---- entries ---- */

/* Behind the entry: count texts that end within it, then `more` bytes. */
static bool holds(const struct ledger_site *entry, unsigned texts, size_t more)
{
	const char *at = (const char *)(entry + 1);
	size_t left = entry->bytes - sizeof(*entry);

	while (texts-- > 0) {
		size_t length = strnlen(at, left);

		if (length == left)
			return false;
		at += length + 1;
		left -= length + 1;
	}
	return more <= left;
}

static bool is_whole(const struct ledger_site *entry)
{
	switch (entry->type) {
	case SITE_PLACE: return holds(entry, 1, 0);
	case SITE_MODULE: return entry->count <= BUILD_ID_MAX && holds(entry, 1, entry->count);
	case SITE_PYTHON: return holds(entry, 2, 0);
	case SITE_STACK:
		return entry->count <= SITE_FRAMES_MAX && holds(entry, 0, entry->count * sizeof(uint32_t));
	default: return false;
	}
}

const struct ledger_site *report_site(const struct ledger_view *view, uint32_t site)
{
	uint64_t offset = ((uint64_t)site - 1) * 8;
	const struct ledger_site *entry;

	if (site == 0 || offset + sizeof(*entry) > view->sites_bytes)
		return NULL;
	entry = (const void *)(view->sites + offset);
	if (entry->site != site || entry->bytes < sizeof(*entry) || entry->bytes % 8 ||
		entry->bytes > view->sites_bytes - offset)
		return NULL;
	return is_whole(entry) ? entry : NULL;
}

static const struct ledger_site *site_of_type(const struct ledger_view *view, uint32_t site,
	enum ledger_site_type type)
{
	const struct ledger_site *entry = report_site(view, site);

	return entry && entry->type == type ? entry : NULL;
}

const char *report_site_function(const struct ledger_site *entry)
{
	const char *text = (const char *)(entry + 1);

	return entry->type == SITE_PYTHON ? text + strlen(text) + 1 : text;
}

const char *report_site_file(const struct ledger_site *entry)
{
	return (const char *)(entry + 1);
}

const char *report_site_path(const struct ledger_view *view, const struct ledger_site *place)
{
	const struct ledger_site *module = site_of_type(view, place->module, SITE_MODULE);

	return module ? (const char *)(module + 1) : "";
}

const char *report_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *report_site_module(const struct ledger_view *view, const struct ledger_site *place)
{
	return report_base_name(report_site_path(view, place));
}

unsigned report_site_frames(const struct ledger_view *view, uint32_t site,
	enum ledger_site_type type, const struct ledger_site *frames[SITE_FRAMES_MAX])
{
	const struct ledger_site *entry = report_site(view, site);
	unsigned count = 0;

	if (entry && entry->type == type) {
		frames[count++] = entry;
	} else if (entry && entry->type == SITE_STACK) {
		const uint32_t *ids = (const uint32_t *)(entry + 1);

		for (unsigned i = 0; i < entry->count; i++)
			if ((frames[count] = site_of_type(view, ids[i], type)))
				count++;
	}
	return count;
}

/* ---- whose place it is ---- */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool is_one_of(const char *module, const char *const *names)
{
	for (; *names; names++)
		if (begins(module, *names))
			return true;
	return false;
}

bool report_is_passage(const char *module)
{
	static const char *const names[] = { "libcudart", "libcuda.so", "libcuward", "libffi.so",
		"_ctypes", "_cffi_backend", NULL };

	return is_one_of(module, names);
}

bool report_is_interpreter(const char *module)
{
	static const char *const names[] = { "python", "libpython", "libc.so", "libc-",
		"libpthread", "ld-linux", NULL };

	return is_one_of(module, names);
}

const struct ledger_site *report_site_owner(const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	unsigned count = report_site_frames(view, site, SITE_PLACE, frames);

	for (unsigned i = 0; i < count; i++)
		if (!report_is_passage(report_site_module(view, frames[i])))
			return frames[i];
	return count ? frames[0] : NULL;
}

/* ---- source lines ---- */

unsigned report_place_frames(const struct ledger_view *view, const struct ledger_site *place,
	struct report_frame frames[REPORT_INLINED_MAX], const char **note)
{
	const struct ledger_site *module = site_of_type(view, place->module, SITE_MODULE);
	const char *exported = report_site_function(place);
	unsigned count = 0;

	*note = NULL;
	memset(frames, 0, REPORT_INLINED_MAX * sizeof(*frames));
	if (view->symbols && module) {
		struct report_module file = { .path = (const char *)(module + 1),
			.build_id_bytes = module->count };

		file.build_id = (const uint8_t *)file.path + strlen(file.path) + 1;
		count = view->symbols->resolve(view->symbols, &file, place->offset, frames, note);
	}
	if (count > 0)
		return count;
	frames[0].function = *exported ? exported : NULL;
	return 1;
}

/* ---- hash ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

uint64_t report_hash_word(uint64_t hash, const char *word)
{
	return hash_bytes(hash, word, strlen(word) + 1);
}

/* A clone of a function that the compiler made (.isra.0, .part.1) is the function. */
static uint64_t hash_function(uint64_t hash, const char *function)
{
	const char *dot = strchr(function, '.');

	hash = hash_bytes(hash, function, dot && dot > function ? (size_t)(dot - function) :
		strlen(function));
	return hash_bytes(hash, "", 1);
}

static uint64_t hash_place(uint64_t hash, const struct ledger_view *view,
	const struct ledger_site *place)
{
	struct report_frame frames[REPORT_INLINED_MAX];
	const char *module = report_site_module(view, place), *note;
	unsigned count = report_place_frames(view, place, frames, &note);

	for (unsigned i = 0; i < count; i++) {
		hash = report_hash_word(hash, module);
		hash = hash_function(hash, frames[i].function ? frames[i].function : "");
		/* A function keeps its name when the program is built anew; an offset does not. */
		if (!frames[i].function)
			hash = hash_bytes(hash, &place->offset, sizeof(place->offset));
	}
	return hash;
}

uint64_t report_site_hash(const struct ledger_view *view, uint32_t site, uint64_t hash)
{
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	unsigned count = report_site_frames(view, site, SITE_PYTHON, frames);

	for (unsigned i = 0; i < count; i++) {
		hash = report_hash_word(hash, report_base_name(report_site_file(frames[i])));
		hash = report_hash_word(hash, report_site_function(frames[i]));
	}
	count = report_site_frames(view, site, SITE_PLACE, frames);
	for (unsigned i = 0; i < count; i++)
		/* How main is called, and how Python calls, is another matter on each machine. */
		if (i == 0 || !report_is_interpreter(report_site_module(view, frames[i])))
			hash = hash_place(hash, view, frames[i]);
	return hash;
}

/* A place without a line is itself only. */
static uint64_t hash_source(uint64_t hash, const struct ledger_view *view,
	const struct ledger_site *place)
{
	struct report_frame frames[REPORT_INLINED_MAX];
	const char *note;
	unsigned count = report_place_frames(view, place, frames, &note);

	hash = report_hash_word(hash, report_site_path(view, place));
	for (unsigned i = 0; i < count; i++) {
		hash = report_hash_word(hash, frames[i].function ? frames[i].function : "");
		hash = report_hash_word(hash, frames[i].file ? frames[i].file : "");
		hash = hash_bytes(hash, &frames[i].line, sizeof(frames[i].line));
	}
	return frames[0].line ? hash : hash_bytes(hash, &place->offset, sizeof(place->offset));
}

uint64_t report_site_source(const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	uint64_t hash = REPORT_HASH_START;
	unsigned count = report_site_frames(view, site, SITE_PYTHON, frames);

	for (unsigned i = 0; i < count; i++) {
		hash = report_hash_word(hash, report_site_file(frames[i]));
		hash = report_hash_word(hash, report_site_function(frames[i]));
		hash = hash_bytes(hash, &frames[i]->offset, sizeof(frames[i]->offset));
	}
	count = report_site_frames(view, site, SITE_PLACE, frames);
	for (unsigned i = 0; i < count; i++)
		hash = hash_source(hash, view, frames[i]);
	return hash;
}

/* ---- JSON ---- */

static void put_text(struct json *json, const char *key, const char *text)
{
	if (text)
		json_string(json, key, text);
	else
		json_null(json, key);
}

static void put_build_id(struct json *json, const struct ledger_view *view,
	const struct ledger_site *place)
{
	const struct ledger_site *module = site_of_type(view, place->module, SITE_MODULE);
	const uint8_t *id;

	if (!module || module->count == 0) {
		json_null(json, "build_id");
		return;
	}
	id = (const uint8_t *)(module + 1) + strlen((const char *)(module + 1)) + 1;
	json_begin(json, "build_id");
	text_char(json->out, '"');
	for (unsigned i = 0; i < module->count; i++)
		text_hex(json->out, id[i], 2);
	text_char(json->out, '"');
}

static void put_frame(struct json *json, const char *key, const struct ledger_view *view,
	const struct ledger_site *place, const struct report_frame *frame, bool last,
	const char *note)
{
	const char *exported = report_site_function(place);

	json_open_flat(json, key, '{');
	json_string(json, "module", report_site_module(view, place));
	json_string(json, "path", report_site_path(view, place));
	json_number(json, "offset", place->offset);
	put_text(json, "function", frame->function);
	json_bytes(json, "function_offset", *exported && last ? place->function_offset : BYTES_NONE);
	put_text(json, "file", frame->file);
	json_bytes(json, "line", frame->line ? frame->line : BYTES_NONE);
	json_bool(json, "inlined", !last);
	put_build_id(json, view, place);
	if (note)
		json_string(json, "note", note);
	json_close(json, '}');
}

/* Where the loader's word for a function is all there is, it says how far behind it. */
void report_place_json(struct json *json, const char *key, const struct ledger_view *view,
	const struct ledger_site *place)
{
	struct report_frame frames[REPORT_INLINED_MAX];
	const char *note;
	unsigned count = report_place_frames(view, place, frames, &note);

	/* Under a key there is room for one: the place itself, not what is inlined there. */
	for (unsigned i = key ? count - 1 : 0; i < count; i++)
		put_frame(json, key, view, place, &frames[i], i + 1 == count, note);
}

void report_site_json(struct json *json, const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	unsigned count = report_site_frames(view, site, SITE_PYTHON, frames);

	json_open(json, "python", '[');
	for (unsigned i = 0; i < count; i++) {
		json_open_flat(json, NULL, '{');
		json_string(json, "file", report_site_file(frames[i]));
		json_bytes(json, "line", frames[i]->offset ? frames[i]->offset : BYTES_NONE);
		json_string(json, "function", report_site_function(frames[i]));
		json_close(json, '}');
	}
	json_close(json, ']');
	count = report_site_frames(view, site, SITE_PLACE, frames);
	json_open(json, "native", '[');
	for (unsigned i = 0; i < count; i++)
		report_place_json(json, NULL, view, frames[i]);
	json_close(json, ']');
}

/* ---- a line for people ---- */

static void put_source(struct report_out *out, const char *function, const char *file, uint64_t line)
{
	text_clean(out, function, SIZE_MAX);
	if (!file)
		return;
	text_put(out, ", ");
	text_clean(out, report_base_name(file), SIZE_MAX);
	text_char(out, ':');
	text_number(out, line);
}

static void put_offset(struct report_out *out, const struct ledger_view *view,
	const struct ledger_site *place)
{
	text_clean(out, report_site_module(view, place), SIZE_MAX);
	text_put(out, "+0x");
	text_hex(out, place->offset, 1);
}

static void put_place(struct report_out *out, const struct ledger_view *view,
	const struct ledger_site *place)
{
	struct report_frame frames[REPORT_INLINED_MAX];
	const char *note;

	report_place_frames(view, place, frames, &note);
	if (frames[0].function) {
		put_source(out, frames[0].function, frames[0].file, frames[0].line);
		text_put(out, " (");
	}
	put_offset(out, view, place);
	if (frames[0].function)
		text_char(out, ')');
}

/* The innermost line that no installed package wrote, else the innermost; NULL without any. */
static const struct ledger_site *python_owner(const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	unsigned count = report_site_frames(view, site, SITE_PYTHON, frames);

	for (unsigned i = 0; i < count; i++) {
		const char *file = report_site_file(frames[i]);

		if (!strstr(file, "-packages/") && !strstr(file, "/lib/python") && *file != '<')
			return frames[i];
	}
	return count ? frames[0] : NULL;
}

void report_site_text(struct report_out *out, const struct ledger_view *view, uint32_t site)
{
	const struct ledger_site *line = python_owner(view, site);
	const struct ledger_site *place = report_site_owner(view, site);

	if (line) {
		put_source(out, report_site_function(line), report_site_file(line), line->offset);
		text_put(out, " (python)");
	} else if (place) {
		put_place(out, view, place);
	} else {
		text_put(out, "an unknown place");
	}
}
