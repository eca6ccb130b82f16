/*
 * ledger_read.c - ledgers of other processes, read without trusting a byte of them.
 *
 * Everything is copied out with pread, so neither a writer that is at work nor an owner who cuts
 * the file while we read can do more than give us old or odd numbers.
 */
#include "ledger_read.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin_dir.h"
#include "pread_some.h"

/* ---- one file ---- */

static bool refuse(const char *path, const char *problem, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "%s: %s", path, problem);
	return false;
}

/* Why this header cannot be read, NULL if it can. */
static const char *header_problem(const struct ledger_header *header, size_t got)
{
	if (got < sizeof(*header))
		return "too short to be a ledger";
	if (header->magic == 0)
		return "still being made";
	if (header->magic != LEDGER_MAGIC)
		return "not a ledger";
	if (header->version != CUWARD_LAYOUT_VERSION)
		return "a ledger of another version of cuward";
	if (header->header_bytes != sizeof(*header) ||
		header->record_bytes != sizeof(struct ledger_record))
		return "a ledger of another layout";
	return NULL;
}

/*
 * Up to count elements of a part; *count becomes how many there are. NULL where there are none.
 */
static void *read_part(struct ledger_file *file, int fd, uint64_t offset, size_t element,
	size_t max, size_t *count)
{
	struct stat info;
	uint64_t there = 0;
	void *part;

	if (fstat(fd, &info) == 0 && (uint64_t)info.st_size > offset)
		there = ((uint64_t)info.st_size - offset) / element;
	if (*count > max || *count > there) {
		file->cut = true;
		*count = there < max ? (size_t)there : max;
	}
	part = *count ? calloc(*count, element) : NULL;
	*count = part ? pread_some(fd, part, *count * element, offset) / element : 0;
	return part;
}

static void read_parts(struct ledger_file *file, int fd)
{
	struct ledger_view *view = &file->view;
	size_t threads = file->header->thread_count;

	view->sites_bytes = file->header->sites_bytes;
	view->growth_count = file->header->growth_count;
	view->record_count = file->header->record_count;
	file->threads = read_part(file, fd, LEDGER_THREADS_OFFSET, sizeof(*file->threads),
		LEDGER_THREADS_MAX, &threads);
	file->sites = read_part(file, fd, LEDGER_SITES_OFFSET, 1, LEDGER_SITES_BYTES_MAX,
		&view->sites_bytes);
	file->growth = read_part(file, fd, LEDGER_GROWTH_OFFSET, sizeof(*file->growth),
		LEDGER_GROWTH_MAX, &view->growth_count);
	file->records = read_part(file, fd, LEDGER_RECORDS_OFFSET, sizeof(*file->records),
		LEDGER_RECORDS_MAX, &view->record_count);
	view->header = file->header;
	view->threads = file->threads;
	view->thread_count = (unsigned)threads;
	view->sites = file->sites;
	view->growth = file->growth;
	view->records = file->records;
}

bool ledger_open(struct ledger_file *file, const char *path, char *why, size_t why_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const char *problem;

	*file = (struct ledger_file){ 0 };
	if (fd < 0)
		return refuse(path, strerror(errno), why, why_bytes);
	file->path = strdup(path);
	file->header = calloc(1, sizeof(*file->header));
	if (file->path && file->header)
		problem = header_problem(file->header,
			pread_some(fd, file->header, sizeof(*file->header), 0));
	else
		problem = "no memory left";
	if (!problem)
		read_parts(file, fd);
	close(fd);
	if (!problem)
		return true;
	ledger_close(file);
	return refuse(path, problem, why, why_bytes);
}

void ledger_close(struct ledger_file *file)
{
	free(file->path);
	free(file->header);
	free(file->threads);
	free(file->sites);
	free(file->growth);
	free(file->records);
	*file = (struct ledger_file){ 0 };
}

/* ---- all of a job ---- */

static void add_file(struct ledger_list *list, const char *path)
{
	struct ledger_file *more = realloc(list->files, (list->count + 1) * sizeof(*more));

	if (more)
		list->files = more;
	if (more && ledger_open(&more[list->count], path, list->why, sizeof(list->why)))
		list->count++;
	else
		list->unreadable++;
}

static bool has_end(const char *name, const char *end)
{
	const char *dot = strrchr(name, '.');

	return dot && dot > name && strcmp(dot, end) == 0;
}

static int by_start(const void *left, const void *right)
{
	const struct ledger_file *a = left, *b = right;
	uint64_t start_a = a->header->who.start_realtime_ns;
	uint64_t start_b = b->header->who.start_realtime_ns;

	if (start_a != start_b)
		return start_a < start_b ? -1 : 1;
	/* The clock is coarse. */
	if (ledger_is_later_image(a, b) || ledger_is_later_image(b, a))
		return ledger_is_later_image(a, b) ? -1 : 1;
	return strcmp(a->path, b->path);
}

