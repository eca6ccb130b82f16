/*
 * settings.h - what the environment asks of the shim, read once at the first CUDA call.
 */
#ifndef CUWARD_SHIM_SETTINGS_H
#define CUWARD_SHIM_SETTINGS_H

#include <stdbool.h>

#include "cuward/settings.h"

enum setting {
#define X(name, environment, fallback, help) SETTING_##name,
	CUWARD_SETTINGS(X)
#undef X
	SETTING_COUNT,
};

/* Copy the environment. Later changes of the guest's environment have no effect. Idempotent. */
void settings_read(void);

/* The text of a setting, its default where the environment has none. Never NULL. */
const char *settings_get(enum setting setting);

/* Was it set? Empty counts as not set, except for limits. */
bool settings_is_set(enum setting setting);

/* Name of the environment variable. */
const char *settings_variable(enum setting setting);

/* A value too long to be kept: its setting, or -1. Such a configuration is refused. */
int settings_overlong(void);

#endif
