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

/* Folders of others may be links to anywhere: each step by itself. */
static int open_ledger(const struct slots_file *file, const struct slots_entry *entry)
{
	char path[PATH_MAX];
	char *rest = NULL, *part, *next;
	int fd;

	if (!ledger_peek_path(path, sizeof(path), file, entry))
		return -1;
	fd = open(file->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	part = strtok_r(path + strlen(file->folder), "/", &rest);
	while (fd >= 0 && part) {
		int inner;

		next = strtok_r(NULL, "/", &rest);
		inner = openat(fd, part, O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
			(next ? O_PATH | O_DIRECTORY : O_RDONLY));
		close(fd);
		fd = inner;
		part = next;
	}
	return fd;
}

static bool read_all(int fd, void *to, size_t bytes, off_t offset)
{
	return pread(fd, to, bytes, offset) == (ssize_t)bytes;
}

static void read_thread(struct ledger_peek *peek, const struct ledger_thread *thread)
{
	uint32_t number = peek->thread_count++;
	uint64_t calls = 0;

	for (unsigned i = 0; i < LEDGER_CALLS_MAX; i++) {
		calls = slots_add(calls, thread->calls[i].count);
		peek->by_call[i] = slots_add(peek->by_call[i], thread->calls[i].count);
	}
	peek->calls = slots_add(peek->calls, calls);
	peek->threads[number].calls = calls;
	peek->threads[number].in_call = thread->in_call;
	if (thread->sync_since_ns && (!peek->sync_since_ns || thread->sync_since_ns < peek->sync_since_ns)) {
		peek->sync_since_ns = thread->sync_since_ns;
		peek->sync_call = thread->sync_call;
		peek->sync_calls = calls;
		peek->kernel[0] = '\0';
		if (thread->launched && thread->launched == thread->launched_named)
			snprintf(peek->kernel, sizeof(peek->kernel), "%.*s",
				(int)sizeof(thread->launched_name), thread->launched_name);
	}
}

static bool read_threads(struct ledger_peek *peek, int fd, uint32_t count)
{
	static struct ledger_thread thread;

	peek->calls = peek->sync_since_ns = peek->thread_count = 0;
	memset(peek->by_call, 0, sizeof(peek->by_call));
	for (uint32_t i = 0; i < count; i++) {
		if (!read_all(fd, &thread, sizeof(thread),
			(off_t)(LEDGER_THREADS_OFFSET + i * sizeof(thread))))
			return false;
		read_thread(peek, &thread);
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

bool ledger_peek(struct ledger_peek *peek, const struct slots_file *file,
	const struct slots_entry *entry)
{
	int fd = open_ledger(file, entry);
	bool fine = false;

	*peek = (struct ledger_peek){ 0 };
	if (fd < 0)
		return false;
	peek->header = need_zeroed(1, sizeof(*peek->header));
	if (read_all(fd, peek->header, sizeof(*peek->header), 0) && is_of(peek->header, entry) &&
		peek->header->thread_count <= PEEK_THREADS_MAX)
		fine = read_threads(peek, fd, peek->header->thread_count);
	if (peek->header->device_count > SLOT_DEVICES)
		peek->header->device_count = SLOT_DEVICES;
	close(fd);
	if (!fine)
		ledger_peek_free(peek);
	return fine;
}

bool ledger_peek_again(struct ledger_peek *peek, const struct slots_file *file,
	const struct slots_entry *entry)
{
	struct ledger_peek now = { .header = peek->header };
	uint32_t count = 0;
	int fd = open_ledger(file, entry);
	bool fine = fd >= 0 && read_all(fd, &count, sizeof(count),
		offsetof(struct ledger_header, thread_count)) && count <= PEEK_THREADS_MAX &&
		read_threads(&now, fd, count);

	if (fd >= 0)
		close(fd);
	if (fine)
		*peek = now;
	return fine;
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
unsigned ledger_peek_in_call(const struct ledger_peek *before, const struct ledger_peek *now)
{
	unsigned works = 0;

	for (uint32_t i = 0; i < before->thread_count && i < now->thread_count; i++) {
		uint32_t in_call = now->threads[i].in_call;

		if (!in_call || in_call != before->threads[i].in_call ||
			now->threads[i].calls != before->threads[i].calls)
			continue;
		if (!ledger_peek_works(in_call - 1))
			return in_call;
		works = in_call;
	}
	return works;
}

void ledger_peek_free(struct ledger_peek *peek)
{
	free(peek->header);
	*peek = (struct ledger_peek){ 0 };
}
