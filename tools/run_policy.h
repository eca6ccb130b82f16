/*
 * run_policy.h - what the environment says is charged (policy.h): is it sound?
 */
#ifndef RUN_POLICY_H
#define RUN_POLICY_H

#include <stdbool.h>
#include <stddef.h>

/* False: `why` is a sentence that names the variable. */
bool run_policy_read(char *why, size_t why_bytes);

#endif
