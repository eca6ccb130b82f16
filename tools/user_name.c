/*
 * user_name.c - users by name; asked once each, since a directory service may be slow.
 */
#include "user_name.h"

#include <pwd.h>
#include <stdio.h>

#include "need.h"

char *user_name(uint32_t uid)
{
	static uint32_t last_uid = UINT32_MAX;
	static char last[64];
	const struct passwd *user;

	if (uid == last_uid && last[0])
		return need_copy(last);
	user = getpwuid(uid);
	last_uid = uid;
	if (user && user->pw_name[0])
		snprintf(last, sizeof(last), "%s", user->pw_name);
	else
		snprintf(last, sizeof(last), "%u", uid);
	return need_copy(last);
}
