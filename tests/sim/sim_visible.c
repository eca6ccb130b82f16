/*
 * sim_visible.c - CUDA_VISIBLE_DEVICES: which devices of the box a process sees, in which order.
 */
#include "sim_visible.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void uuid_text(const char *word, const CUuuid *uuid, char text[48])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, 48,
		"%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", word,
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		b[13], b[14], b[15]);
}

static int by_number(const char *name, size_t length, int count)
{
	size_t i;
	int index = 0;

	for (i = 0; i < length; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		index = index * 10 + (name[i] - '0');
		if (index >= count)
			return -1;
	}
	return length ? index : -1;
}

/* A UUID or a prefix of just one. */
static int by_uuid(
	const char *name, size_t length, const CUuuid *uuids, uint64_t slices, int count)
{
	int i, found = -1;
	char text[48];

	for (i = 0; i < count; i++) {
		uuid_text(slices >> i & 1 ? "MIG" : "GPU", &uuids[i], text);
		if (length > strlen(text) || strncasecmp(text, name, length))
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

static bool is_uuid(const char *name, size_t length)
{
	return length >= 4 && (!strncasecmp(name, "GPU-", 4) || !strncasecmp(name, "MIG-", 4));
}

int visible_parse(
	const char *list, const CUuuid *uuids, uint64_t slices, int count, int *seen)
{
	int i, device, visible = 0;
	size_t length;

	while (*list) {
		list += strspn(list, " \t");
		length = strcspn(list, ", \t");
		device = is_uuid(list, length) ? by_uuid(list, length, uuids, slices, count)
					       : by_number(list, length, count);
		for (i = 0; i < visible && device >= 0; i++)
			if (seen[i] == device)
				device = -1;
		if (device < 0)
			return visible;
		seen[visible++] = device;
		list += length;
		list += strspn(list, " \t");
		if (*list && *list != ',')
			return visible;
		list += *list == ',';
	}
	return visible;
}
