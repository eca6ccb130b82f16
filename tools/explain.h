/*
 * explain.h - one page on each code that cuward may say: findings, verdicts of leaks and of
 * `cuward why`, scopes of refusals, exit statuses.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stddef.h>

struct explain_page {
	const char *code;
	const char *kind; /* "finding", "leak", "why", "limit", "exit status" */
	const char *text; /* what it means; then, behind a newline, what to do */
};

extern const struct explain_page explain_pages[];
extern const size_t explain_count;

#endif
