/*
 * admin.c - the policy files: a small INI, read once at cuInit and by `cuward limit`.
 *
 * The shim and the command read them with this same code. A library (libinih) could serve the command
 * alone, since the shim needs libc only; then two parsers would have to agree on every comment, blank
 * and over-long line, and what `cuward limit check` passed might still let nobody start.
 */
#include "admin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin_name.h"
#include "policy.h"

#ifndef CUWARD_SYSCONFDIR
#define CUWARD_SYSCONFDIR "/etc/cuward"
#endif

#define FILE_BYTES_MAX (64 << 10)
#define FILES_MAX 64
#define LINE_BYTES 512

enum section { SECTION_DEFAULT, SECTION_USER, SECTION_GROUP, SECTION_GPU };

/* What is being read. */
struct reading {
	struct admin *admin;
	const struct limit_device *devices;
	unsigned count;
	uint32_t uid;
	const uint32_t *gids; /* of the process it is about; NULL: those of its user */
	unsigned gid_count;
	uint32_t owner;
	char *path; /* PATH_MAX bytes */
	struct limit *limit;
	unsigned line;
	enum section section;
	uint32_t id;   /* of the section's user or group */
	bool applies;  /* the section is about this user */
	bool named;    /* some section was begun */
	char gpu[64];  /* the section's GPU, empty: all */
	char *why;
	size_t why_bytes;
};

static bool __attribute__((format(printf, 2, 3))) wrong(struct reading *reading, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (reading->line)
		snprintf(reading->why, reading->why_bytes, "%s:%u: %s", reading->path, reading->line, text);
	else
		snprintf(reading->why, reading->why_bytes, "%s: %s", reading->path, text);
	return false;
}

static char *trimmed(char *text)
{
	char *end;

	text += strspn(text, " \t\r");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r", end[-1]))
		*--end = '\0';
	return text;
}

/* A comment is a line that begins with ; or #, or what follows one of them after a blank. */
static void cut_comment(char *text)
{
	for (char *at = text; *at; at++)
		if ((*at == ';' || *at == '#') && (at == text || strchr(" \t", at[-1]))) {
			*at = '\0';
			return;
		}
}

/* ---- is a section about us? ---- */

static bool begin_user(struct reading *reading, const char *name)
{
	reading->section = SECTION_USER;
	if (admin_uid_of(name, &reading->id)) {
		reading->applies = reading->id == reading->uid;
		return true;
	}
	/* A name that is nobody's here; and ours is another one, if we have one here at all. */
	reading->id = UINT32_MAX;
	reading->applies = false;
	if (!admin_is_listed(reading->uid))
		return wrong(reading, "neither uid %u nor user \"%.80s\" is in /etc/passwd; write the user's "
			"number", reading->uid, name);
	if (!reading->admin->nobody[0])
		snprintf(reading->admin->nobody, sizeof(reading->admin->nobody),
			"%s:%u: no user \"%.80s\" is in /etc/passwd", reading->path, reading->line, name);
	return true;
}

static bool is_member(const struct reading *reading, uint32_t gid)
{
	for (unsigned i = 0; i < reading->gid_count; i++)
		if (reading->gids[i] == gid)
			return true;
	return !reading->gids && admin_is_member(reading->uid, gid);
}

static bool begin_group(struct reading *reading, const char *name)
{
	reading->section = SECTION_GROUP;
	if (!admin_gid_of(name, &reading->id))
		return wrong(reading, "group \"%.80s\" is not in /etc/group; write its number", name);
	reading->applies = is_member(reading, reading->id);
	return true;
}

static bool begin_section(struct reading *reading, char *text)
{
	char *end = strchr(text, ']');
	char *name;

	if (!end || end[1])
		return wrong(reading, "a section looks like [default], [user NAME], [group NAME] or "
			"[gpu UUID]");
	*end = '\0';
	text = trimmed(text + 1);
	name = text + strcspn(text, " \t");
	if (*name)
		*name++ = '\0';
	name = trimmed(name);
	reading->named = true;
	reading->section = SECTION_DEFAULT;
	reading->applies = true;
	reading->gpu[0] = '\0';
	if (strcmp(text, "default") == 0 && !*name)
		return true;
	if (strcmp(text, "user") == 0 && *name)
		return begin_user(reading, name);
	if (strcmp(text, "group") == 0 && *name)
		return begin_group(reading, name);
	if (strcmp(text, "gpu") == 0 && *name && strlen(name) < sizeof(reading->gpu)) {
		reading->section = SECTION_GPU;
		strcpy(reading->gpu, name);
		return true;
	}
	return wrong(reading, "unknown section [%.40s%s%.80s]", text, *name ? " " : "", name);
}

/* ---- amounts ---- */

