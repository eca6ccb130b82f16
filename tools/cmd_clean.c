/*
 * cmd_clean.c - `cuward clean`: what the dead left in the shared folder: slots, and ledgers.
 *
 * Nothing that lives is touched: a slot is given free only with its owner's lock in our hand, under the
 * lock of those who take slots; a ledger goes only when its process and its run are dead.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "cuward.h"
#include "format.h"
#include "ledger_peek.h"
#include "queue.h"
#include "run.h"
#include "state.h"

struct cleaned {
	unsigned slots, ledgers;
	bool refused;
};

/* Folders of others have names of others' choice. */
static void refuse(struct cleaned *cleaned, const char *path, const char *why)
{
	fputs("cuward: ", stderr);
	put_safe(stderr, path, 0);
	fprintf(stderr, "%s\n", why);
	cleaned->refused = true;
}

static bool lock_range(int fd, uint64_t offset, uint64_t bytes)
{
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset,
		.l_len = (off_t)bytes };

	return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

static bool lock_header(int fd)
{
	for (int tries = 0; tries < 5000; tries++) {
		if (lock_range(fd, 0, 1))
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	return false;
}

static bool free_slot(int fd, uint32_t number)
{
	static const uint64_t nothing[SLOT_DEVICES];
	static const uint32_t unused = SLOT_FREE;
	uint64_t offset = sizeof(struct slots_header) + (uint64_t)number * sizeof(struct slot);
	off_t at = (off_t)offset;

	if (!lock_range(fd, offset, sizeof(struct slot)))
		return false;
	return pwrite(fd, nothing, sizeof(nothing), at + (off_t)offsetof(struct slot, words)) > 0 &&
		pwrite(fd, nothing, sizeof(nothing), at + (off_t)offsetof(struct slot, overhead)) > 0 &&
		pwrite(fd, nothing, sizeof(uint64_t), at + (off_t)offsetof(struct slot, waiting_since_ns)) > 0 &&
		pwrite(fd, &unused, sizeof(unused), at + (off_t)offsetof(struct slot, state)) > 0;
}

static bool is_own_folder(const char *path)
{
	struct stat info;

	return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* Is the folder of this job, or one above it, a run's? */
static bool is_of_run(const char *folder, const char *job)
{
	char path[PATH_MAX];

	for (size_t length = 1; job[0] && length <= strlen(job); length++) {
		if (job[length] && job[length] != '/')
			continue;
		snprintf(path, sizeof(path), "%s/jobs/%.*s/.run", folder, (int)length, job);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

/* Of a process outside any run; those of runs are swept with their folders. */
static void remove_ledger(const char *const *folders, const struct slots_entry *entry,
	struct cleaned *cleaned)
{
	char path[PATH_MAX];

	for (; *folders; folders++) {
		struct slots_file there = { .folder = (char *)*folders };

		if (is_own_folder(*folders) && !is_of_run(*folders, entry->slot.who.job) &&
			ledger_peek_path(path, sizeof(path), &there, entry) && unlink(path) == 0)
			cleaned->ledgers++;
	}
}

/* Its ledgers lie in one of the folders. */
static void clean_slots(const char *path, const char *const *folders, struct cleaned *cleaned)
{
	struct slots_file file;
	char why[PATH_MAX + 300];
	int fd;

	if (access(path, F_OK) != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	snprintf(why, sizeof(why), "%s: %s", path, fd < 0 ? strerror(errno) : "its lock is not to be had");
	if (fd < 0 || !lock_header(fd) || !slots_file_open(&file, path, why, sizeof(why))) {
		refuse(cleaned, why, "");
		if (fd >= 0)
			close(fd);
		return;
	}
	for (size_t i = 0; i < file.count; i++) {
		if (!free_slot(fd, file.entries[i].number))
			continue;
		cleaned->slots++;
		remove_ledger(folders, &file.entries[i], cleaned);
	}
	close(fd);
	slots_file_close(&file);
}

static void clean_folder(const char *folder, struct cleaned *cleaned)
{
	char path[PATH_MAX];

	if (access(folder, F_OK) != 0)
		return;
	if (!is_own_folder(folder)) {
		refuse(cleaned, folder, " is no folder of yours");
		return;
	}
	snprintf(path, sizeof(path), "%s/slots.%u", folder, geteuid());
	clean_slots(path, (const char *const[]){ folder, NULL }, cleaned);
	cleaned->ledgers += run_folder_sweep(folder);
}

/* Where all users meet; whose folder is known, or has its usual place. */
static void clean_common(const char *folder, struct cleaned *cleaned)
{
	char path[PATH_MAX], runtime[64], memory[64], why[PATH_MAX + 100];
	const char *const folders[] = { runtime, memory, folder, NULL };
	struct queue queue = { 0 };
	int common = admin_dir_open("slots");

	if (common < 0)
		return;
	close(common);
	snprintf(runtime, sizeof(runtime), "/run/user/%u/cuward", geteuid());
	snprintf(memory, sizeof(memory), "/dev/shm/cuward-%u", geteuid());
	snprintf(path, sizeof(path), CUWARD_RUNDIR "/slots/slots.%u", geteuid());
	clean_slots(path, folders, cleaned);
	/* Who looks at the queue takes the places away that dead processes of his left. */
	if (queue_folder(&queue, why, sizeof(why))) {
		queue_look(&queue, why, sizeof(why));
		queue_forget(&queue);
	}
}

static int tell(const char *folder, const struct cleaned *cleaned)
{
	put_safe(stdout, folder, 0);
	printf(": %u slot%s and %u ledger%s of the dead removed\n", cleaned->slots,
		cleaned->slots == 1 ? "" : "s", cleaned->ledgers, cleaned->ledgers == 1 ? "" : "s");
	return cleaned->refused ? EXIT_FOUND : EXIT_FINE;
}

static bool become(const struct stat *owner)
{
	return owner->st_uid == geteuid() || (setgroups(0, NULL) == 0 &&
		setresgid(owner->st_gid, owner->st_gid, owner->st_gid) == 0 &&
		setresuid(owner->st_uid, owner->st_uid, owner->st_uid) == 0);
}

/* A folder of state, or a slots file where all meet; the latter's user is told of only if it matters. */
static int clean_path(const char *path, bool is_folder)
{
	struct cleaned cleaned = { 0 };

	if (is_folder)
		clean_folder(path, &cleaned);
	clean_common(is_folder ? path : NULL, &cleaned);
	if (!is_folder && !cleaned.slots && !cleaned.refused)
		return EXIT_FINE;
	return tell(path, &cleaned);
}

/* As its owner: a folder of somebody else may hold links to anywhere. */
static int clean_as_owner(const char *path, bool is_folder)
{
	struct stat info;
	int status = 0;
	pid_t child;

	if (lstat(path, &info) != 0)
		return EXIT_FINE;
	fflush(NULL);
	child = fork();
	if (child == 0)
		exit(become(&info) ? clean_path(path, is_folder) : EXIT_NO_PERMISSION);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return EXIT_FOUND;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FOUND;
}

static int clean_pattern(const char *pattern, bool is_folder)
{
	glob_t found;
	int worst = EXIT_FINE;

	if (glob(pattern, 0, NULL, &found) != 0)
		return EXIT_FINE;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int one = clean_as_owner(found.gl_pathv[i], is_folder);

		worst = one > worst ? one : worst;
	}
	globfree(&found);
	return worst;
}

static int clean_all(void)
{
	static const char *const folders[] = { "/dev/shm/cuward-*", "/run/user/*/cuward" };
	int worst = EXIT_FINE, one;

	if (geteuid() != 0) {
		fprintf(stderr, "cuward: clean --all is for root\n");
		return EXIT_NO_PERMISSION;
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		one = clean_pattern(folders[i], true);
		worst = one > worst ? one : worst;
	}
	/* Of those whose folders are elsewhere. */
	one = clean_pattern(CUWARD_RUNDIR "/slots/slots.*", false);
	return one > worst ? one : worst;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	switch (key) {
	case 'a': *(bool *)state->input = true; return 0;
	case ARGP_KEY_ARG: argp_usage(state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_clean(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "all", 'a', NULL, 0, "Of all users, each as himself (root)", 0 }, { 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.doc = "Remove what dead processes left in the shared folder: slots and ledgers.\v"
			"Exit status: 0, 1 something could not be cleaned, 2 usage, 3 there can be no "
			"folder, 4 no permission." };
	struct cleaned cleaned = { 0 };
	char folder[PATH_MAX];
	const char *why;
	bool all = false;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &all);
	if (all)
		return clean_all();
	why = state_folder(folder);
	if (why) {
		fprintf(stderr, "cuward: %s\n", why);
		return EXIT_UNAVAILABLE;
	}
	clean_folder(folder, &cleaned);
	clean_common(folder, &cleaned);
	return tell(folder, &cleaned);
}
