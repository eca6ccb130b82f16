/*
 * session_recorder.c - when a flight recorder takes a snapshot: on request of the command, of anybody
 * who may send the keeper SIGUSR1, and when a process of the job was refused memory or killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuward/ledger.h"
#include "session_parts.h"

enum { LOOK_MS = 20, APART_MS = 1000, IMAGES_EVERY_MS = 200, SAME_DEATH_MS = 3000 };

struct watch {
	const struct session_plan *plan;
	const struct recorder_ends *ends;
	struct session_result *result;
	const struct slots_header *slots; /* NULL: not there yet */
	uint32_t seen[SLOT_COUNT];        /* refusals of the slot's owner */
	uint32_t generation[SLOT_COUNT];
	unsigned tried;        /* snapshots */
	unsigned for_denied, for_deaths; /* of those */
	unsigned denied;       /* refusals that wait for one */
	int64_t denied_at;     /* when the last was taken for one */
	int asked;             /* the file with our lock, -1 */
	struct images images;
	int64_t images_looked_at;
	uint64_t counted;      /* refusals, all that were noticed */
	uint64_t missed;       /* that the ledgers had more than that when we looked last */
	int64_t dead_at;       /* when a snapshot was last taken for a death */
};

/* ---- requests of others ---- */

/* The folder of the job is made while we start. The lock is the process's, so it tells our pid. */
static void open_asked(struct watch *watch)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (watch->asked >= 0 || !watch->plan->recorder->asked[0])
		return;
	watch->asked = open(watch->plan->recorder->asked,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (watch->asked >= 0)
		fcntl(watch->asked, F_SETLK, &whole);
}

/* How many were tried, whether the last one was good, and where all of them lie. */
static void tell_asked(struct watch *watch, bool good)
{
	char text[4200];
	int length = snprintf(text, sizeof(text), "%u %d %s\n", ++watch->tried, good,
		watch->plan->trace_dir);

	if (watch->asked >= 0 && pwrite(watch->asked, text, (size_t)length, 0) != length)
		return;
}

/* ---- snapshots ---- */

bool recorder_link(const struct session_plan *plan)
{
	char from[4096], to[4096 + 300];
	DIR *folder = opendir(plan->trace_dir);
	const struct dirent *entry;
	bool any = false;

	snprintf(from, sizeof(from), "%s/ust", plan->trace_dir);
	while (folder && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, SNAPSHOT_PREFIX, strlen(SNAPSHOT_PREFIX)) != 0)
			continue;
		any = true;
		snprintf(to, sizeof(to), "%s/%s/definitions/ust", plan->trace_dir, entry->d_name);
		tree_link(from, to);
	}
	if (folder)
		closedir(folder);
	return any;
}

static bool snapshot(struct watch *watch, const char *why)
{
	struct session_report report = {.good = true};
	int control = watch->ends->control;
	bool good;

	snprintf(report.result.warning, sizeof(report.result.warning), "%s", why);
	talk_send(control, &report);
	good = talk_receive(control, &report, STOP_SECONDS * 1000) && report.good;
	watch->result->snapshots += good;
	if (good)
		recorder_link(watch->plan);
	else
		snprintf(watch->result->warning, sizeof(watch->result->warning), "%.200s",
			report.result.warning[0] ? report.result.warning :
			"a snapshot took too long");
	tell_asked(watch, good);
	return good;
}

/* ---- refusals ---- */

static void open_slots(struct watch *watch)
{
	size_t bytes = sizeof(struct slots_header) + SLOT_COUNT * sizeof(struct slot);
	int fd = open(watch->plan->recorder->slots, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat info;
	void *memory = MAP_FAILED;

	if (fd < 0)
		return;
	/* Ours alone, and never made shorter. */
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
		info.st_size >= (off_t)sizeof(struct slots_header))
		memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	watch->slots = memory == MAP_FAILED ? NULL : memory;
	if (watch->slots && watch->slots->magic == SLOTS_MAGIC &&
		watch->slots->version == CUWARD_LAYOUT_VERSION &&
		watch->slots->slot_bytes == sizeof(struct slot))
		return;
	if (watch->slots)
		munmap(memory, bytes);
	watch->slots = NULL;
}

static bool is_of_job(const struct slot *slot, const char *job)
{
	size_t length = strlen(job);

	return strncmp(slot->who.job, job, length) == 0 &&
		(slot->who.job[length] == 0 || slot->who.job[length] == '/');
}