/* What the value says of each device, BYTES_NONE of those it does not concern. */
static bool resolve(struct reading *reading, const char *key, const char *value,
	uint64_t bytes[SLOT_DEVICES])
{
	struct limit *limit = reading->limit;
	char text[LINE_BYTES + 80];
	char reason[200] = "";

	if (!*value || strpbrk(value, ",="))
		return wrong(reading, "%s: \"%.80s\" is no SIZE, N%% or none", key, value);
	snprintf(text, sizeof(text), "%s%s%s", reading->gpu, reading->gpu[0] ? "=" : "", value);
	if (!limit_parse(limit, text, reason, sizeof(reason)))
		return wrong(reading, "%s: %s", key, reason);
	if (reading->gpu[0] && (limit->count != 1 || limit->items[0].by != LIMIT_UUID))
		return wrong(reading, "a GPU is named by its UUID here");
	return limit_resolve(limit, reading->devices, reading->count, bytes, reason, sizeof(reason)) ||
		wrong(reading, "%s: %s", key, reason);
}

static void lower(const struct reading *reading, struct admin_limit *max, uint64_t bytes)
{
	if (bytes >= max->bytes)
		return;
	max->bytes = bytes;
	memset(max->source, 0, sizeof(max->source));
	strncpy(max->source, reading->path, sizeof(max->source) - 1);
}

static bool read_max(struct reading *reading, const char *key, const char *value, enum admin_max which)
{
	uint64_t bytes[SLOT_DEVICES];

	if (!resolve(reading, key, value, bytes))
		return false;
	for (unsigned i = 0; i < reading->count && reading->applies; i++)
		lower(reading, &reading->admin->max[which][i], bytes[i]);
	return true;
}

static bool read_process_max(struct reading *reading, const char *key, const char *value)
{
	return read_max(reading, key, value, ADMIN_PROCESS);
}

static bool read_job_max(struct reading *reading, const char *key, const char *value)
{
	return read_max(reading, key, value, ADMIN_JOB);
}

static bool read_user_max(struct reading *reading, const char *key, const char *value)
{
	return read_max(reading, key, value, ADMIN_USER);
}

static bool read_group_max(struct reading *reading, const char *key, const char *value)
{
	struct admin *admin = reading->admin;
	uint64_t bytes[SLOT_DEVICES];
	unsigned at = 0;

	if (reading->section != SECTION_GROUP)
		return wrong(reading, "%s stands in a section [group NAME]", key);
	if (!resolve(reading, key, value, bytes))
		return false;
	if (!reading->applies)
		return true;
	while (at < admin->group_count && admin->groups[at].gid != reading->id)
		at++;
	if (at == ADMIN_GROUPS)
		return wrong(reading, "a user with more than %d groups that have a group_max", ADMIN_GROUPS);
	if (at == admin->group_count) {
		admin->groups[at].gid = reading->id;
		for (unsigned i = 0; i < SLOT_DEVICES; i++)
			admin->groups[at].max[i] = (struct admin_limit){ .bytes = BYTES_NONE };
		admin->group_count++;
	}
	for (unsigned i = 0; i < reading->count; i++)
		lower(reading, &admin->groups[at].max[i], bytes[i]);
	return true;
}

/* Nobody's: it lowers what all users together may hold. */
static bool reserve_for_nobody(struct reading *reading, const uint64_t bytes[SLOT_DEVICES])
{
	for (unsigned i = 0; i < reading->count; i++) {
		uint64_t total = reading->devices[i].total_bytes;

		if (bytes[i] != BYTES_NONE)
			lower(reading, &reading->admin->max[ADMIN_GPU][i],
				total > bytes[i] ? total - bytes[i] : 0);
	}
	return true;
}

static bool read_reserve(struct reading *reading, const char *key, const char *value)
{
	struct admin *admin = reading->admin;
	bool of_group = reading->section == SECTION_GROUP;
	uint64_t bytes[SLOT_DEVICES];
	unsigned at = 0;

	if (!resolve(reading, key, value, bytes))
		return false;
	if (reading->section != SECTION_USER && !of_group)
		return reserve_for_nobody(reading, bytes);
	if (reading->id == UINT32_MAX)
		return wrong(reading, "a reserve for somebody who is not in /etc/passwd; write his number");
	while (at < admin->reserve_count && (admin->reserves[at].id != reading->id ||
		admin->reserves[at].of_group != of_group))
		at++;
	if (at == ADMIN_RESERVES)
		return wrong(reading, "more than %d users and groups with a reserve", ADMIN_RESERVES);
	if (at == admin->reserve_count) {
		admin->reserves[at] = (struct admin_reserve){ .of_group = of_group, .id = reading->id };
		strncpy(admin->reserves[at].source, reading->path, sizeof(admin->reserves[at].source) - 1);
		admin->reserve_count++;
	}
	for (unsigned i = 0; i < reading->count; i++)
		if (bytes[i] != BYTES_NONE && bytes[i] > admin->reserves[at].bytes[i])
			admin->reserves[at].bytes[i] = bytes[i];
	return true;
}

