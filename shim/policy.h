/*
 * policy.h - what is charged to a limit, where a setting decides.
 */
#ifndef CUWARD_POLICY_H
#define CUWARD_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/events.h"

/* A limit of one kind of memory that no device's limit counts. */
struct kind_limit {
	uint64_t bytes; /* 0: none */
	uint64_t word;
};

/* What is charged, where a setting decides. */
struct policy {
	bool managed_ignored;
	bool imported_charged;
	bool pools_reserved;
	enum { OVERHEAD_SHOW, OVERHEAD_CHARGE, OVERHEAD_FIXED } overhead;
	uint64_t overhead_bytes; /* of each context, OVERHEAD_FIXED */
	enum { ON_LIMIT_DENY, ON_LIMIT_WAIT, ON_LIMIT_PAUSE, ON_LIMIT_KILL } on_limit;
	uint64_t wait_ns; /* ON_LIMIT_WAIT */
	int priority; /* of waiting */
	uint32_t gpu_time; /* every Nth launch and copy, 0 none */
};

/* From the settings. False: one of them is no word it knows; `why` is a sentence that names it. */
bool policy_read(struct policy *policy, struct kind_limit kinds[KIND_COUNT], char *why,
	size_t why_bytes);

/* "90s", "10m", "2h", "1.5h" or plain seconds, as nanoseconds. False: it is none of them. */
bool policy_duration(const char *text, uint64_t *ns);

#endif
