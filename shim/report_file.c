/*
 * report_file.c - where a JSON report goes: names with %p, and files that are whole or not there.
 */
#include "report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report_host.h"
#include "text.h"

/* ---- text into a path ---- */

/* A struct report_out over a path: its buffer is larger than PATH_MAX, so nothing is flushed. */
static bool refuse_flush(struct report_out *out, const char *bytes, size_t count)
{
	(void)out;
	(void)bytes;
	(void)count;
	return false;
}

_Static_assert(sizeof(((struct report_out *)0)->buffer) > PATH_MAX, "a path fits the buffer");

static void path_begin(struct report_out *path)
{
	path->flush = refuse_flush;
	path->used = 0;
	path->failed = false;
}

static int path_end(const struct report_out *path, char name[PATH_MAX])
{
	if (path->failed || path->used >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path->buffer, path->used);
	name[path->used] = 0;
	return 0;
}

/* YYYYMMDDTHHMMSSZ: the same as RFC 3339 without what separates, and without milliseconds. */
static void put_compact_time(struct report_out *path, uint64_t realtime_ns)
{
	static struct report_out full; /* as path is */

	path_begin(&full);
	text_time(&full, realtime_ns);
	for (size_t i = 0; i < full.used && full.buffer[i] != '.'; i++)
		if (full.buffer[i] != '-' && full.buffer[i] != ':')
			text_char(path, full.buffer[i]);
	text_char(path, 'Z');
}

/* A word in a file name: no slash, whatever the host or user is called. */
static void put_word(struct report_out *path, const char *word)
{
	for (; *word; word++)
		text_char(path, *word == '/' ? '_' : *word);
}

static bool put_replaced(struct report_out *path, char what, const struct report_writer *writer)
{
	char word[128];

	if (what == '%')
		text_char(path, '%');
	else if (what == 'p')
		text_number(path, writer->pid);
	else if (what == 't')
		put_compact_time(path, writer->start_ns);
	else if (what == 'h')
		put_word(path, report_host_name(word, sizeof(word)) ? word : "unknown");
	else if (what == 'u' && report_user_name(writer->uid, word, sizeof(word)))
		put_word(path, word);
	else if (what == 'u')
		text_number(path, writer->uid);
	else
		return false;
	return true;
}

/* Not every stack has room for this one; a process writes its report once. */
static struct report_out path;

int report_file_name(char name[PATH_MAX], const char *pattern, const struct report_writer *writer)
{

	path_begin(&path);
	for (; *pattern; pattern++) {
		if (*pattern != '%')
			text_char(&path, *pattern);
		else if (!put_replaced(&path, *++pattern, writer))
			return -EINVAL;
	}
	return path_end(&path, name);
}

/* ---- files ---- */

static bool write_all(struct report_out *out, const char *bytes, size_t count)
{
	struct report_file *file = out->user;

	while (count > 0) {
		ssize_t written = write(file->fd, bytes, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			file->error = written < 0 ? errno : EIO;
			return false;
		}
		bytes += written;
		count -= (size_t)written;
	}
	return true;
}

/* A terminal, a pipe or a descriptor that is open already: there is nothing to move in place. */
static bool is_written_directly(const char *name)
{
	static const char *const open_already[] = { "/dev/fd/", "/dev/std", "/proc/self/fd/" };
	struct stat info;

	if (stat(name, &info) != 0)
		return false;
	for (unsigned i = 0; i < sizeof(open_already) / sizeof(open_already[0]); i++)
		if (strncmp(name, open_already[i], strlen(open_already[i])) == 0)
			return true;
	return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Bytes of name up to its last component. */
static size_t folder_length(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? (size_t)(slash - name) + 1 : 0;
}

/* FOLDER/.cuward-PID-N */
static int temporary_name(struct report_file *file, unsigned attempt)
{
	path_begin(&path);
	text_bytes(&path, file->name, folder_length(file->name));
	text_put(&path, ".cuward-");
	text_number(&path, (uint64_t)getpid());
	text_char(&path, '-');
	text_number(&path, attempt);
	return path_end(&path, file->temporary);
}

static int open_temporary(struct report_file *file)
{
	for (unsigned attempt = 0; attempt < 100; attempt++) {
		int error = temporary_name(file, attempt);

		if (error)
			return error;
		file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (file->fd >= 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* A pipe that nobody reads is an error, and nothing to wait for at the end of a program. */
static int open_directly(struct report_file *file)
{
	file->fd = open(file->name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file->fd < 0)
		return -errno;
	fcntl(file->fd, F_SETFL, fcntl(file->fd, F_GETFL) & ~O_NONBLOCK);
	return 0;
}

int report_file_open(struct report_file *file, const char *name)
{
	file->out.flush = write_all;
	file->out.user = file;
	file->out.used = 0;
	file->out.failed = false;
	file->error = 0;
	file->temporary[0] = 0;
	if (strlen(name) >= PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(file->name, name);
	if (!is_written_directly(name))
		return open_temporary(file);
	return open_directly(file);
}

/* NAME, NAME-PID.EXT, NAME-PID-2.EXT ... */
static int candidate_name(const struct report_file *file, uint32_t pid, unsigned attempt,
	char name[PATH_MAX])
{
	const char *base = file->name + folder_length(file->name), *dot = strrchr(base, '.');
	size_t stem = dot && dot > base ? (size_t)(dot - file->name) : strlen(file->name);

	path_begin(&path);
	text_bytes(&path, file->name, stem);
	if (attempt > 0) {
		text_char(&path, '-');
		text_number(&path, pid);
	}
	if (attempt > 1) {
		text_char(&path, '-');
		text_number(&path, attempt);
	}
	text_put(&path, file->name + stem);
	return path_end(&path, name);
}

/* Give the file its name unless that is taken. Some file systems know only one of the two ways. */
static int move_in_place(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (link(from, to) != 0)
		return -errno;
	unlink(from);
	return 0;
}

static int place(struct report_file *file, uint32_t pid)
{
	static char name[PATH_MAX]; /* as path is */
	int error = -EEXIST;

	for (unsigned attempt = 0; attempt < 10000 && error == -EEXIST; attempt++) {
		error = candidate_name(file, pid, attempt, name);
		if (!error)
			error = move_in_place(file->temporary, name);
	}
	if (!error)
		strcpy(file->name, name);
	return error;
}

int report_file_close(struct report_file *file, uint32_t pid)
{
	int error = report_finish(&file->out) ? 0 : file->error ? -file->error : -EIO;

	if (close(file->fd) != 0 && !error)
		error = -errno;
	if (file->temporary[0] && !error)
		error = place(file, pid);
	if (file->temporary[0] && error)
		unlink(file->temporary);
	return error;
}
