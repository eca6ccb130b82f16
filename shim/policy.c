/*
 * policy.c - words and sizes of the settings that say what is charged.
 */
#include "policy.h"

#include <stdio.h>
#include <string.h>

#include "limit.h"
#include "settings.h"

static bool is(enum setting setting, const char *word)
{
	return strcmp(settings_get(setting), word) == 0;
}

/* A plain number of bytes: no percentage, no list, not none. */
static bool parse_size(enum setting setting, uint64_t *bytes, const char *words, char *why,
	size_t why_bytes)
{
	struct limit limit;
	char reason[160] = "";

	if (limit_parse(&limit, settings_get(setting), reason, sizeof(reason)) && limit.count == 0 &&
	    limit.all.unit == LIMIT_BYTES) {
		*bytes = limit.all.bytes;
		return true;
	}
	snprintf(why, why_bytes, "%s: \"%.80s\" is neither %s nor a size%s%s", settings_variable(setting),
		settings_get(setting), words, reason[0] ? ": " : "", reason);
	return false;
}

static bool unknown_word(enum setting setting, const char *words, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "%s: \"%.80s\" must be %s", settings_variable(setting),
		settings_get(setting), words);
	return false;
}

bool policy_read(struct policy *policy, struct kind_limit kinds[KIND_COUNT], char *why,
	size_t why_bytes)
{
	*policy = (struct policy){ .managed_ignored = !is(SETTING_managed, "charge") };
	if (policy->managed_ignored && !is(SETTING_managed, "ignore") &&
	    !parse_size(SETTING_managed, &kinds[KIND_MANAGED].bytes, "charge, ignore", why, why_bytes))
		return false;
	if (!is(SETTING_pinned, "none") &&
	    !parse_size(SETTING_pinned, &kinds[KIND_PINNED].bytes, "none", why, why_bytes))
		return false;
	policy->imported_charged = is(SETTING_imported, "charge");
	if (!policy->imported_charged && !is(SETTING_imported, "ignore"))
		return unknown_word(SETTING_imported, "charge or ignore", why, why_bytes);
	policy->pools_reserved = is(SETTING_pools, "reserved");
	if (!policy->pools_reserved && !is(SETTING_pools, "live"))
		return unknown_word(SETTING_pools, "live or reserved", why, why_bytes);
	if (is(SETTING_overhead, "charge"))
		policy->overhead = OVERHEAD_CHARGE;
	else if (!is(SETTING_overhead, "show"))
		policy->overhead = OVERHEAD_FIXED;
	return policy->overhead != OVERHEAD_FIXED ||
		parse_size(SETTING_overhead, &policy->overhead_bytes, "show, charge", why, why_bytes);
}
