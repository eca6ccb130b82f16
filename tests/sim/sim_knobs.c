/*
 * sim_knobs.c - read the settings from the environment, once.
 *
 * A value that does not parse is a mistake of whoever runs the simulator: say so and stop, rather
 * than let a test pass on a driver that is not the one it asked for.
 */
#include "sim_knobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sim_knobs knobs;

static void __attribute__((noreturn)) refuse(const char *name, const char *text)
{
	fprintf(stderr, "simulated driver: CUWARD_SIM_%s: cannot understand '%s'\n", name, text);
	abort();
}

bool knobs_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	char *end;
	double value = strtod(text, &end);
	const char *unit;
	int shift = 0;

	if (end == text || value < 0)
		return false;
	if (*end && (unit = strchr(units, *end & ~0x20))) {
		shift = 10 * (int)(unit - units + 1);
		end++;
		if (*end == 'i')
			end++;
	}
	if (*end == 'B' || *end == 'b')
		end++;
	*bytes = (uint64_t)(value * (double)((uint64_t)1 << shift));
	return *end == 0;
}

static void read_size(const char *name, const char *text, uint64_t *value)
{
	if (!knobs_size(text, value))
		refuse(name, text);
}

static void read_number(const char *name, const char *text, uint64_t *value)
{
	char *end;

	*value = strtoull(text, &end, 10);
	if (end == text || *end)
		refuse(name, text);
}

static void read_text(const char *name, const char *text, const char **value)
{
	char *copy = strdup(text);

	if (!copy)
		refuse(name, text);
	*value = copy; /* the program may change its environment later */
}

static void read_flag(const char *name, const char *text, bool *value)
{
	if (strcmp(text, "0") && strcmp(text, "1"))
		refuse(name, text);
	*value = *text == '1';
}

void knobs_read(void)
{
	const char *text;

#define READ(kind, field, name, fallback) \
	text = getenv("CUWARD_SIM_" name); \
	read_##kind(name, text &&*text ? text : fallback, &knobs.field);
	SIM_KNOBS(READ)
}

static uint64_t duration(const char *text)
{
	return !strncasecmp(text, "never", 5) ? UINT64_MAX : strtoull(text, NULL, 10);
}

uint64_t knobs_by_name(const char *list, const char *name, uint64_t fallback)
{
	size_t length = strlen(name);
	const char *row, *value;

	for (row = list; row && *row; row = strchr(row, ',') ? strchr(row, ',') + 1 : NULL) {
		value = row + strcspn(row, "=,");
		if (*value != '=')
			return duration(row);
		if ((size_t)(value - row) == length && !strncmp(row, name, length))
			return duration(value + 1);
		if (!strncmp(row, "*=", 2))
			return duration(value + 1);
	}
	return fallback;
}
