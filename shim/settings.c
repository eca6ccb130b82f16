/*
 * settings.c - one copy of the environment's CUWARD_* variables; table in cuward/settings.h.
 */
#include "settings.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES 4096

static struct {
	bool read;
	int overlong;
	unsigned used;
	const char *value[SETTING_COUNT];
	char text[2 * VALUE_BYTES]; /* all values together */
} settings = { .overlong = -1 };

static const struct {
	const char *variable;
	const char *fallback;
} table[SETTING_COUNT] = {
#define X(name, environment, fallback, help) [SETTING_##name] = { environment, fallback },
	CUWARD_SETTINGS(X)
#undef X
};

void settings_read(void)
{
	if (settings.read)
		return;
	settings.read = true;
	for (int i = 0; i < SETTING_COUNT; i++) {
		/* A set-uid program is not told by its caller what to write where. */
		const char *value = secure_getenv(table[i].variable);
		size_t bytes = value ? strlen(value) + 1 : 0;

		/* An empty limit is a mistake to be told, not the absence of one. */
		if (bytes == 0 || (bytes == 1 && i != SETTING_memory && i != SETTING_job_memory &&
			i != SETTING_inner_memory))
			continue;
		if (bytes > sizeof(settings.text) - settings.used) {
			settings.overlong = i;
			continue;
		}
		settings.value[i] = memcpy(settings.text + settings.used, value, bytes);
		settings.used += bytes;
	}
}

const char *settings_get(enum setting setting)
{
	return settings.value[setting] ? settings.value[setting] : table[setting].fallback;
}

bool settings_is_set(enum setting setting)
{
	return settings.value[setting] != NULL;
}

const char *settings_variable(enum setting setting)
{
	return table[setting].variable;
}

int settings_overlong(void)
{
	return settings.overlong;
}
