/*
 * ledger_peek.c - a look into the ledgers of running processes: counters, not records.
 */
#include "ledger_peek.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "need.h"

bool ledger_peek_path(char *path, size_t bytes, const struct slots_file *file,
	const struct slots_entry *entry)
{
	const struct process_identity *who = &entry->slot.who;
	const char *job = who->job[0] ? who->job : "-";

	/* Jobs are folders; none of them leads out of ours. */
	if (job[0] == '/' || job[0] == '.' || strstr(job, "/."))
		return false;
	return snprintf(path, bytes, "%s/jobs/%s/%u-%u-%" PRIu64 ".ledger", file->folder, job, who->pid,
		who->image, who->start_ticks) < (int)bytes;
}

/* The folder of the last one: whoever asks after many finds most of them in one. */
static struct {
	char path[PATH_MAX];
	int fd; /* + 1, 0: none */
} last;

void ledger_peek_done(void)
{
	if (last.fd)
		close(last.fd - 1);
	last.fd = 0;
}

/* Folders of others may be links to anywhere: each step by itself. */
static int open_folder(const char *folder, char *inner)
{
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *rest = NULL;

	for (char *part = strtok_r(inner, "/", &rest); fd >= 0 && part; part = strtok_r(NULL, "/", &rest)) {
		int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		close(fd);
		fd = next;
	}
	return fd;
}