/* ---- what is no amount ---- */

static bool is_of_users(struct reading *reading, const char *key)
{
	return reading->section != SECTION_GPU ||
		wrong(reading, "%s is of users: it stands in [default], [user NAME] or [group NAME]", key);
}

static bool read_priority_max(struct reading *reading, const char *key, const char *value)
{
	char *end;
	long number = strtol(value, &end, 10);

	if (!is_of_users(reading, key))
		return false;
	if (end == value || *end || number < -PRIORITY_MAX || number > PRIORITY_MAX)
		return wrong(reading, "%s: \"%.80s\" is no number from -%d to %d", key, value, PRIORITY_MAX,
			PRIORITY_MAX);
	if (reading->applies && number < reading->admin->priority_max)
		reading->admin->priority_max = (int)number;
	return true;
}

static bool read_warn(struct reading *reading, const char *key, const char *value)
{
	unsigned *warn = reading->admin->warn;
	uint64_t concerned[SLOT_DEVICES];
	char *end;
	unsigned long number = strtoul(value, &end, 10);

	if (value[0] < '0' || value[0] > '9' || strcmp(end, "%") != 0 || number < 1 || number > 100)
		return wrong(reading, "%s: \"%.80s\" is not between 1%% and 100%%", key, value);
	/* As a limit would: of all, or of those that the section names. */
	if (!resolve(reading, key, "1", concerned))
		return false;
	for (unsigned i = 0; i < reading->count && reading->applies; i++)
		if (concerned[i] != BYTES_NONE && (!warn[i] || number < warn[i]))
			warn[i] = (unsigned)number;
	return true;
}

static bool read_idle(struct reading *reading, const char *key, const char *value)
{
	uint64_t *idle_ns = reading->admin->idle_ns;
	uint64_t ns, concerned[SLOT_DEVICES];

	if (!policy_duration(value, &ns) || !ns)
		return wrong(reading, "%s: \"%.80s\" is no time, as in 90s, 10m, 2h", key, value);
	if (!resolve(reading, key, "1", concerned))
		return false;
	for (unsigned i = 0; i < reading->count && reading->applies; i++)
		if (concerned[i] != BYTES_NONE && (!idle_ns[i] || ns < idle_ns[i]))
			idle_ns[i] = ns;
	return true;
}

/* ---- one line ---- */

static const struct {
	const char *name;
	bool (*read)(struct reading *reading, const char *key, const char *value);
} keys[] = {
	{ "process_max", read_process_max }, { "job_max", read_job_max }, { "user_max", read_user_max },
	{ "group_max", read_group_max }, { "reserve", read_reserve }, { "priority_max", read_priority_max },
	{ "warn", read_warn }, { "idle", read_idle },
};

static bool read_key(struct reading *reading, char *text)
{
	char *value = text + strcspn(text, "=:");
	char *key = text;

	if (!*value)
		return wrong(reading, "\"%.80s\" is neither a section nor KEY = VALUE", text);
	*value++ = '\0';
	key = trimmed(key);
	if (!reading->named)
		return wrong(reading, "%.80s stands before the first section", key);
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i].name) == 0)
			return keys[i].read(reading, key, trimmed(value));
	return wrong(reading, "unknown key \"%.80s\"; there are process_max, job_max, user_max, group_max, "
		"reserve, priority_max, warn and idle", key);
}

