/*
 * report_host.c - who and where this is, read without libc's stdio, locale and name services.
 */
#include "report_host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static bool keep_word(char *text, size_t bytes, const char *word, size_t length)
{
	size_t kept = length < bytes ? length : bytes - 1;

	memcpy(text, word, kept);
	text[kept] = 0;
	return kept > 0;
}

bool report_host_name(char *text, size_t bytes)
{
	struct utsname names;

	text[0] = 0;
	return uname(&names) == 0 && keep_word(text, bytes, names.nodename, strlen(names.nodename));
}

bool report_boot_id(char *text, size_t bytes)
{
	char id[64];
	int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, id, sizeof(id));

	text[0] = 0;
	if (file >= 0)
		close(file);
	if (got <= 0)
		return false;
	if (id[got - 1] == '\n')
		got--;
	return keep_word(text, bytes, id, (size_t)got);
}

/* Is line "name:password:UID:..." about uid? Then *length is that of the name. */
static bool line_is_about(const char *line, uint32_t uid, size_t *length)
{
	const char *name_end = strchr(line, ':'), *at;
	const char *password_end = name_end ? strchr(name_end + 1, ':') : NULL;
	uint64_t number = 0;

	if (!password_end)
		return false;
	for (at = password_end + 1; *at >= '0' && *at <= '9' && number <= UINT32_MAX; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	*length = (size_t)(name_end - line);
	return at > password_end + 1 && *at == ':' && number == uid;
}

bool report_user_name(uint32_t uid, char *text, size_t bytes)
{
	char line[512], part[512];
	size_t used = 0, length;
	bool found = false;
	int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	text[0] = 0;
	while (file >= 0 && !found && (got = read(file, part, sizeof(part))) > 0)
		for (ssize_t i = 0; i < got && !found; i++) {
			line[used] = part[i] == '\n' ? 0 : part[i];
			if (part[i] != '\n') {
				used += used + 1 < sizeof(line);
				continue;
			}
			used = 0;
			found = line_is_about(line, uid, &length) &&
				keep_word(text, bytes, line, length);
		}
	if (file >= 0)
		close(file);
	return found;
}

uint32_t report_outer_pid(void)
{
	char status[4096];
	int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? 0 : read(file, status, sizeof(status) - 1);
	const char *at;
	uint32_t pid = 0;

	if (file >= 0)
		close(file);
	status[got > 0 ? got : 0] = 0;
	at = strstr(status, "\nNSpid:\t");
	for (at = at ? at + 8 : ""; *at >= '0' && *at <= '9'; at++)
		pid = pid * 10 + (uint32_t)(*at - '0');
	return pid;
}
