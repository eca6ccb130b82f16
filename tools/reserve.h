/*
 * reserve.h - GPU memory that is kept for somebody, or from everybody, for a while or by policy.
 *
 * One small file each, in the administrator's folder (root's files, for all users) or in the user's own
 * (it holds back his own runs only). It outlives the command that made it; when its time is over it is
 * nothing any more, whoever still finds the file. One that cannot be read could keep anything: then
 * nobody is let in, and the file is named.
 */
#ifndef RESERVE_H
#define RESERVE_H

#include "admin.h"
#include "queue.h"

enum reserve_for { FOR_NOBODY, FOR_USER, FOR_GROUP };

struct reserve {
	char id[16];     /* empty: by policy */
	char path[PATH_MAX];
	bool common;     /* holds back all users */
	bool policy;
	enum reserve_for whose;
	uint32_t who;    /* uid or gid */
	uint64_t since_ns, until_ns; /* CLOCK_REALTIME; until 0: for good */
	unsigned count;
	struct queue_ask keeps[SLOT_DEVICES];
};

struct reserve_list {
	struct reserve *all;
	size_t count, capacity;
};

/* Those in force. admin may be NULL: only files. False: one cannot be read, `why` says which and why. */
bool reserve_list_open(struct reserve_list *list, const struct admin *admin, char *why,
	size_t why_bytes);
void reserve_list_close(struct reserve_list *list);

/* Does it keep this user from it? Else it is for him. */
bool reserve_holds_back(const struct reserve *reserve, uint32_t uid);
uint64_t reserve_on(const struct reserve *reserve, const uint8_t uuid[16]);

/* Make one; its id is chosen and its path filled in. False: why not. */
bool reserve_make(struct reserve *reserve, char *why, size_t why_bytes);

/* "@NAME" a group, else a user; "NAME" or a number a user. False: there is none. */
bool reserve_parse_whose(struct reserve *reserve, const char *text);
/* "user alice", "group students", "nobody"; good until the next call. */
const char *reserve_whose(const struct reserve *reserve);

/* What a file holds. False: `why` says what is wrong with it. */
bool reserve_parse(struct reserve *reserve, const char *text, size_t bytes, char *why, size_t why_bytes);
/* The other way round; to be freed. */
char *reserve_text(const struct reserve *reserve);

#endif