static bool read_line(struct reading *reading, char *text)
{
	/* What some editors put in front of UTF-8. */
	if (reading->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	cut_comment(text);
	text = trimmed(text);
	if (*text == '\0')
		return true;
	return *text == '[' ? begin_section(reading, text) : read_key(reading, text);
}

/* ---- files ---- */

static bool is_safe(struct reading *reading, int fd)
{
	struct stat status;

	if (fstat(fd, &status) == 0 && status.st_uid == reading->owner && !(status.st_mode & 022))
		return true;
	snprintf(reading->admin->warning, sizeof(reading->admin->warning), "%s is ignored: it must belong "
		"to root and be writable by nobody else", reading->path);
	return false;
}

static bool read_lines(struct reading *reading, FILE *file)
{
	char line[LINE_BYTES];
	long bytes = 0;

	while (fgets(line, sizeof(line), file)) {
		size_t length = strlen(line);

		reading->line++;
		bytes += length;
		if (bytes > FILE_BYTES_MAX || (length == sizeof(line) - 1 && line[length - 1] != '\n'))
			return wrong(reading, "the file or one of its lines is too long");
		line[strcspn(line, "\n")] = '\0';
		if (!read_line(reading, line))
			return false;
	}
	return !ferror(file) || wrong(reading, "%s", strerror(errno));
}

static bool read_file(struct reading *reading)
{
	int fd = open(reading->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FILE *file;
	bool fine;

	reading->line = 0;
	reading->named = false;
	if (fd < 0)
		return errno == ENOENT || wrong(reading, "%s", strerror(errno));
	if (!is_safe(reading, fd)) {
		close(fd);
		return true;
	}
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return wrong(reading, "%s", strerror(errno));
	}
	fine = read_lines(reading, file);
	fclose(file);
	return fine;
}

static int is_conf(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && dot && strcmp(dot, ".conf") == 0;
}

/* True: there is nothing at this path, or it is ignored, or `open` now is its descriptor. */
static bool open_folder(struct reading *reading, int *folder)
{
	struct stat status;

	/* A sandbox may forbid to open anything: that alone is no policy that cannot be read. */
	*folder = stat(reading->path, &status) == 0 ?
		open(reading->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	reading->line = 0;
	if (*folder < 0)
		return errno == ENOENT || wrong(reading, "%s", strerror(errno));
	if (!is_safe(reading, *folder)) {
		close(*folder);
		*folder = -1;
	}
	return true;
}

static bool read_more_files(struct reading *reading, const char *folder)
{
	struct dirent **entries = NULL;
	bool fine = true;
	int count, fd;

	snprintf(reading->path, PATH_MAX, "%s/conf.d", folder);
	if (!open_folder(reading, &fd) || fd < 0)
		return fd < 0 && !reading->why[0];
	close(fd);
	count = scandir(reading->path, &entries, is_conf, alphasort);
	if (count < 0 || count > FILES_MAX)
		fine = wrong(reading, "%s", count < 0 ? strerror(errno) : "too many files");
	for (int i = 0; i < count; i++) {
		snprintf(reading->path, PATH_MAX, "%s/conf.d/%s", folder, entries[i]->d_name);
		fine = fine && read_file(reading);
		free(entries[i]);
	}
	free(entries);
	return fine;
}

static void clear(struct reading *reading)
{
	struct admin *admin = reading->admin;

	memset(admin, 0, sizeof(*admin));
	admin->priority_max = PRIORITY_MAX;
	for (unsigned i = 0; i < reading->count; i++)
		memcpy(admin->uuids[i], reading->devices[i].uuid, 16);
	for (int i = 0; i < ADMIN_COUNT * SLOT_DEVICES; i++)
		admin->max[i / SLOT_DEVICES][i % SLOT_DEVICES] = (struct admin_limit){ .bytes = BYTES_NONE };
}

static bool read_files(const char *folder, struct reading *reading)
{
	int fd;

	clear(reading);
	snprintf(reading->path, PATH_MAX, "%s", folder);
	if (!open_folder(reading, &fd))
		return false;
	if (fd < 0)
		return true;
	close(fd);
	snprintf(reading->path, PATH_MAX, "%s/cuward.conf", folder);
	if (read_file(reading) && read_more_files(reading, folder))
		return true;
	clear(reading); /* half of it is worse than nothing */
	return false;
}

static bool read_folder(const char *folder, struct reading *reading)
{
	/* Not every stack has room for it. */
	struct {
		char path[PATH_MAX];
		struct limit limit;
	} *room = malloc(sizeof(*room));
	bool fine = false;

	reading->why[0] = '\0';
	if (room) {
		reading->path = room->path;
		reading->limit = &room->limit;
		fine = read_files(folder, reading);
	} else {
		clear(reading);
		snprintf(reading->why, reading->why_bytes, "%s: %s", folder, strerror(ENOMEM));
	}
	free(room);
	return fine;
}

bool admin_read_from(const char *folder, uint32_t owner, struct admin *admin,
	const struct limit_device *devices, unsigned count, uint32_t uid, char *why, size_t why_bytes)
{
	struct reading reading = {
		.admin = admin, .devices = devices, .count = count, .uid = uid, .owner = owner, .why = why,
		.why_bytes = why_bytes,
	};

	return read_folder(folder, &reading);
}

bool admin_read_as(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	const uint32_t *gids, unsigned gid_count, char *why, size_t why_bytes)
{
	struct reading reading = {
		.admin = admin, .devices = devices, .count = count, .uid = uid,
		.gids = gid_count ? gids : NULL, .gid_count = gid_count, .why = why, .why_bytes = why_bytes,
	};

	return read_folder(CUWARD_SYSCONFDIR, &reading);
}

bool admin_read(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	char *why, size_t why_bytes)
{
	return admin_read_as(admin, devices, count, uid, NULL, 0, why, why_bytes);
}
