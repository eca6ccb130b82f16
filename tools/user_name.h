/*
 * user_name.h - users by name.
 */
#ifndef USER_NAME_H
#define USER_NAME_H

#include <stdint.h>

/* The name of a user, or the number where there is none; to be freed. */
char *user_name(uint32_t uid);

#endif
