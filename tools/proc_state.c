/*
 * proc_state.c - /proc/PID/stat, read from behind the name, which may hold anything.
 */
#include "proc_state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool proc_state(pid_t pid, struct proc_state *state)
{
	char path[64], text[1024], *at;
	ssize_t got;
	int fd;

	*state = (struct proc_state){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %u", &state->letter, &state->parent) != 2)
		return false;
	state->stopped = state->letter == 'T' || state->letter == 't';
	/* Field 22; the name was field 2. */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %" SCNu64, &state->start_ticks) == 1;
}
