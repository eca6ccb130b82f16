/*
 * ctf_find.c - where the traces lie below a path.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <unistd.h>

#include "ctf.h"
#include "need.h"

#define CTF_MAGIC 0xc1fc1fc1u

/* nftw hands no pointer on, so what it finds is noted here; one search at a time. */
static struct {
	struct ctf_dirs *dirs;
	size_t files, traces;
	char **streams; /* folders with streams in them, in order */
	size_t stream_count, stream_capacity;
} search;

static bool is_folder(const char *format, const char *folder)
{
	char path[PATH_MAX];
	struct stat about;

	snprintf(path, sizeof(path), format, folder);
	return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/*
 * A snapshot of a flight recorder (SNAPSHOT_PREFIX): what names its events is in `definitions`, and in
 * the folder that it lies in.
 */
static void leave_snapshot(char *root)
{
	char *last = strrchr(root, '/');

	if (last && strcmp(last, "/definitions") == 0) {
		*last = '\0';
		last = strrchr(root, '/');
	}
	if (!last || strncmp(last + 1, "snapshot-", 9) != 0 || !is_folder("%s/ust", root))
		return;
	if (is_folder("%s/definitions", root)) {
		*last = '\0';
		return;
	}
	*last = '\0';
	if (!is_folder("%s/ust", root))
		*last = '/';
}

/* The folder of the session: what is above the folders of users and of archived chunks. */
static uint32_t session_of(struct ctf_dirs *dirs, const char *path)
{
	char *root = need_copy(path), *end;

	if ((end = strstr(root, "/archives/")) || (end = strstr(root, "/ust/")))
		*end = '\0';
	leave_snapshot(root);
	for (size_t i = 0; i < dirs->session_count; i++) {
		if (strcmp(dirs->sessions[i], root) == 0) {
			free(root);
			return (uint32_t)i;
		}
	}
	dirs->sessions = need_room(dirs->sessions, dirs->session_count, &dirs->session_capacity,
		sizeof(*dirs->sessions));
	dirs->sessions[dirs->session_count] = root;
	return (uint32_t)dirs->session_count++;
}

/* ust/uid/1000/64-bit */
static uint32_t user_of(struct ctf_dirs *dirs, const char *path)
{
	const char *at = strstr(path, "/ust/uid/");
	uint32_t uid = at ? (uint32_t)strtoul(at + strlen("/ust/uid/"), NULL, 10) : 0;

	if (!at)
		return 0;
	for (size_t i = 0; i < dirs->user_count; i++)
		if (dirs->users[i] == uid)
			return (uint32_t)i + 1;
	dirs->users = need_room(dirs->users, dirs->user_count, &dirs->user_capacity, sizeof(*dirs->users));
	dirs->users[dirs->user_count] = uid;
	return (uint32_t)++dirs->user_count;
}

static bool is_stream(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint32_t magic = 0;
	bool is;

	if (file < 0)
		return false;
	is = read(file, &magic, sizeof(magic)) == sizeof(magic) &&
		(magic == CTF_MAGIC || magic == __builtin_bswap32(CTF_MAGIC));
	close(file);
	return is;
}

/* Files with at least a packet in them; streams without events are empty. */
static bool has_streams(const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;
	bool has = false;

	while (directory && !has && (entry = readdir(directory))) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		has = entry->d_name[0] != '.' && is_stream(path);
	}
	if (directory)
		closedir(directory);
	return has;
}

static void add_dir(struct ctf_dirs *dirs, const char *path, bool orphan)
{
	char *real = realpath(path, NULL);

	real = real ? real : need_copy(path);
	for (size_t i = 0; i < dirs->count; i++) {
		if (strcmp(dirs->items[i].path, real) == 0) {
			free(real);
			return;
		}
	}
	dirs->items = need_room(dirs->items, dirs->count, &dirs->capacity, sizeof(*dirs->items));
	dirs->items[dirs->count++] =
		(struct ctf_dir){ real, session_of(dirs, real), user_of(dirs, real), orphan, has_streams(real) };
}

static void note_streams(const char *folder)
{
	if (search.stream_count && strcmp(search.streams[search.stream_count - 1], folder) == 0)
		return;
	search.streams = need_room(search.streams, search.stream_count, &search.stream_capacity,
		sizeof(*search.streams));
	search.streams[search.stream_count++] = need_copy(folder);
}

static int visit(const char *path, const struct stat *about, int type, struct FTW *at)
{
	char folder[PATH_MAX];

	search.dirs->locked += type == FTW_DNR || (type == FTW_NS && errno == EACCES);
	if (type == FTW_D || type == FTW_NS || type == FTW_DNR || !S_ISREG(about->st_mode))
		return 0;
	search.files++;
	snprintf(folder, sizeof(folder), "%.*s", at->base > 1 ? at->base - 1 : 1, path);
	if (strcmp(path + at->base, "metadata") == 0) {
		search.traces++;
		add_dir(search.dirs, folder, false);
	} else if (is_stream(path)) {
		note_streams(folder);
	}
	return 0;
}

/* Folders with streams and without metadata: nothing explains them, which must be told. */
static void add_orphans(struct ctf_dirs *dirs)
{
	for (size_t i = 0; i < search.stream_count; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/metadata", search.streams[i]);
		if (access(path, F_OK) != 0)
			add_dir(dirs, search.streams[i], true);
		free(search.streams[i]);
	}
	free(search.streams);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct ctf_dir *)a)->path, ((const struct ctf_dir *)b)->path);
}

enum ctf_found ctf_find(struct ctf_dirs *dirs, const char *path)
{
	const size_t locked = dirs->locked;
	bool had_streams;

	memset(&search, 0, sizeof(search));
	search.dirs = dirs;
	nftw(path, visit, 32, FTW_PHYS);
	had_streams = search.stream_count > 0;
	add_orphans(dirs);
	if (dirs->count)
		qsort(dirs->items, dirs->count, sizeof(*dirs->items), by_name);
	if (search.traces)
		return CTF_TRACES;
	if (!had_streams && dirs->locked > locked)
		return CTF_LOCKED;
	return had_streams ? CTF_NO_METADATA : search.files ? CTF_NONE : CTF_EMPTY;
}

void ctf_dirs_free(struct ctf_dirs *dirs)
{
	for (size_t i = 0; i < dirs->count; i++)
		free(dirs->items[i].path);
	for (size_t i = 0; i < dirs->session_count; i++)
		free(dirs->sessions[i]);
	free(dirs->items);
	free(dirs->sessions);
	free(dirs->users);
	*dirs = (struct ctf_dirs){ 0 };
}
