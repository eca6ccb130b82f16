/*
 * reserve.c - the files of reserves, and those that policy makes.
 */
#include "reserve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "admin_dir.h"
#include "admin_name.h"
#include "need.h"
#include "pread_some.h"
#include "state.h"

#define RESERVES_MAX 1024u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- whose ---- */

bool reserve_parse_whose(struct reserve *reserve, const char *text)
{
	bool at = *text == '@';
	const char *name = text + at;
	const struct group *group = at ? getgrnam(name) : NULL;
	const struct passwd *user = group ? NULL : getpwnam(name);
	char *end;
	unsigned long number = strtoul(name, &end, 10);
	bool is_number = *name >= '0' && *name <= '9' && !*end && number < UINT32_MAX;

	reserve->whose = group || (at && !user) ? FOR_GROUP : FOR_USER;
	reserve->who = group ? group->gr_gid : user ? user->pw_uid : (uint32_t)number;
	return group || user || is_number;
}

const char *reserve_whose(const struct reserve *reserve)
{
	static char text[128];
	const struct passwd *user = reserve->whose == FOR_USER ? getpwuid(reserve->who) : NULL;
	const struct group *group = reserve->whose == FOR_GROUP ? getgrgid(reserve->who) : NULL;

	if (reserve->whose == FOR_NOBODY)
		return "nobody";
	if (user || group)
		snprintf(text, sizeof(text), "%s %s", user ? "user" : "group",
			user ? user->pw_name : group->gr_name);
	else
		snprintf(text, sizeof(text), "%s %u", reserve->whose == FOR_USER ? "user" : "group",
			reserve->who);
	return text;
}

bool reserve_holds_back(const struct reserve *reserve, uint32_t uid)
{
	switch (reserve->whose) {
	case FOR_USER: return reserve->who != uid;
	case FOR_GROUP: return !admin_is_member(uid, reserve->who);
	default: return true;
	}
}

uint64_t reserve_on(const struct reserve *reserve, const uint8_t uuid[16])
{
	for (unsigned i = 0; i < reserve->count; i++)
		if (memcmp(reserve->keeps[i].uuid, uuid, 16) == 0)
			return reserve->keeps[i].bytes;
	return 0;
}

static bool wrong(char *why, size_t why_bytes, const char *text)
{
	snprintf(why, why_bytes, "%s", text);
	return false;
}

/* ---- files ---- */

/* The folder for reserves of this user: of all users for root, else his own. */
static bool own_folder(char path[PATH_MAX], bool *common, char *why, size_t why_bytes)
{
	char state[PATH_MAX];
	int fd = geteuid() == 0 ? admin_dir_open("reserve") : -1;
	const char *problem;

	*common = fd >= 0;
	if (fd >= 0) {
		close(fd);
		snprintf(path, PATH_MAX, CUWARD_RUNDIR "/reserve");
		return true;
	}
	problem = state_folder(state);
	if (problem)
		return wrong(why, why_bytes, problem);
	snprintf(path, PATH_MAX, "%s", state);
	problem = state_make(path);
	if (!problem && snprintf(path, PATH_MAX, "%s/reserve", state) < PATH_MAX)
		problem = state_make(path);
	if (problem)
		snprintf(why, why_bytes, "%s: %s; `cuward doctor` says more", path, problem);
	return !problem;
}

/* True: it counts. False with a sentence: nobody knows. False without: it is over, or nothing. */
static bool read_file(struct reserve *reserve, int folder, const char *name, char *why, size_t why_bytes)
{
	static char text[QUEUE_FILE_BYTES + 1];
	char problem[100] = "";
	struct stat info;
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && errno == ENOENT)
		return false;
	if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
		wrong(problem, sizeof(problem), "it is no file that can be read");
	else if (info.st_uid != geteuid() && info.st_uid != 0)
		wrong(problem, sizeof(problem), "it belongs to somebody else");
	else
		reserve_parse(reserve, text, pread_some(fd, text, sizeof(text), 0), problem, sizeof(problem));
	if (fd >= 0)
		close(fd);
	if (problem[0]) {
		snprintf(why, why_bytes, "the reserve %s cannot be understood: %s; nobody is let in while it is "
			"there (`cuward release` or rm removes it)", reserve->path, problem);
		return false;
	}
	if (reserve->until_ns > now_ns())
		return true;
	unlinkat(folder, name, 0); /* where we may */
	return false;
}

