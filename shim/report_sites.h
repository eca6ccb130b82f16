/*
 * report_sites.h - call sites of a ledger: entries whose bytes were checked, the frames of a stack,
 * and their source lines where the reader knows them.
 */
#ifndef CUWARD_REPORT_SITES_H
#define CUWARD_REPORT_SITES_H

#include "json.h"
#include "report.h"

/* The entry of a site, NULL where there is none; it and what follows it lie within the table. */
const struct ledger_site *report_site(const struct ledger_view *view, uint32_t site);

/* Texts behind an entry. */
const char *report_site_function(const struct ledger_site *entry); /* may be empty */
const char *report_site_file(const struct ledger_site *entry);     /* of a line of Python */
const char *report_site_path(const struct ledger_view *view, const struct ledger_site *place);
const char *report_site_module(const struct ledger_view *view, const struct ledger_site *place);

/* Frames of one type, innermost first; a site that is no stack is its own only frame. */
unsigned report_site_frames(const struct ledger_view *view, uint32_t site,
	enum ledger_site_type type, const struct ledger_site *frames[SITE_FRAMES_MAX]);

/*
 * The place that a person would name: the innermost one that does not belong to the CUDA runtime or
 * to what passes calls on (libffi, ctypes). NULL where no place is known.
 */
const struct ledger_site *report_site_owner(const struct ledger_view *view, uint32_t site);

/* The base name of a path, also of one with backslashes. */
const char *report_base_name(const char *path);

/* Is this module part of the C library, of the CUDA runtime, of the Python interpreter? */
bool report_is_passage(const char *module);
bool report_is_interpreter(const char *module);

/* All frames of a place: itself or, with symbols, the functions inlined there and itself. */
unsigned report_place_frames(const struct ledger_view *view, const struct ledger_site *place,
	struct report_frame frames[REPORT_INLINED_MAX], const char **note);

/* The same for the same frames in every run of a program. */
uint64_t report_site_hash(const struct ledger_view *view, uint32_t site, uint64_t hash);
/* The same for the same lines of source, as far as they are known. */
uint64_t report_site_source(const struct ledger_view *view, uint32_t site);
uint64_t report_hash_word(uint64_t hash, const char *word);
#define REPORT_HASH_START 0xcbf29ce484222325ull

/* "python" and "native" of a leak; one place as an object. */
void report_site_json(struct json *json, const struct ledger_view *view, uint32_t site);
void report_place_json(struct json *json, const char *key, const struct ledger_view *view,
	const struct ledger_site *place);

/* "log_loss, train.c:63 (train+0x156b)", in a line for people. */
void report_site_text(struct report_out *out, const struct ledger_view *view, uint32_t site);

#endif
