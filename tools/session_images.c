/*
 * session_images.c - the processes of a run as their ledgers tell: who was killed, what was refused. A
 * ledger outlives its process, however short that lived; a slot may be the next one's before we look.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "ledger_read.h"
#include "pread_some.h"
#include "proc_state.h"
#include "session_parts.h"

/* One process image, by the path of its ledger. */
struct image {
	UT_hash_handle hh;
	uint64_t denied;
	bool over;
	char path[];
};

static bool read_header(const char *path, struct ledger_header *header)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	bool good = fd >= 0 && pread_some(fd, header, sizeof(*header), 0) == sizeof(*header) &&
		header->magic == LEDGER_MAGIC && header->version == CUWARD_LAYOUT_VERSION;

	if (fd >= 0)
		close(fd);
	return good;
}

/* Who has lost the lock on his slot and goes on has called exec. */
static bool has_gone_on(const struct process_identity *who)
{
	struct proc_state now;

	return who->pid_ns == ledger_own_pid_ns() && proc_state((pid_t)who->pid, &now) &&
		now.start_ticks == who->start_ticks && !proc_is_dying((pid_t)who->pid);
}

/* Did it end just now, and not of itself? */
static bool look_at(struct image *image, const char *folder)
{
	static struct ledger_header header;
	struct ledger_file file = {.header = &header};

	if (!read_header(image->path, &header))
		return false;
	image->denied = 0;
	for (unsigned i = 0; i < header.device_count && i < SLOT_DEVICES; i++)
		image->denied += header.devices[i].denied;
	image->over = header.ended != END_RUNNING;
	if (image->over || ledger_owner(&file, folder) != OWNER_DEAD)
		return false;
	/* It may have come to an orderly end between the two. */
	image->over = true;
	return read_header(image->path, &header) && header.ended == END_RUNNING && header.uses_cuda &&
		!has_gone_on(&header.who);
}

static struct image *find_image(struct image **all, const char *path)
{
	size_t length = strlen(path);
	struct image *image;

	HASH_FIND_STR(*all, path, image);
	if (image)
		return image;
	image = calloc(1, sizeof(*image) + length + 1);
	if (!image)
		return NULL;
	memcpy(image->path, path, length + 1);
	HASH_ADD_STR(*all, path, image);
	return image;
}

static bool is_ledger(const FTSENT *entry)
{
	const char *dot = strrchr(entry->fts_name, '.');

	return entry->fts_info == FTS_F && dot && strcmp(dot, ".ledger") == 0;
}

void images_look(struct images *images, const struct session_recorder *recorder)
{
	const char *slash = strrchr(recorder->slots, '/');
	char folder[4096], job[4096 + 200];
	char *roots[] = {job, NULL};
	FTSENT *entry;
	FTS *tree;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - recorder->slots) : 0,
		recorder->slots);
	snprintf(job, sizeof(job), "%s/jobs/%s", folder, recorder->job);
	images->killed = 0;
	images->denied = 0;
	tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	while (tree && (entry = fts_read(tree))) {
		struct image *image = is_ledger(entry) ? find_image(&images->all, entry->fts_path) : NULL;

		if (!image)
			continue;
		if (!image->over)
			images->killed += look_at(image, folder);
		images->denied += image->denied;
	}
	if (tree)
		fts_close(tree);
}
