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
#include <sys/stat.h>
#include <unistd.h>

#include "admin_dir.h"

const char box_trace_is_on[] = "a trace is on already; `cuward trace status` shows it";

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
		snprintf(why, why_bytes, "%s", box_trace_is_on);
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

/* ---- root's, of all users ---- */

int box_trace_keep_common(char *why, size_t why_bytes)
{
	bool made = mkdir(CUWARD_RUNDIR, 0755) == 0;
	int fd;

	if (made)
		chmod(CUWARD_RUNDIR, 0755);
	fd = box_trace_keep(CUWARD_RUNDIR, why, why_bytes);
	if (fd >= 0 && fchmod(fd, 0644) == 0)
		return fd;
	if (made)
		rmdir(CUWARD_RUNDIR);
	return -1;
}

/* Unless somebody else keeps one. An empty folder was not the administrator's. */
void box_trace_remove_common(void)
{
	struct box_trace trace = { 0 };
	int fd = admin_dir_open_trace();

	if (fd >= 0) {
		box_trace_read(fd, &trace);
		close(fd);
	}
	if (trace.keeper)
		return;
	box_trace_remove(CUWARD_RUNDIR);
	rmdir(CUWARD_RUNDIR);
}

int box_trace_open_any(const char *folder)
{
	struct box_trace trace;
	int fd = box_trace_open(folder);

	if (fd >= 0 && box_trace_read(fd, &trace) && trace.keeper)
		return fd;
	if (fd >= 0)
		close(fd);
	return admin_dir_open_trace();
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

bool box_trace_may_ask(const struct slots_file *file)
{
	return file->own || geteuid() == 0;
}

/* Its folder is another user's, who may have put something else there meanwhile: only his slots. */
static bool is_his(int fd, const struct slots_file *file)
{
	struct slots_header header;
	struct stat info;

	return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == file->uid &&
		pread(fd, &header, sizeof(header), 0) == sizeof(header) && header.magic == SLOTS_MAGIC &&
		header.version == CUWARD_LAYOUT_VERSION && header.slot_bytes == sizeof(struct slot);
}

/* Others' processes may be in a trace of their own user: that stays as it is. */
static bool is_busy(int fd, off_t at, const struct box_trace *trace, bool on)
{
	uint32_t now = 0;

	return pread(fd, &now, sizeof(now), at) != sizeof(now) || now != (on ? 0 : trace->control);
}

static void ask_file(const struct slots_file *file, const struct box_trace *trace, bool on)
{
	int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	uint32_t control = on ? trace->control : 0;

	for (size_t i = 0; fd >= 0 && is_his(fd, file) && i < file->count; i++) {
		off_t at = (off_t)(sizeof(struct slots_header) +
			file->entries[i].number * sizeof(struct slot) + offsetof(struct slot, control));

		if ((file->own || !is_busy(fd, at, trace, on)) &&
			pwrite(fd, &control, sizeof(control), at) != sizeof(control))
			break;
	}
	if (fd >= 0)
		close(fd);
}

/* Whoever takes a slot meanwhile looks for the file itself. */
void box_trace_ask(const struct box_trace *trace, bool on)
{
	struct slots_list list;

	slots_list_open(&list);
	for (size_t i = 0; i < list.count; i++)
		if (box_trace_may_ask(&list.files[i]))
			ask_file(&list.files[i], trace, on);
	slots_list_close(&list);
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
	if (!box_trace_may_ask(process->file)) {
		*why = "it belongs to another user";
		return REACH_OTHERS;
	}
	if (!process->file->own && slot->control != trace->control)
		return failed(why, "it is in a trace of its own user");
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
