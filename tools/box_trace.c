/*
 * box_trace.c - the file of a machine's trace, and the requests in slots.
 */
#include "box_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the file ---- */

static void path_of(char path[PATH_MAX + 16], const char *folder)
{
	snprintf(path, PATH_MAX + 16, "%s/" TRACE_FILE, folder);
}

int box_trace_open(const char *folder)
{
	char path[PATH_MAX + 16];

	path_of(path, folder);
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

/*
 * A lock of the process, not of the open file: so the kernel tells its pid. It goes with the
 * process, and with any close() of this file in it.
 */
int box_trace_keep(const char *folder, char *why, size_t why_bytes)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX + 16];
	int fd;

	path_of(path, folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		return -1;
	}
	if (fcntl(fd, F_SETLK, &whole) != 0) {
		snprintf(why, why_bytes, "a trace is on already; `cuward trace status` shows it");
	} else if (ftruncate(fd, 0) == 0 && pwrite(fd, "\n", 1, 0) == 1) {
		return fd; /* there is room for the rest, too */
	} else {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		unlink(path);
	}
	close(fd);
	return -1;
}

void box_trace_remove(const char *folder)
{
	char path[PATH_MAX + 16];

	path_of(path, folder);
	unlink(path);
}

bool box_trace_write(int fd, const struct box_trace *trace)
{
	char text[3 * PATH_MAX];
	int length = snprintf(text, sizeof(text), "control=%u\nhome=%s\nname=%s\ndir=%s\nown=%d\n"
		"start=%" PRIu64 "\nended=%d\ncomplete=%d\nlost=%" PRIu64 "\nbytes=%" PRIu64
		"\nwarning=%s\n", trace->control, trace->home, trace->name, trace->dir,
		trace->own_daemon, trace->start_ns, trace->ended, trace->complete, trace->lost,
		trace->bytes, trace->warning);

	return pwrite(fd, text, (size_t)length, 0) == length && ftruncate(fd, length) == 0;
}

/* "name=" at the beginning of a line; "" without one. */
static void line_of(const char *text, const char *name, char *value, size_t bytes)
{
	size_t length = strlen(name);

	value[0] = '\0';
	for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL) {
		if (strncmp(text, name, length) != 0 || text[length] != '=')
			continue;
		snprintf(value, bytes, "%.*s", (int)strcspn(text + length + 1, "\n"),
			text + length + 1);
		return;
	}
}

static uint64_t number_of(const char *text, const char *name)
{
	char value[32];

	line_of(text, name, value, sizeof(value));
	return strtoull(value, NULL, 10);
}

bool box_trace_read(int fd, struct box_trace *trace)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char text[3 * PATH_MAX];
	ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

	*trace = (struct box_trace){ .control = 0 };
	/* A lock that is no process's has no pid, and -1 is everybody to kill(). */
	if (fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && whole.l_pid > 0)
		trace->keeper = whole.l_pid;
	if (got <= 0)
		return false;
	text[got] = '\0';
	trace->control = (uint32_t)number_of(text, "control");
	line_of(text, "home", trace->home, sizeof(trace->home));
	line_of(text, "name", trace->name, sizeof(trace->name));
	line_of(text, "dir", trace->dir, sizeof(trace->dir));
	line_of(text, "warning", trace->warning, sizeof(trace->warning));
	trace->own_daemon = number_of(text, "own");
	trace->start_ns = number_of(text, "start");
	trace->ended = number_of(text, "ended");
	trace->complete = number_of(text, "complete");
	trace->lost = number_of(text, "lost");
	trace->bytes = number_of(text, "bytes");
	return trace->name[0];
}

/* ---- the slots ---- */

static unsigned ask_file(const struct slots_file *file, uint32_t control)
{
	int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	unsigned asked = 0;

	for (size_t i = 0; fd >= 0 && i < file->count; i++) {
		off_t at = (off_t)(sizeof(struct slots_header) +
			file->entries[i].number * sizeof(struct slot) + offsetof(struct slot, control));

		asked += pwrite(fd, &control, sizeof(control), at) == sizeof(control) &&
			file->entries[i].owner != OWNER_DEAD;
	}
	if (fd >= 0)
		close(fd);
	return asked;
}

/* Whoever takes a slot meanwhile looks for the file itself. */
unsigned box_trace_ask(uint32_t control)
{
	struct slots_list list;
	unsigned asked = 0;

	slots_list_open(&list);
	for (size_t i = 0; i < list.count; i++)
		if (list.files[i].own)
			asked += ask_file(&list.files[i], control);
	slots_list_close(&list);
	return asked;
}

/* ---- what became of it ---- */

/* Its state as /proc tells it; 0 unknown. */
static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = pid > 0 ? fopen(path, "re") : NULL;
	if (!file)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

static enum reach failed(const char **why, const char *reason)
{
	*why = reason;
	return REACH_FAILED;
}

enum reach box_trace_reach(const struct box_trace *trace, const struct box_process *process,
	const char **why)
{
	const struct slot *slot = &process->entry->slot;
	bool followed = slot->control_done == trace->control;
	char state;

	*why = "";
	if (!process->file->own) {
		*why = "it belongs to another user";
		return REACH_OTHERS;
	}
	if (followed && slot->control_answer == ANSWER_RECORDED)
		return REACH_RECORDED;
	if (followed && slot->control_answer == ANSWER_NO_PROVIDER)
		return failed(why, "libcuward-lttng.so or liblttng-ust cannot be loaded into it");
	if (followed && slot->control_answer == ANSWER_NO_SESSION)
		return failed(why, "it found no session daemon that records its events");
	if (followed && slot->control_answer == ANSWER_ELSEWHERE)
		return failed(why, "it is traced already, into a session of its own");
	state = state_of(process->pid);
	if (state == 'T' || state == 't') {
		*why = "it is stopped, and joins at its next CUDA call";
		return REACH_STOPPED;
	}
	*why = slot->control_answer == ANSWER_WAITS ? "it waits for the session daemon" :
		"it has made no CUDA call since, and joins at its next one";
	return REACH_LATER;
}

const char *box_trace_word(enum reach reach)
{
	static const char *const words[] = { "recorded", "later", "stopped", "failed", "other-user" };

	return words[reach];
}