static int open_in_last(const char *name)
{
	return last.fd ? openat(last.fd - 1, name,
		O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
}

static int open_ledger(const struct slots_file *file, const struct slots_entry *entry)
{
	char path[PATH_MAX], *name;
	int fd = -1;

	if (!ledger_peek_path(path, sizeof(path), file, entry))
		return -1;
	name = strrchr(path, '/');
	*name++ = '\0';
	if (strcmp(last.path, path) == 0)
		fd = open_in_last(name);
	if (fd >= 0)
		return fd;
	/* Another folder, or one that was removed and made anew. */
	ledger_peek_done();
	strcpy(last.path, path);
	last.fd = open_folder(file->folder, path + strlen(file->folder)) + 1;
	return open_in_last(name);
}

static bool read_all(int fd, void *to, size_t bytes, off_t offset)
{
	return pread(fd, to, bytes, offset) == (ssize_t)bytes;
}

static void copy_kernel(char kernel[96], const struct ledger_thread *thread)
{
	kernel[0] = '\0';
	if (thread->launched && thread->launched == thread->launched_named)
		snprintf(kernel, 96, "%.*s", (int)sizeof(thread->launched_name), thread->launched_name);
}

static void read_thread(struct ledger_peek *peek, uint64_t *by_call, const struct ledger_thread *thread)
{
	uint32_t number = peek->thread_count++;
	uint64_t calls = 0;

	for (unsigned i = 0; i < LEDGER_CALLS_MAX; i++) {
		uint64_t count = thread->calls[i].count;

		if (!count) /* as nearly all of them */
			continue;
		calls = slots_add(calls, count);
		if (by_call)
			by_call[i] = slots_add(by_call[i], count);
	}
	peek->calls = slots_add(peek->calls, calls);
	peek->threads[number].calls = calls;
	peek->threads[number].in_call = thread->in_call;
	if (thread->sync_since_ns && (!peek->sync_since_ns || thread->sync_since_ns < peek->sync_since_ns)) {
		peek->sync_since_ns = thread->sync_since_ns;
		peek->sync_call = thread->sync_call;
		peek->sync_calls = calls;
		copy_kernel(peek->kernel, thread);
	}
}

static bool read_threads(struct ledger_peek *peek, uint64_t *by_call, int fd, uint32_t count)
{
	static struct ledger_thread thread;

	if (count > PEEK_THREADS_MAX)
		return false;
	peek->threads = need_zeroed(count, sizeof(*peek->threads));
	if (by_call)
		memset(by_call, 0, LEDGER_CALLS_MAX * sizeof(*by_call));
	for (uint32_t i = 0; i < count; i++) {
		if (!read_all(fd, &thread, sizeof(thread),
			(off_t)(LEDGER_THREADS_OFFSET + i * sizeof(thread))))
			return false;
		read_thread(peek, by_call, &thread);
	}
	return true;
}

static bool is_of(const struct ledger_header *header, const struct slots_entry *entry)
{
	const struct process_identity *a = &header->who, *b = &entry->slot.who;

	return header->magic == LEDGER_MAGIC && header->version == CUWARD_LAYOUT_VERSION &&
		header->header_bytes == sizeof(*header) && a->pid == b->pid && a->pid_ns == b->pid_ns &&
		a->start_ticks == b->start_ticks && a->image == b->image;
}

static bool read_devices(struct ledger_peek *peek, int fd, uint32_t count)
{
	peek->device_count = count < SLOT_DEVICES ? count : SLOT_DEVICES;
	peek->devices = need_zeroed(peek->device_count, sizeof(*peek->devices));
	return read_all(fd, peek->devices, peek->device_count * sizeof(*peek->devices),
		offsetof(struct ledger_header, devices));
}

bool ledger_peek(struct ledger_peek *peek, uint64_t by_call[LEDGER_CALLS_MAX],
	const struct slots_file *file, const struct slots_entry *entry)
{
	static struct ledger_header header; /* its beginning; the rest is long, and not asked for */
	int fd = open_ledger(file, entry);
	bool fine;

	*peek = (struct ledger_peek){ 0 };
	if (fd < 0)
		return false;
	fine = read_all(fd, &header, offsetof(struct ledger_header, findings), 0) &&
		is_of(&header, entry) && read_devices(peek, fd, header.device_count) &&
		read_threads(peek, by_call, fd, header.thread_count);
	close(fd);
	if (!fine)
		ledger_peek_free(peek);
	return fine;
}

bool ledger_peek_again(struct ledger_peek *now, struct ledger_peek *before,
	const struct slots_file *file, const struct slots_entry *entry)
{
	uint32_t count = 0;
	int fd = open_ledger(file, entry);
	bool fine;

	*now = (struct ledger_peek){ 0 };
	fine = fd >= 0 && read_all(fd, &count, sizeof(count),
		offsetof(struct ledger_header, thread_count)) && read_threads(now, NULL, fd, count);
	if (fd >= 0)
		close(fd);
	if (!fine) {
		ledger_peek_free(now);
		return false;
	}
	now->device_count = before->device_count;
	now->devices = before->devices;
	before->devices = NULL;
	return true;
}

struct ledger_header *ledger_peek_header(const struct slots_file *file,
	const struct slots_entry *entry)
{
	struct ledger_header *header = need_zeroed(1, sizeof(*header));
	int fd = open_ledger(file, entry);
	bool fine = fd >= 0 && read_all(fd, header, sizeof(*header), 0) && is_of(header, entry);

	if (fd >= 0)
		close(fd);
	ledger_peek_done();
	if (header->device_count > SLOT_DEVICES)
		header->device_count = SLOT_DEVICES;
	if (fine)
		return header;
	free(header);
	return NULL;
}

const struct ledger_device *ledger_peek_device(const struct ledger_peek *peek, uint32_t word)
{
	for (uint32_t i = 0; i < peek->device_count; i++)
		if (peek->devices[i].slot_device == word)
			return &peek->devices[i];
	return NULL;
}

bool ledger_peek_works(unsigned call)
{
	static const char *const words[] = { "Init", "Load", "Link", "Create", "Retain", "Instantiate" };
	const char *name = call_name(call);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

/* A thread's number is its own for as long as its process lives. */
unsigned ledger_peek_in_call(const struct ledger_peek *before, const struct ledger_peek *now,
	uint32_t *thread)
{
	unsigned works = 0;

	for (uint32_t i = 0; i < before->thread_count && i < now->thread_count; i++) {
		uint32_t in_call = now->threads[i].in_call;

		if (!in_call || in_call != before->threads[i].in_call ||
			now->threads[i].calls != before->threads[i].calls)
			continue;
		*thread = i;
		if (!ledger_peek_works(in_call - 1))
			return in_call;
		works = in_call;
	}
	return works;
}

void ledger_peek_kernel(char kernel[96], const struct slots_file *file, const struct slots_entry *entry,
	uint32_t thread)
{
	static struct ledger_thread block;
	int fd = open_ledger(file, entry);

	kernel[0] = '\0';
	if (fd < 0)
		return;
	if (read_all(fd, &block, sizeof(block), (off_t)(LEDGER_THREADS_OFFSET + thread * sizeof(block))))
		copy_kernel(kernel, &block);
	close(fd);
}

void ledger_peek_free(struct ledger_peek *peek)
{
	free(peek->threads);
	free(peek->devices);
	*peek = (struct ledger_peek){ 0 };
}
