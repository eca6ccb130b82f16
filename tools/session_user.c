/*
 * session_user.c - under whose uid the session daemon runs.
 *
 * A session daemon of root ignores LTTNG_HOME and takes the box's global sockets. So for root it
 * runs as nobody, and keeps one capability: to write the trace where root wants it. Whoever could
 * talk to it could then write anywhere, so its home opens to root and to a group that no other
 * process is in, and not to the rest of nobody's processes.
 */
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "session_parts.h"

/* Ids that systemd hands out for a while, so that no lasting group has them. */
#define GID_FIRST 61184
#define GID_COUNT 4336

#define REACH (1u << CAP_DAC_OVERRIDE)

static bool caps_get(struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &head, caps) == 0;
}

static bool caps_set_only(unsigned wanted)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {
		{.effective = wanted, .permitted = wanted, .inheritable = wanted}};

	return syscall(SYS_capset, &head, caps) == 0;
}

static bool caps_reach(void)
{
	struct __user_cap_data_struct caps[2];

	return caps_get(caps) && (caps[0].permitted & REACH);
}

/*
 * A root without the right to pass any door, as in some containers, must be let in by its group.
 * The daemon would make its folder for itself alone.
 */
static bool home_share(const char *home, gid_t gid)
{
	char inside[64];

	snprintf(inside, sizeof(inside), "%s/.lttng", home);
	return mkdir(inside, 0700) == 0 && chmod(inside, 0770) == 0 &&
		chown(inside, USER_NOBODY, gid) == 0 && chmod(home, 0770) == 0 &&
		chown(home, USER_NOBODY, gid) == 0;
}

bool user_choose(struct session_user *user, const char *home)
{
	*user = (struct session_user){.drop = geteuid() == 0};
	if (!user->drop)
		return true;
	user->gid = GID_FIRST + getpid() % GID_COUNT;
	user->reach = caps_reach() && chown(home, -1, user->gid) == 0 && chmod(home, 0770) == 0;
	if (user->reach)
		return true;
	user->gid = getegid();
	return home_share(home, user->gid);
}

bool user_drop(const struct session_user *user)
{
	if (!user->drop)
		return true;
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if (setgroups(0, NULL) != 0 || setresgid(user->gid, user->gid, user->gid) != 0 ||
		setresuid(USER_NOBODY, USER_NOBODY, USER_NOBODY) != 0)
		return false;
	return caps_set_only(user->reach ? REACH : 0) &&
		(!user->reach ||
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0) == 0);
}