static bool add_folder(struct reserve_list *list, const char *path, bool common, char *why,
	size_t why_bytes)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;

	why[0] = '\0';
	while (folder && !why[0] && list->count < RESERVES_MAX && (entry = readdir(folder))) {
		struct reserve *one;

		if (entry->d_name[0] == '.')
			continue;
		list->all = need_room(list->all, list->count, &list->capacity, sizeof(*list->all));
		one = &list->all[list->count];
		*one = (struct reserve){ .common = common };
		snprintf(one->id, sizeof(one->id), "%s", entry->d_name);
		snprintf(one->path, sizeof(one->path), "%s/%s", path, entry->d_name);
		if (read_file(one, dirfd(folder), entry->d_name, why, why_bytes))
			list->count++;
	}
	if (folder)
		closedir(folder);
	else if (errno != ENOENT && errno != ENOTDIR)
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
	if (list->count == RESERVES_MAX)
		snprintf(why, why_bytes, "there are more than %u reserves in %s", RESERVES_MAX, path);
	return !why[0];
}

/* ---- by policy ---- */

static void add_policy(struct reserve_list *list, const struct admin *admin)
{
	for (unsigned r = 0; r < admin->reserve_count; r++) {
		struct reserve *one;

		list->all = need_room(list->all, list->count, &list->capacity, sizeof(*list->all));
		one = &list->all[list->count];
		*one = (struct reserve){
			.common = true, .policy = true, .who = admin->reserves[r].id,
			.whose = admin->reserves[r].of_group ? FOR_GROUP : FOR_USER,
		};
		snprintf(one->path, sizeof(one->path), "%s", admin->reserves[r].source);
		for (unsigned i = 0; i < SLOT_DEVICES; i++) {
			if (!admin->reserves[r].bytes[i])
				continue;
			memcpy(one->keeps[one->count].uuid, admin->uuids[i], 16);
			one->keeps[one->count++].bytes = admin->reserves[r].bytes[i];
		}
		list->count += one->count > 0;
	}
}

bool reserve_list_open(struct reserve_list *list, const struct admin *admin, char *why,
	size_t why_bytes)
{
	char path[PATH_MAX];
	int common = admin_dir_open("reserve");

	*list = (struct reserve_list){ 0 };
	if (admin)
		add_policy(list, admin);
	if (common >= 0) {
		close(common);
		if (!add_folder(list, CUWARD_RUNDIR "/reserve", true, why, why_bytes))
			return false;
	}
	if (state_folder(path) || strlen(path) + 16 > sizeof(path))
		return true;
	strcat(path, "/reserve");
	return add_folder(list, path, false, why, why_bytes);
}

void reserve_list_close(struct reserve_list *list)
{
	free(list->all);
	*list = (struct reserve_list){ 0 };
}

/* ---- a new one ---- */

static void name_it(struct reserve *reserve)
{
	static const char letters[] = "abcdefghjkmnpqrstvwxyz23456789";
	uint8_t random[6] = { 0 };

	if (getrandom(random, sizeof(random), 0) < 0)
		random[0] = (uint8_t)getpid();
	for (size_t i = 0; i < sizeof(random); i++)
		reserve->id[i] = letters[random[i] % (sizeof(letters) - 1)];
	reserve->id[sizeof(random)] = '\0';
}

bool reserve_make(struct reserve *reserve, char *why, size_t why_bytes)
{
	char folder[PATH_MAX], hidden[PATH_MAX + 40];
	char *text = reserve_text(reserve);
	bool fine;
	int fd;

	if (!own_folder(folder, &reserve->common, why, why_bytes)) {
		free(text);
		return false;
	}
	name_it(reserve);
	snprintf(hidden, sizeof(hidden), "%s/.%s", folder, reserve->id);
	snprintf(reserve->path, sizeof(reserve->path), "%s/%s", folder, reserve->id);
	fd = open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	fine = fd >= 0 && fchmod(fd, 0644) == 0 &&
		write(fd, text, strlen(text)) == (ssize_t)strlen(text) && rename(hidden, reserve->path) == 0;
	if (!fine)
		snprintf(why, why_bytes, "%s: %s", hidden, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !fine)
		unlink(hidden);
	free(text);
	return fine;
}