void ledger_list_open(struct ledger_list *list, const char *dir, const char *job)
{
	char path[PATH_MAX];
	char *roots[] = { path, NULL };
	FTSENT *entry;
	FTS *tree;

	*list = (struct ledger_list){ 0 };
	if (snprintf(path, sizeof(path), "%s/jobs/%s", dir, job) >= (int)sizeof(path))
		return;
	tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	while (tree && (entry = fts_read(tree)))
		if (entry->fts_info == FTS_F && has_end(entry->fts_name, ".ledger"))
			add_file(list, entry->fts_path);
		else if (entry->fts_info == FTS_F && has_end(entry->fts_name, LEDGER_LOST))
			list->lost++;
	if (tree)
		fts_close(tree);
	if (list->count > 0)
		qsort(list->files, list->count, sizeof(*list->files), by_start);
}

void ledger_list_close(struct ledger_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		ledger_close(&list->files[i]);
	free(list->files);
	*list = (struct ledger_list){ 0 };
}

/* ---- does its owner live? ---- */

static bool same_image(const struct process_identity *a, const struct process_identity *b)
{
	return a->pid == b->pid && a->pid_ns == b->pid_ns && a->start_ticks == b->start_ticks &&
		a->stack_start == b->stack_start && a->image == b->image;
}

/* The owner of a slot holds a lock on its range of the file. */
static enum ledger_owner lock_owner(int fd, const struct process_identity *who, unsigned slot)
{
	struct slots_header header;
	struct slot one;
	uint64_t offset = sizeof(header) + (uint64_t)slot * sizeof(one);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = sizeof(one) };

	if (pread_some(fd, &header, sizeof(header), 0) < sizeof(header) ||
		header.magic != SLOTS_MAGIC || header.version != CUWARD_LAYOUT_VERSION ||
		header.slot_bytes != sizeof(one) || slot >= header.slot_count)
		return OWNER_UNKNOWN;
	if (pread_some(fd, &one, sizeof(one), offset) < sizeof(one))
		return OWNER_UNKNOWN;
	if (one.state != SLOT_TAKEN || !same_image(&one.who, who))
		return OWNER_DEAD;
	if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
		return OWNER_UNKNOWN;
	return lock.l_type == F_UNLCK ? OWNER_DEAD : OWNER_ALIVE;
}

struct proc_stat {
	char state;
	long threads;
	uint64_t start_ticks;
	uint64_t stack_start; /* 0 where we may not know */
};

/* Fields of /proc/PID/stat behind the command, which may hold anything. */
static bool read_stat(uint32_t pid, struct proc_stat *stat)
{
	char path[64], text[1024], *at;
	int fd;
	size_t got;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = pread_some(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[got] = 0;
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
		"%*d %*d %ld %*d %" SCNu64 " %*u %*d %*u %*u %*u %" SCNu64, &stat->state,
		&stat->threads, &stat->start_ticks, &stat->stack_start) == 4;
}

uint32_t ledger_own_pid_ns(void)
{
	static uint32_t own; /* we never change it, and it is asked for with each process */
	struct stat info;

	if (!own && stat("/proc/self/ns/pid", &info) == 0)
		own = (uint32_t)info.st_ino;
	return own;
}

/* Without a slot /proc must tell; it can for a process of our own pid namespace. */
static enum ledger_owner proc_owner(const struct process_identity *who)
{
	struct proc_stat now;

	if (who->pid_ns == 0 || who->pid_ns != ledger_own_pid_ns())
		return OWNER_UNKNOWN;
	if (!read_stat(who->pid, &now) || now.start_ticks != who->start_ticks)
		return OWNER_DEAD;
	/* After an exec it is another image. */
	if (now.stack_start != 0 && who->stack_start != 0 && now.stack_start != who->stack_start)
		return OWNER_DEAD;
	/* The main thread of a living process may be a zombie. */
	return now.state == 'Z' && now.threads <= 1 ? OWNER_DEAD : OWNER_ALIVE;
}

static enum ledger_owner slot_owner(const char *folder, const struct ledger_header *header)
{
	enum ledger_owner owner = OWNER_UNKNOWN;
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/slots.%u", folder, header->who.uid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && header->slot < SLOT_COUNT)
		owner = lock_owner(fd, &header->who, header->slot);
	if (fd >= 0)
		close(fd);
	return owner;
}

/* The slots may be here, or among those of all users, which may have come since it started. */
enum ledger_owner ledger_owner(const struct ledger_file *file, const char *dir)
{
	enum ledger_owner here = slot_owner(dir, file->header);
	enum ledger_owner there = here == OWNER_ALIVE ? OWNER_UNKNOWN :
		slot_owner(CUWARD_RUNDIR "/slots", file->header);

	if (here == OWNER_ALIVE || there == OWNER_ALIVE)
		return OWNER_ALIVE;
	if (here == OWNER_DEAD || there == OWNER_DEAD)
		return OWNER_DEAD;
	return proc_owner(&file->header->who);
}

bool ledger_is_later_image(const struct ledger_file *a, const struct ledger_file *b)
{
	const struct process_identity *of_a = &a->header->who, *of_b = &b->header->who;

	return of_a->pid == of_b->pid && of_a->pid_ns == of_b->pid_ns &&
		of_a->start_ticks == of_b->start_ticks && of_a->image < of_b->image;
}
