/*
 * policy.c - words and sizes of the settings that say what is charged.
 */
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
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
	static struct limit limit; /* not every stack has room; settings are read once */
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

bool policy_duration(const char *text, uint64_t *ns)
{
	static const struct { const char *unit; uint64_t seconds; } units[] = {
		{ "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 },
	};
	char *end;
	double number = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;

	if (number < 0 || number > 1e9 || strpbrk(text, "eExXpP"))
		return false;
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) == 0) {
			*ns = number * units[i].seconds * 1e9;
			return true;
		}
	}
	return false;
}

/* wait[=T] */
static bool read_wait(struct policy *policy)
{
	const char *text = settings_get(SETTING_on_limit);

	if (strncmp(text, "wait", 4) != 0)
		return false;
	policy->on_limit = ON_LIMIT_WAIT;
	policy->wait_ns = 600 * 1000000000ull;
	return text[4] == '\0' || (text[4] == '=' && policy_duration(text + 5, &policy->wait_ns));
}

static bool read_on_limit(struct policy *policy, char *why, size_t why_bytes)
{
	if (is(SETTING_on_limit, "deny") || read_wait(policy))
		return true;
	policy->on_limit = is(SETTING_on_limit, "pause") ? ON_LIMIT_PAUSE : ON_LIMIT_KILL;
	return is(SETTING_on_limit, "pause") || is(SETTING_on_limit, "kill") ||
		unknown_word(SETTING_on_limit, "deny, wait, wait=T (as in 90s, 10m, 2h), pause or kill", why,
			why_bytes);
}

static bool read_priority(struct policy *policy, char *why, size_t why_bytes)
{
	const char *text = settings_get(SETTING_priority);
	char *end;
	long number = strtol(text, &end, 10);

	policy->priority = (int)number;
	return (end != text && !*end && number >= -20 && number <= 20) ||
		unknown_word(SETTING_priority, "a number from -20 to 20", why, why_bytes);
}

static bool read_gpu_time(struct policy *policy, char *why, size_t why_bytes)
{
	const char *text = settings_get(SETTING_gpu_time);
	char *end;
	unsigned long every = strtoul(text, &end, 10);

	policy->gpu_time = every;
	return (*text >= '0' && *text <= '9' && !*end && every <= 1000000) ||
		unknown_word(SETTING_gpu_time, "a number: 0 for none, N for every Nth", why, why_bytes);
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
	if (!read_on_limit(policy, why, why_bytes) || !read_priority(policy, why, why_bytes) ||
	    !read_gpu_time(policy, why, why_bytes))
		return false;
	if (is(SETTING_overhead, "charge"))
		policy->overhead = OVERHEAD_CHARGE;
	else if (!is(SETTING_overhead, "show"))
		policy->overhead = OVERHEAD_FIXED;
	return policy->overhead != OVERHEAD_FIXED ||
		parse_size(SETTING_overhead, &policy->overhead_bytes, "show, charge", why, why_bytes);
}
