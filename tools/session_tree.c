/*
 * session_tree.c - the files of a trace session: size, owner, removal.
 */
#include <ftw.h>
#include <stdio.h>
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

void tree_remove(const char *path)
{
	nftw(path, remove_one, TREE_DESCRIPTORS, FTW_PHYS | FTW_DEPTH);
}
