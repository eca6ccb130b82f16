/*
 * run_pids.c - what processes of the run are called here that see themselves in another pid namespace.
 *
 * That can be told while they live only, and the report is written afterwards. So the folder of their
 * ledgers is watched: one that comes means a process, and its name says which. Of who is gone by the
 * time that we look nothing is known.
 */
#include "run.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "need.h"
#include "outer_pid.h"

/* A process whose ledger came. */
struct came {
	struct process_identity who; /* its pid, when it was started, and its namespace, 0 unknown */
	pid_t pid; /* here */
	bool twice; /* there was another one like it */
};

static struct {
	int fd; /* of inotify, 0 nobody looks */
	char **folders; /* by watch descriptor */
	size_t folder_count;
	struct came *all;
	size_t count, capacity;
} pids;

/* ---- who came ---- */

static struct came *find(const struct process_identity *who)
{
	for (size_t i = 0; i < pids.count; i++) {
		const struct process_identity *one = &pids.all[i].who;

		if (one->pid == who->pid && one->start_ticks == who->start_ticks &&
			(!one->pid_ns || one->pid_ns == who->pid_ns))
			return &pids.all[i];
	}
	return NULL;
}

static void take(void *to, const struct process_identity *who, pid_t pid)
{
	struct came *known = find(who);

	(void)to;
	if (known) {
		known->twice |= known->pid != pid;
		return;
	}
	pids.all = need_room(pids.all, pids.count, &pids.capacity, sizeof(*pids.all));
	pids.all[pids.count++] = (struct came){ .who = *who, .pid = pid };
}

static void take_name(const char *name)
{
	struct process_identity who = { 0 };
	uint32_t image;
	int end = 0;

	if (sscanf(name, "%" SCNu32 "-%" SCNu32 "-%" SCNu64 ".ledger%n", &who.pid, &image, &who.start_ticks,
		&end) == 3 && end && !name[end])
		outer_pid_each(who.pid, who.start_ticks, take, NULL);
}

/* ---- the folders ---- */

static void watch(const char *path)
{
	int number = inotify_add_watch(pids.fd, path, IN_CREATE | IN_ONLYDIR);
	DIR *folder = number < 0 ? NULL : opendir(path);
	struct dirent *entry;

	if (number < 0)
		return;
	while (pids.folder_count <= (size_t)number) {
		pids.folders = need(reallocarray(pids.folders, pids.folder_count + 1, sizeof(char *)));
		pids.folders[pids.folder_count++] = NULL;
	}
	free(pids.folders[number]);
	pids.folders[number] = need_copy(path);
	/* What came before the watch. */
	while (folder && (entry = readdir(folder)))
		take_name(entry->d_name);
	if (folder)
		closedir(folder);
}

/* An inner run has a folder within. */
static void watch_inner(const struct inotify_event *event)
{
	char path[PATH_MAX];
	const char *folder = event->wd >= 0 && (size_t)event->wd < pids.folder_count ?
		pids.folders[event->wd] : NULL;

	if (folder && snprintf(path, sizeof(path), "%s/%s", folder, event->name) < (int)sizeof(path))
		watch(path);
}

void run_pids_open(const struct run *run)
{
	bool wanted = run->values[SETTING_report].text || run->tracing || run->history ||
		run_watch_period(run);

	if (!wanted || !run->dir[0])
		return;
	pids.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (pids.fd < 0) {
		pids.fd = 0;
		return;
	}
	watch(run->job_dir);
	/* It wakes who waits for signals. */
	fcntl(pids.fd, F_SETOWN, getpid());
	fcntl(pids.fd, F_SETFL, O_NONBLOCK | O_ASYNC);
}

void run_pids_look(void)
{
	union {
		struct inotify_event first;
		char bytes[16 << 10];
	} events;
	ssize_t got;

	if (!pids.fd)
		return;
	outer_pid_forget();
	while ((got = read(pids.fd, &events, sizeof(events))) > 0) {
		for (ssize_t at = 0; at < got;) {
			const struct inotify_event *event = (const void *)(events.bytes + at);

			if (event->mask & IN_ISDIR)
				watch_inner(event);
			else if (event->len)
				take_name(event->name);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
}

pid_t run_pids_of(const struct process_identity *who)
{
	const struct came *came = find(who);

	if (who->pid_ns && who->pid_ns == ledger_own_pid_ns())
		return (pid_t)who->pid;
	if (came)
		return came->twice ? 0 : came->pid;
	return outer_pid(who);
}
