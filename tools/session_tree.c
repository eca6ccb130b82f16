/*
 * session_tree.c - the files of a trace session: size, owner, removal.
 */
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session_parts.h"

#define TREE_DESCRIPTORS 16

static uint64_t size_sum;

static int add_size(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)path;
	(void)where;
	if (type == FTW_F)
		size_sum += status->st_size;
	return 0;
}

uint64_t tree_size(const char *path)
{
	size_sum = 0;
	nftw(path, add_size, TREE_DESCRIPTORS, FTW_PHYS);
	return size_sum;
}

static int take_over(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)type;
	(void)where;
	if (status->st_uid == USER_NOBODY && lchown(path, geteuid(), getegid()) != 0)
		return 0; /* still readable to root, who is the only one to come here */
	return 0;
}

void tree_take_over(const char *path)
{
	if (geteuid() == 0)
		nftw(path, take_over, TREE_DESCRIPTORS, FTW_PHYS);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

/* nftw hands no pointer on. */
static const char *link_from, *link_to;

static int link_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	char to[4096 + 600];

	(void)status;
	(void)where;
	snprintf(to, sizeof(to), "%s%s", link_to, path + strlen(link_from));
	/* Where links are not to be had, the folder above has all of it. */
	if (type == FTW_D)
		mkdir(to, 0770);
	else if (type == FTW_F && link(path, to) != 0)
		return 0;
	return 0;
}

void tree_link(const char *from, const char *to)
{
	char above[4096 + 600];
	char *end;

	snprintf(above, sizeof(above), "%s", to);
	end = strrchr(above, '/');
	if (end) {
		*end = 0;
		mkdir(above, 0770);
	}
	link_from = from;
	link_to = to;
	nftw(from, link_one, TREE_DESCRIPTORS, FTW_PHYS);
}

void tree_remove(const char *path)
{
	nftw(path, remove_one, TREE_DESCRIPTORS, FTW_PHYS | FTW_DEPTH);
}
