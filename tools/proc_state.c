/*
 * proc_state.c - /proc/PID/stat, read from behind the name, which may hold anything, and status.
 */
#include "proc_state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXITING 4u /* PF_EXITING of the kernel */

static void read_file(pid_t pid, const char *name, char *text, size_t bytes)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	got = fd < 0 ? 0 : read(fd, text, bytes - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
}

bool proc_state(pid_t pid, struct proc_state *state)
{
	char text[1024], *at;
	unsigned flags;

	*state = (struct proc_state){ 0 };
	read_file(pid, "stat", text, sizeof(text));
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %u %*d %*d %*d %*d %u", &state->letter, &state->parent, &flags) != 3)
		return false;
	state->exiting = flags & EXITING;
	state->stopped = state->letter == 'T' || state->letter == 't';
	/* Field 22; the name was field 2. */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %" SCNu64, &state->start_ticks) == 1;
}

void proc_comm(pid_t pid, char comm[16])
{
	char text[64];

	read_file(pid, "comm", text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	snprintf(comm, 16, "%.15s", text);
}

static bool holds_kill(const char *status, const char *set)
{
	const char *at = strstr(status, set);
	uint64_t signals = 0;

	return at && sscanf(at + strlen(set), " %" SCNx64, &signals) == 1 && signals >> (SIGKILL - 1) & 1;
}

bool proc_is_dying(pid_t pid)
{
	struct proc_state state;
	char status[4096];

	if (!proc_state(pid, &state) || state.exiting)
		return true;
	read_file(pid, "status", status, sizeof(status));
	return holds_kill(status, "\nSigPnd:") || holds_kill(status, "\nShdPnd:");
}

/* The numbers behind a word of status, up to the end of its line. */
static unsigned add_numbers(const char *status, const char *word, uint32_t *numbers, unsigned count,
	unsigned most)
{
	const char *at = strstr(status, word);
	char *end;

	for (at = at ? at + strlen(word) : ""; count < most; at = end) {
		unsigned long number;

		while (*at == ' ' || *at == '\t')
			at++;
		number = strtoul(at, &end, 10);
		if (*at < '0' || *at > '9')
			break;
		numbers[count++] = (uint32_t)number;
	}
	return count;
}

unsigned proc_groups(pid_t pid, uint32_t *gids, unsigned most)
{
	static char status[64 << 10]; /* a process may have 65536 groups */
	unsigned count;

	read_file(pid, "status", status, sizeof(status));
	count = add_numbers(status, "\nGid:", gids, 0, most);
	return add_numbers(status, "\nGroups:", gids, count, most);
}
