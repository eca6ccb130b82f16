/*
 * admin.c - the policy files: a small INI, read once at cuInit and by `cuward limit`.
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

#ifndef CUWARD_SYSCONFDIR
#define CUWARD_SYSCONFDIR "/etc/cuward"
#endif

#define FILE_BYTES_MAX (64 << 10)
#define FILES_MAX 64
#define LINE_BYTES 512

static const char *const keys[ADMIN_COUNT] = { "process_max", "job_max", "user_max" };

/* What is being read. */
struct reading {
	struct admin *admin;
	const struct limit_device *devices;
	unsigned count;
	uint32_t uid;
	uint32_t owner;
	char path[PATH_MAX];
	unsigned line;
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

/* ---- is a section about us? ---- */

/*
 * /etc/passwd alone: the other ways to look up a user load libraries into the program. 1 is this
 * user's name, 0 it is another's, -1 not told.
 */
static int is_name_of(const char *name, uint32_t uid)
{
	char line[1024];
	size_t length = strlen(name);
	bool known = false;
	int answer = -1;
	FILE *users = fopen("/etc/passwd", "re");

	while (users && answer < 0 && fgets(line, sizeof(line), users)) {
		const char *colon = strchr(line, ':');
		const char *number = colon ? strchr(colon + 1, ':') : NULL;
		bool same = number && (uint32_t)strtoul(number + 1, NULL, 10) == uid;

		known |= same;
		if (number && (size_t)(colon - line) == length && memcmp(line, name, length) == 0)
			answer = same;
	}
	if (users)
		fclose(users);
	return answer < 0 && known ? 0 : answer;
}

static bool begin_user(struct reading *reading, const char *name)
{
	char *end;
	unsigned long number = strtoul(name, &end, 10);
	int mine;

	if (name[0] >= '0' && name[0] <= '9' && *end == '\0') {
		reading->applies = number == reading->uid;
		return true;
	}
	mine = is_name_of(name, reading->uid);
	if (mine < 0)
		return wrong(reading, "neither uid %u nor user \"%.80s\" is in /etc/passwd; write the user's "
			"number", reading->uid, name);
	reading->applies = mine;
	return true;
}

static bool begin_section(struct reading *reading, char *text)
{
	char *end = strchr(text, ']');
	char *name;

	if (!end || end[1])
		return wrong(reading, "a section looks like [default], [user NAME] or [gpu UUID]");
	*end = '\0';
	text = trimmed(text + 1);
	name = text + strcspn(text, " \t");
	if (*name)
		*name++ = '\0';
	name = trimmed(name);
	reading->named = true;
	reading->applies = true;
	reading->gpu[0] = '\0';
	if (strcmp(text, "default") == 0 && !*name)
		return true;
	if (strcmp(text, "user") == 0 && *name)
		return begin_user(reading, name);
	if (strcmp(text, "gpu") == 0 && *name && strlen(name) < sizeof(reading->gpu)) {
		strcpy(reading->gpu, name);
		return true;
	}
	return wrong(reading, "unknown section [%.40s%s%.80s]", text, *name ? " " : "", name);
}

/* ---- one line ---- */

static bool lower(struct reading *reading, enum admin_max which, const char *value)
{
	struct limit limit;
	uint64_t bytes[SLOT_DEVICES];
	char text[LINE_BYTES + 80];
	char reason[200] = "";

	if (!*value || strpbrk(value, ",="))
		return wrong(reading, "%s: \"%.80s\" is no SIZE, N%% or none", keys[which], value);
	snprintf(text, sizeof(text), "%s%s%s", reading->gpu, reading->gpu[0] ? "=" : "", value);
	if (!limit_parse(&limit, text, reason, sizeof(reason)))
		return wrong(reading, "%s: %s", keys[which], reason);
	if (reading->gpu[0] && (limit.count != 1 || limit.items[0].by != LIMIT_UUID))
		return wrong(reading, "a GPU is named by its UUID here");
	if (!reading->applies)
		return true;
	if (!limit_resolve(&limit, reading->devices, reading->count, bytes, reason, sizeof(reason)))
		return wrong(reading, "%s: %s", keys[which], reason);
	for (unsigned i = 0; i < reading->count; i++) {
		struct admin_limit *max = &reading->admin->max[which][i];

		if (bytes[i] >= max->bytes)
			continue;
		max->bytes = bytes[i];
		strncpy(max->source, reading->path, sizeof(max->source) - 1);
	}
	return true;
}

static bool read_key(struct reading *reading, char *text)
{
	char *value = strchr(text, '=');
	char *key = text;

	if (!value)
		return wrong(reading, "\"%.80s\" is neither a section nor KEY = VALUE", text);
	*value++ = '\0';
	key = trimmed(key);
	if (!reading->named)
		return wrong(reading, "%.80s stands before the first section", key);
	for (enum admin_max i = 0; i < ADMIN_COUNT; i++) {
		if (strcmp(key, keys[i]) == 0)
			return lower(reading, i, trimmed(value));
	}
	return wrong(reading, "unknown key \"%.80s\"; there are process_max, job_max and user_max", key);
}

static bool read_line(struct reading *reading, char *text)
{
	text = trimmed(text);
	if (*text == '\0' || *text == '#' || *text == ';')
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

	snprintf(reading->path, sizeof(reading->path), "%s/conf.d", folder);
	if (!open_folder(reading, &fd) || fd < 0)
		return fd < 0 && !reading->why[0];
	close(fd);
	count = scandir(reading->path, &entries, is_conf, alphasort);
	if (count < 0 || count > FILES_MAX)
		fine = wrong(reading, "%s", count < 0 ? strerror(errno) : "too many files");
	for (int i = 0; i < count; i++) {
		snprintf(reading->path, sizeof(reading->path), "%s/conf.d/%s", folder, entries[i]->d_name);
		fine = fine && read_file(reading);
		free(entries[i]);
	}
	free(entries);
	return fine;
}

bool admin_read_from(const char *folder, uint32_t owner, struct admin *admin,
	const struct limit_device *devices, unsigned count, uint32_t uid, char *why, size_t why_bytes)
{
	struct reading reading = {
		.admin = admin, .devices = devices, .count = count, .uid = uid, .owner = owner, .why = why,
		.why_bytes = why_bytes,
	};
	int fd;

	why[0] = admin->warning[0] = '\0';
	for (int i = 0; i < ADMIN_COUNT * SLOT_DEVICES; i++)
		admin->max[i / SLOT_DEVICES][i % SLOT_DEVICES] = (struct admin_limit){ .bytes = BYTES_NONE };
	snprintf(reading.path, sizeof(reading.path), "%s", folder);
	if (!open_folder(&reading, &fd))
		return false;
	if (fd < 0)
		return true;
	close(fd);
	snprintf(reading.path, sizeof(reading.path), "%s/cuward.conf", folder);
	return read_file(&reading) && read_more_files(&reading, folder);
}

bool admin_read(struct admin *admin, const struct limit_device *devices, unsigned count, uint32_t uid,
	char *why, size_t why_bytes)
{
	return admin_read_from(CUWARD_SYSCONFDIR, 0, admin, devices, count, uid, why, why_bytes);
}