/* A slot that has a new owner counts from 0; one that was given back keeps its count. */
static unsigned new_refusals(struct watch *watch)
{
	const struct slot *slots = (const struct slot *)(watch->slots + 1);
	uint32_t used = __atomic_load_n(&watch->slots->slots_used, __ATOMIC_RELAXED);
	unsigned sum = 0;

	for (uint32_t i = 0; i < used && i < SLOT_COUNT; i++) {
		uint32_t generation = __atomic_load_n(&slots[i].generation, __ATOMIC_RELAXED);
		uint32_t denied = __atomic_load_n(&slots[i].denied, __ATOMIC_ACQUIRE);

		if (!is_of_job(&slots[i], watch->plan->recorder->job))
			continue;
		if (watch->generation[i] != generation)
			watch->seen[i] = 0;
		if (denied > watch->seen[i])
			sum += denied - watch->seen[i];
		watch->generation[i] = generation;
		watch->seen[i] = denied;
	}
	return sum;
}

/* Those that come close together share one; so many, and no disk is filled. */
static void look_for_refusals(struct watch *watch, bool now)
{
	if (!watch->plan->recorder->on_denied)
		return;
	if (!watch->denied || (!now && clock_ms() - watch->denied_at < APART_MS))
		return;
	if (watch->for_denied == SNAPSHOTS_DENIED_MAX) {
		watch->result->unwritten += watch->denied;
		watch->denied = 0;
		return;
	}
	watch->denied = 0;
	watch->for_denied++;
	snapshot(watch, "denied");
	watch->denied_at = clock_ms();
}

/* ---- deaths, and what slots have not told ---- */

/* What ledgers have and slots never told, when we look again, too: the slot is the next one's by now. */
static void count_missed(struct watch *watch, bool last)
{
	uint64_t missed = watch->images.denied > watch->counted ?
		watch->images.denied - watch->counted : 0;
	uint64_t sure = last || missed < watch->missed ? missed : watch->missed;

	watch->denied += (unsigned)sure;
	watch->counted += sure;
	watch->missed = missed - sure;
}

/* Each death once, those that come close together share a snapshot. */
static void look_for_deaths(struct watch *watch)
{
	if (!watch->plan->recorder->on_signal || !watch->images.killed ||
		watch->for_deaths++ >= SNAPSHOTS_DENIED_MAX)
		return;
	snapshot(watch, "signal");
	watch->dead_at = clock_ms();
}

static void look(struct watch *watch, bool last)
{
	bool images = last || clock_ms() - watch->images_looked_at > IMAGES_EVERY_MS;
	unsigned refused;

	if (!watch->slots)
		open_slots(watch);
	refused = watch->slots ? new_refusals(watch) : 0;
	watch->denied += refused;
	watch->counted += refused;
	if (images) {
		images_look(&watch->images, watch->plan->recorder);
		watch->images_looked_at = clock_ms();
		count_missed(watch, last);
		look_for_deaths(watch);
	}
	look_for_refusals(watch, last);
}

/* What the command asks for at its end may have been noticed here just before. */
static void follow(struct watch *watch, const char *why)
{
	look(watch, true);
	if (strcmp(why, "signal") != 0 || !watch->dead_at ||
		clock_ms() - watch->dead_at > SAME_DEATH_MS)
		snapshot(watch, why);
}

/* ---- the loop ---- */

static bool was_asked(void)
{
	static const struct timespec none;
	sigset_t request;

	sigemptyset(&request);
	sigaddset(&request, SIGUSR1);
	return sigtimedwait(&request, NULL, &none) == SIGUSR1;
}

void recorder_watch(const struct session_plan *plan, const struct recorder_ends *ends,
	struct session_result *result)
{
	static struct watch watch;
	struct session_report request;

	watch = (struct watch){.plan = plan, .ends = ends, .result = result, .asked = -1,
		.denied_at = clock_ms() - APART_MS};
	while (!talk_ended(plan->talk, LOOK_MS) && !ends->broken(ends->user)) {
		open_asked(&watch);
		if (talk_receive(plan->talk, &request, 0))
			follow(&watch, request.result.warning);
		if (was_asked())
			snapshot(&watch, "asked");
		look(&watch, false);
	}
	look(&watch, true);
	if (watch.asked >= 0)
		unlink(plan->recorder->asked);
}
