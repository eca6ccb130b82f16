/*
 * report_suppress.h - leaks that are known and do not count: rules in the syntax of LeakSanitizer.
 *
 *	# comment
 *	leak:PATTERN      a function, a source file or a module of any frame
 *	lib:PATTERN       a module of any frame
 *	api:PATTERN       the driver's call
 *	size<SIZE         all bytes of the leak together; also <=
 *
 * A pattern is found anywhere in the text; * stands for anything, a leading ^ for the beginning, a
 * trailing $ for the end. The first rule that matches is the one that counts.
 */
#ifndef CUWARD_REPORT_SUPPRESS_H
#define CUWARD_REPORT_SUPPRESS_H

#include "report.h"

struct leak_group;

enum { SUPPRESS_RULES_MAX = 1024, SUPPRESS_TEXT_MAX = 128 << 10 };

enum suppress_type { SUPPRESS_LEAK, SUPPRESS_LIB, SUPPRESS_API, SUPPRESS_SIZE };

struct suppress_rule {
	const char *text; /* as it is written */
	const char *pattern;
	uint64_t bytes; /* of SUPPRESS_SIZE: less than this */
	enum suppress_type type;
};

struct suppressions {
	unsigned count;
	struct suppress_rule rules[SUPPRESS_RULES_MAX];
	char text[SUPPRESS_TEXT_MAX];
};

/* Read a file of rules. False: why is one sentence. No malloc, no stdio streams. */
bool suppress_read(struct suppressions *suppressions, const char *path, char *why, size_t why_bytes);

/* The rule that suppresses this leak, as it is written; NULL none. */
const char *suppress_match(const struct ledger_view *view, const struct leak_group *group);

/*
 * The first rule that matches; for what is no group of a ledger. The probe is asked about rules that
 * speak of frames.
 */
typedef bool suppress_probe(const struct suppress_rule *rule, const void *subject);
const struct suppress_rule *suppress_find(const struct suppressions *suppressions, uint64_t bytes,
	const char *api, suppress_probe *probe, const void *subject);
bool suppress_text(const struct suppress_rule *rule, const char *text); /* text may be NULL */

/* Does the pattern match the text? */
bool suppress_pattern(const char *pattern, const char *text);

#endif
