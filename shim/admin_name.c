/*
 * admin_name.c - the two files of users and groups, line by line.
 */
#include "admin_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 8192
#define GROUPS_MAX 1024

/*
 * One line, its fields ended by 0 bytes. Both files have name, password, number. Not every stack has
 * room for it: it is allocated, and NULL reads nothing.
 */
struct entry {
	char line[LINE_BYTES];
	char *fields[8];
};

static bool next_entry(FILE *file, struct entry *entry)
{
	char *rest;

	if (!file || !entry)
		return false;
	memset(entry->fields, 0, sizeof(entry->fields));
	if (!fgets(entry->line, sizeof(entry->line), file))
		return false;
	rest = entry->line;
	entry->line[strcspn(entry->line, "\n")] = '\0';
	for (unsigned i = 0; rest && i < sizeof(entry->fields) / sizeof(entry->fields[0]); i++)
		entry->fields[i] = strsep(&rest, ":");
	return true;
}

static uint32_t number_of(const struct entry *entry)
{
	return strtoul(entry->fields[2], NULL, 10);
}

static bool is_number(const char *text, uint32_t *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*number = value;
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value < UINT32_MAX;
}

static bool find_name(const char *path, const char *name, uint32_t *number)
{
	FILE *file = fopen(path, "re");
	struct entry *entry = malloc(sizeof(*entry));
	bool found = false;

	while (!found && next_entry(file, entry)) {
		found = entry->fields[2] && strcmp(entry->fields[0], name) == 0;
		if (found)
			*number = number_of(entry);
	}
	if (file)
		fclose(file);
	free(entry);
	return found;
}

bool admin_uid_of(const char *name, uint32_t *uid)
{
	return is_number(name, uid) || find_name("/etc/passwd", name, uid);
}

bool admin_gid_of(const char *name, uint32_t *gid)
{
	return is_number(name, gid) || find_name("/etc/group", name, gid);
}

/* The user's line in /etc/passwd. */
static bool find_user(uint32_t uid, struct entry *entry)
{
	FILE *file = fopen("/etc/passwd", "re");
	bool found = false;

	while (!found && next_entry(file, entry))
		found = entry->fields[3] && number_of(entry) == uid;
	if (file)
		fclose(file);
	return found;
}

bool admin_is_listed(uint32_t uid)
{
	struct entry *entry = malloc(sizeof(*entry));
	bool found = find_user(uid, entry);

	free(entry);
	return found;
}

static bool is_our_group(uint32_t gid)
{
	gid_t groups[GROUPS_MAX];
	int count = getgroups(GROUPS_MAX, groups);

	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return true;
	return getgid() == gid || getegid() == gid;
}

static bool names_member(char *members, const char *name)
{
	char *one;

	while ((one = strsep(&members, ",")))
		if (strcmp(one, name) == 0)
			return true;
	return false;
}

static bool has_member(uint32_t gid, const char *name, struct entry *group)
{
	FILE *file = fopen("/etc/group", "re");
	bool found = false;

	while (!found && next_entry(file, group))
		found = group->fields[3] && number_of(group) == gid && names_member(group->fields[3], name);
	if (file)
		fclose(file);
	return found;
}

bool admin_is_member(uint32_t uid, uint32_t gid)
{
	struct entry *user, *group;
	bool found = false;

	if (uid == getuid())
		return is_our_group(gid);
	user = malloc(sizeof(*user));
	group = malloc(sizeof(*group));
	if (find_user(uid, user))
		found = strtoul(user->fields[3], NULL, 10) == gid || has_member(gid, user->fields[0], group);
	free(user);
	free(group);
	return found;
}
