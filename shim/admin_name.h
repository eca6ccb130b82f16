/*
 * admin_name.h - users and groups of the policy files, as /etc/passwd and /etc/group name them.
 *
 * These two alone: the other ways to look up a name load libraries into the program.
 */
#ifndef CUWARD_ADMIN_NAME_H
#define CUWARD_ADMIN_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* A number, or a name that is there. */
bool admin_uid_of(const char *name, uint32_t *uid);
bool admin_gid_of(const char *name, uint32_t *gid);

/* Has this user a name there? Then one that is not there is not his. */
bool admin_is_listed(uint32_t uid);

/* Of ourselves the kernel knows; of others the files. */
bool admin_is_member(uint32_t uid, uint32_t gid);

#endif
