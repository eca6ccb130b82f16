/*
 * run_policy.c - settings that have no option: refused before the command starts, in the words of the
 * shim, which would refuse them at its first CUDA call.
 */
#include "cuward/events.h"
#include "policy.h"
#include "run_policy.h"
#include "settings.h"

bool run_policy_read(char *why, size_t why_bytes)
{
	struct policy policy;
	struct kind_limit kinds[KIND_COUNT] = { 0 };

	settings_read();
	return policy_read(&policy, kinds, why, why_bytes);
}
