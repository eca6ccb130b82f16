/*
 * policy.h - what is charged to a limit, where a setting decides.
 */
#ifndef CUWARD_POLICY_H
#define CUWARD_POLICY_H

#include <stdbool.h>
#include <stddef.h>

struct policy;
struct kind_limit;

/* From the settings. False: one of them is no word it knows; `why` is a sentence that names it. */
bool policy_read(struct policy *policy, struct kind_limit *kinds, char *why, size_t why_bytes);

#endif
