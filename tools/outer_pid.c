/*
 * outer_pid.c - a process of a container, found by what /proc says of it: its last NSpid, when it was
 * started, and its pid namespace where we may know.
 */
#include "outer_pid.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ledger_read.h"
#include "need.h"

/* A process of an inner namespace. */
struct inner {
	pid_t pid;
	uint32_t pid_there;
	uint32_t ns; /* 0 unknown */
	uint64_t start_ticks;
};

static struct {
	bool read;
	struct inner *all;
	size_t count, capacity;
} inner;

static bool read_text(pid_t pid, const char *name, char *text, size_t bytes)
{
	char path[64];
	FILE *file;
	size_t got;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	got = file ? fread(text, 1, bytes - 1, file) : 0;
	text[got] = '\0';
	if (file)
		fclose(file);
	return got > 0;
}

/* The innermost pid; 0 where it is of our own namespace. */
static uint32_t innermost(const char *status)
{
	const char *at = strstr(status, "\nNSpid:");
	uint32_t pid = 0;
	unsigned depth = 0;

	at = at ? at + 7 : "";
	while (*at == '\t' || *at == ' ') {
		pid = (uint32_t)strtoul(at, (char **)&at, 10);
		depth++;
	}
	return depth > 1 ? pid : 0;
}

static uint64_t start_ticks(const char *stat_text)
{
	const char *at = strrchr(stat_text, ')');

	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static void look_at(pid_t pid)
{
	char text[4096], path[64];
	struct inner one = { .pid = pid };
	struct stat info;

	if (!read_text(pid, "status", text, sizeof(text)) || !(one.pid_there = innermost(text)) ||
		!read_text(pid, "stat", text, sizeof(text)))
		return;
	one.start_ticks = start_ticks(text);
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	one.ns = stat(path, &info) == 0 ? (uint32_t)info.st_ino : 0;
	inner.all = need_room(inner.all, inner.count, &inner.capacity, sizeof(*inner.all));
	inner.all[inner.count++] = one;
}

static void look_at_all(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	inner.read = true;
	while (proc && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			look_at(atoi(entry->d_name));
	if (proc)
		closedir(proc);
}

pid_t outer_pid(const struct process_identity *who)
{
	if (who->pid_ns && who->pid_ns == ledger_own_pid_ns())
		return (pid_t)who->pid;
	if (!inner.read)
		look_at_all();
	for (size_t i = 0; i < inner.count; i++) {
		const struct inner *one = &inner.all[i];

		if (one->pid_there == who->pid && one->start_ticks == who->start_ticks &&
			(!one->ns || one->ns == who->pid_ns))
			return one->pid;
	}
	return 0;
}

/* Where it is of our own namespace, as nearly always, nobody else is looked at. */
static bool is_ours(uint32_t pid, uint64_t ticks)
{
	char text[4096];

	return read_text((pid_t)pid, "stat", text, sizeof(text)) && start_ticks(text) == ticks &&
		read_text((pid_t)pid, "status", text, sizeof(text)) && !innermost(text);
}

void outer_pid_each(uint32_t pid, uint64_t start_ticks_there, outer_pid_tell *tell, void *to)
{
	if (is_ours(pid, start_ticks_there))
		return;
	if (!inner.read)
		look_at_all();
	for (size_t i = 0; i < inner.count; i++) {
		const struct inner *one = &inner.all[i];
		struct process_identity who = { .pid = one->pid_there, .pid_ns = one->ns,
			.start_ticks = one->start_ticks };

		if (one->pid_there == pid && one->start_ticks == start_ticks_there)
			tell(to, &who, one->pid);
	}
}

void outer_pid_forget(void)
{
	inner.read = false;
	inner.count = 0;
}
