/*
 * leaks.h - the leaks of one or more JSON reports, in other forms.
 *
 *	leaks_read.c    reports, baselines, suppressions; source lines where the report has none
 *	leaks_text.c    for people, for GitHub, as suppressions
 *	leaks_json.c    JSON, and SARIF 2.1.0
 *	leaks_junit.c   JUnit XML
 */
#ifndef LEAKS_H
#define LEAKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report_suppress.h"

enum leak_state {
	LEAK_NEW,
	LEAK_GROWN, /* more than in the baseline */
	LEAK_KNOWN, /* in the baseline */
	LEAK_SUPPRESSED,
};

/* Leaks of one hash, summed up over processes. */
struct leak {
	const json_t *entry;   /* the first of them in its report */
	const json_t *process; /* whose it is */
	const char *hash;
	const char *verdict, *kind, *api;
	int64_t device; /* -1 none, or several */
	uint64_t bytes, count;
	uint64_t processes;
	uint64_t known_bytes; /* in the baseline */
	enum leak_state state;
	const char *suppressed_by; /* NULL */
};

struct leaks {
	json_t *reports; /* an array of all that was read, which the rest points into */
	json_t *told;    /* an object: the processes among them that had ended */
	struct leak *all;
	size_t count, capacity;
	uint64_t processes;
	uint64_t failing, failing_bytes, failing_count; /* new or grown */
};

/* A frame that a person would look at first. */
struct leak_place {
	const char *function; /* NULL unknown */
	const char *file;     /* NULL unknown */
	uint64_t line;        /* 0 unknown */
	const char *module;   /* NULL for Python */
	uint64_t offset;
};

/* Returns false after it said why on stderr; *status is the exit status. */
bool leaks_read(struct leaks *leaks, char *const *paths, unsigned count, int *status);
bool leaks_compare(struct leaks *leaks, const char *baseline, int *status);
void leaks_suppress(struct leaks *leaks, const struct suppressions *suppressions, bool *used);
void leaks_judge(struct leaks *leaks); /* after all of these */
void leaks_close(struct leaks *leaks);

bool leak_fails(const struct leak *leak);
const char *leak_state_word(enum leak_state state);
bool leak_place_of(const struct leak *leak, struct leak_place *place);
/* The file of a place as CI knows it: relative to the current folder where it lies below. */
const char *leak_file(const char *file);

void leaks_text(FILE *out, const struct leaks *leaks);
void leaks_github(FILE *out, const struct leaks *leaks);
void leaks_suppressions(FILE *out, const struct leaks *leaks);
bool leaks_json(FILE *out, const struct leaks *leaks);
bool leaks_sarif(FILE *out, const struct leaks *leaks);
void leaks_junit(FILE *out, const struct leaks *leaks);

/* "3 MiB in 3 allocations of device memory leaked by train", to be freed. */
char *leak_sentence(const struct leak *leak);

#endif
