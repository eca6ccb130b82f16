/*
 * api.c - the public functions of cuward/cuward.h.
 */
#include "cuward/cuward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "growth.h"
#include "guest.h"
#include "quota.h"

/* Write KEY=VALUE over an entry of that key in "A=1,B=2", or behind the last. False: no room. */
static bool put(char *labels, size_t bytes, const char *key, const char *value)
{
	char copy[sizeof(((struct process_identity *)0)->labels)] = "";
	size_t used = 0;
	char *rest = NULL;
	size_t key_bytes = strlen(key);
	char text[sizeof(copy)];

	strncpy(text, labels, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
		if (strncmp(part, key, key_bytes) != 0 || part[key_bytes] != '=')
			used += snprintf(copy + used, sizeof(copy) - used, "%s,", part);
	}
	if (used + key_bytes + strlen(value) + 2 > bytes)
		return false;
	snprintf(copy + used, sizeof(copy) - used, "%s=%s", key, value);
	memcpy(labels, copy, bytes);
	return true;
}

__attribute__((visibility("default"))) int cuward_mark(const char *name)
{
	if (!name || !*name) {
		errno = EINVAL;
		return -1;
	}
	if ((!guest_in_call() && !guest_enter()) || !guest.header) {
		errno = ENODEV;
		return -1;
	}
	growth_mark(name);
	return 0;
}

__attribute__((visibility("default"))) int cuward_label(const char *key, const char *value)
{
	bool stored = false;

	if (!key || !value || !*key || strpbrk(key, "=,") || strchr(value, ',')) {
		errno = EINVAL;
		return -1;
	}
	if ((!guest_in_call() && !guest_enter()) || !guest.header) {
		errno = ENODEV;
		return -1;
	}
	lock_take(&guest.lock);
	stored = put(guest.header->who.labels, sizeof(guest.header->who.labels), key, value);
	if (stored && guest.slot)
		memcpy(guest.slot->who.labels, guest.header->who.labels, sizeof(guest.slot->who.labels));
	lock_give_back(&guest.lock);
	if (!stored)
		errno = ENOSPC;
	return stored ? 0 : -1;
}

/* Without an allocation there is nothing to tell, and nothing to start for it. */
static uint64_t held(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < guest.device_count; i++)
		bytes += quota_used(guest.devices[i].word);
	return bytes;
}

__attribute__((visibility("default"))) uint64_t cuward_live_bytes(void)
{
	return held();
}

__attribute__((visibility("default"))) uint64_t cuward_peak_bytes(void)
{
	uint64_t now = held(), peak = __atomic_load_n(&guest.window_peak, __ATOMIC_RELAXED);

	return peak > now ? peak : now;
}

__attribute__((visibility("default"))) void cuward_reset_peak(void)
{
	__atomic_store_n(&guest.window_peak, held(), __ATOMIC_RELAXED);
}
