/*
 * report_suppress.c - leaks that are known and do not count.
 */
#include "report_suppress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "limit.h"
#include "report_leaks.h"
#include "report_sites.h"

/* ---- patterns ---- */

/* Where this part of a pattern stands in the text, NULL nowhere. */
static const char *find_part(const char *text, const char *part, size_t length)
{
	for (; strnlen(text, length) == length; text++)
		if (memcmp(text, part, length) == 0)
			return text;
	return NULL;
}

bool suppress_pattern(const char *pattern, const char *text)
{
	bool at_start = *pattern == '^';
	const char *part = pattern + at_start, *end = part + strlen(part);
	bool at_end = end > part && end[-1] == '$';

	end -= at_end;
	for (;;) {
		const char *star = memchr(part, '*', (size_t)(end - part));
		size_t length = (size_t)((star ? star : end) - part);
		const char *found = find_part(text, part, length);

		if (!star && at_end && found)
			found = strlen(text) >= length ? text + strlen(text) - length : NULL;
		if (!found || memcmp(found, part, length) != 0 || (at_start && found != text))
			return false;
		if (!star)
			return true;
		text = found + length;
		part = star + 1;
		at_start = false;
	}
}

/* ---- files ---- */

static bool read_all(struct suppressions *suppressions, const char *path, char *why, size_t why_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got = -1;

	while (fd >= 0 && used < SUPPRESS_TEXT_MAX &&
		(got = read(fd, suppressions->text + used, SUPPRESS_TEXT_MAX - used)) > 0)
		used += (size_t)got;
	if (got < 0)
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
	else if (used == SUPPRESS_TEXT_MAX)
		snprintf(why, why_bytes, "%s: larger than %d bytes", path, SUPPRESS_TEXT_MAX - 1);
	if (fd >= 0)
		close(fd);
	if (got < 0 || used == SUPPRESS_TEXT_MAX)
		return false;
	suppressions->text[used] = 0;
	return true;
}

static bool read_size(struct suppress_rule *rule, const char *text)
{
	struct limit limit;
	char why[128];
	bool equal = *text == '=';

	text += equal;
	if (!limit_parse(&limit, text, why, sizeof(why)) || limit.all.unit != LIMIT_BYTES)
		return false;
	rule->type = SUPPRESS_SIZE;
	rule->bytes = limit.all.bytes + equal;
	return true;
}

static bool read_rule(struct suppress_rule *rule, char *line)
{
	static const struct {
		const char *word;
		enum suppress_type type;
	} types[] = { { "leak:", SUPPRESS_LEAK }, { "lib:", SUPPRESS_LIB }, { "api:", SUPPRESS_API } };

	*rule = (struct suppress_rule){ .text = line };
	if (strncmp(line, "size<", 5) == 0)
		return read_size(rule, line + 5);
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t length = strlen(types[i].word);

		if (strncmp(line, types[i].word, length) != 0)
			continue;
		rule->type = types[i].type;
		rule->pattern = line + length;
		return *rule->pattern != 0;
	}
	return false;
}

bool suppress_read(struct suppressions *suppressions, const char *path, char *why, size_t why_bytes)
{
	unsigned number = 0;
	char *next = suppressions->text, *line;

	suppressions->count = 0;
	if (!read_all(suppressions, path, why, why_bytes))
		return false;
	while ((line = strsep(&next, "\n"))) {
		size_t length;

		number++;
		line += strspn(line, " \t\r");
		for (length = strlen(line); length > 0 && strchr(" \t\r", line[length - 1]); length--)
			line[length - 1] = 0;
		if (*line == 0 || *line == '#')
			continue;
		if (suppressions->count == SUPPRESS_RULES_MAX ||
			!read_rule(&suppressions->rules[suppressions->count], line)) {
			snprintf(why, why_bytes, "%s:%u: '%.80s' is none of leak:PATTERN, lib:PATTERN, "
				"api:PATTERN, size<SIZE%s", path, number, line,
				suppressions->count == SUPPRESS_RULES_MAX ? " (too many rules)" : "");
			return false;
		}
		suppressions->count++;
	}
	return true;
}

/* ---- leaks ---- */

bool suppress_text(const struct suppress_rule *rule, const char *text)
{
	return text && *text && suppress_pattern(rule->pattern, text);
}

struct suppress_group {
	const struct ledger_view *view;
	const struct leak_group *group;
};

static bool place_matches(const struct suppress_rule *rule, const struct ledger_view *view,
	const struct ledger_site *place)
{
	struct report_frame frames[REPORT_INLINED_MAX];
	const char *note;
	unsigned count;

	if (suppress_text(rule, report_site_module(view, place)) ||
		suppress_text(rule, report_site_path(view, place)))
		return true;
	if (rule->type == SUPPRESS_LIB)
		return false;
	count = report_place_frames(view, place, frames, &note);
	for (unsigned i = 0; i < count; i++)
		if (suppress_text(rule, frames[i].function) || suppress_text(rule, frames[i].file))
			return true;
	return suppress_text(rule, report_site_function(place));
}

static bool group_matches(const struct suppress_rule *rule, const void *subject)
{
	const struct suppress_group *in = subject;
	const struct ledger_site *frames[SITE_FRAMES_MAX];
	unsigned count = report_site_frames(in->view, in->group->site, SITE_PLACE, frames);

	for (unsigned i = 0; i < count; i++)
		if (place_matches(rule, in->view, frames[i]))
			return true;
	count = rule->type == SUPPRESS_LEAK ?
		report_site_frames(in->view, in->group->site, SITE_PYTHON, frames) : 0;
	for (unsigned i = 0; i < count; i++)
		if (suppress_text(rule, report_site_function(frames[i])) ||
			suppress_text(rule, report_site_file(frames[i])))
			return true;
	return false;
}

const struct suppress_rule *suppress_find(const struct suppressions *suppressions, uint64_t bytes,
	const char *api, suppress_probe *probe, const void *subject)
{
	for (unsigned i = 0; suppressions && i < suppressions->count; i++) {
		const struct suppress_rule *rule = &suppressions->rules[i];
		bool match = false;

		if (rule->type == SUPPRESS_SIZE)
			match = bytes < rule->bytes;
		else if (rule->type == SUPPRESS_API)
			match = suppress_text(rule, api);
		else
			match = probe(rule, subject);
		if (match)
			return rule;
	}
	return NULL;
}

const char *suppress_match(const struct ledger_view *view, const struct leak_group *group)
{
	const struct suppress_group subject = { view, group };
	const struct suppress_rule *rule = suppress_find(view->suppressions, group->bytes,
		report_call_name(view, group->api), group_matches, &subject);

	return rule ? rule->text : NULL;
}
