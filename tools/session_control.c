/*
 * session_control.c - the process that tells the session daemon what to record; the only file of
 * the command that includes the headers of liblttng-ctl.
 *
 * It runs under the daemon's uid, for root's own liblttng-ctl would look for the box's daemon. The
 * library is loaded here and not linked: it brings libxml2 and ICU, which no other command needs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "session_parts.h"

#if !defined(CUWARD_WITHOUT_LTTNG) && __has_include(<lttng/lttng.h>)
#include <lttng/lttng.h>

#define CONTROL_CALLS(X) \
	X(lttng_session_daemon_alive) \
	X(lttng_list_sessions) \
	X(lttng_session_descriptor_local_create) \
	X(lttng_session_descriptor_network_create) \
	X(lttng_session_descriptor_snapshot_create) \
	X(lttng_snapshot_output_create) \
	X(lttng_snapshot_output_set_local_path) \
	X(lttng_snapshot_output_set_name) \
	X(lttng_snapshot_output_destroy) \
	X(lttng_snapshot_record) \
	X(lttng_create_session_ext) \
	X(lttng_create_handle) \
	X(lttng_channel_create) \
	X(lttng_enable_channel) \
	X(lttng_event_create) \
	X(lttng_enable_event_with_exclusions) \
	X(lttng_start_tracing) \
	X(lttng_stop_tracing_no_wait) \
	X(lttng_data_pending) \
	X(lttng_list_channels) \
	X(lttng_channel_get_discarded_event_count) \
	X(lttng_channel_get_lost_packet_count) \
	X(lttng_destroy_session_no_wait) \
	X(lttng_strerror)

static struct {
#define X(name) __typeof__(&name) name;
	CONTROL_CALLS(X)
#undef X
} ctl;

static bool control_load(int talk)
{
	void *library = dlopen("liblttng-ctl.so.0", RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		talk_bad(talk, "needs liblttng-ctl: install the package lttng-tools (%s)",
			dlerror());
		return false;
	}
#define X(name) \
	ctl.name = (__typeof__(ctl.name))dlsym(library, #name); \
	if (!ctl.name) { \
		talk_bad(talk, "needs liblttng-ctl 2.13 or newer: it has no " #name); \
		return false; \
	}
	CONTROL_CALLS(X)
#undef X
	return true;
}

/* ---- sizes ---- */

struct channel_plan {
	const char *name;
	unsigned share; /* of 16 parts of the memory of one CPU */
	unsigned buffers;
	uint64_t buffer_bytes_max;
	const char *events[8]; /* none: all that no other channel takes */
};

/*
 * A flood of calls must not push out what the quota report needs. And a guest killed while it wrote
 * an event blocks that buffer for good: names, beginnings and ends, rare and most of them ours, are
 * kept away from what a guest writes all the time.
 */
static const struct channel_plan channels[] = {
	{"calls", 11, 8, 1 << 20,
		{"cuward:launch", "cuward:copy", "cuward:sync", "cuward:gpu", "cuward:call",
		"cuward:untimed", "cuward:launched"}},
	{"memory", 4, 8, 256 << 10,
		{"cuward:alloc", "cuward:free", "cuward:denied", "cuward:context",
			"cuward:stream", "cuward:held"}},
	{"process", 1, 4, 64 << 10, {NULL}},
};

/*
 * A flight recorder is two sessions: what happens all the time goes round in memory, and what is rare,
 * or names what others say, is written as it comes, so that any snapshot has it.
 */
static const struct channel_plan ring_channels[] = {
	{"calls", 11, 8, 1 << 20,
		{"cuward:launch", "cuward:copy", "cuward:sync", "cuward:gpu", "cuward:call",
		"cuward:untimed", "cuward:launched"}},
	{"memory", 4, 8, 256 << 10, {"cuward:alloc", "cuward:free", "cuward:held"}},
};
static const struct channel_plan rare_channels[] = {{"process", 1, 4, 64 << 10, {NULL}}};

/* What one session records. */
struct session_kind {
	const struct channel_plan *channels;
	unsigned count;
	bool ring;
	const struct channel_plan *others; /* whose events are not ours */
	unsigned other_count;
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
static const struct session_kind whole = {channels, COUNT(channels), false, NULL, 0};
static const struct session_kind ring = {ring_channels, COUNT(ring_channels), true, NULL, 0};
static const struct session_kind rare = {
	rare_channels, COUNT(rare_channels), false, ring_channels, COUNT(ring_channels)};

#define BUFFERS_BYTES_MAX (128ull << 20)
/* A recorder's names are on disk so soon: a snapshot is read while the program goes on. */
#define NAMES_EVERY_US 500000u
#define RECORDER_BYTES_MAX (32ull << 20) /* and an eighth more, which overwriting needs: cuward-run(1) */
static uint64_t buffers_bytes_max = BUFFERS_BYTES_MAX;
#define BUFFER_BYTES_MIN 4096ull

/* LTTng makes buffers for each CPU that could ever be there: the last number of "0-127". */
static unsigned cpus_possible(void)
{
	FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	char text[256] = "";
	const char *last;

	if (file && !fgets(text, sizeof(text), file))
		text[0] = 0;
	if (file)
		fclose(file);
	last = strrchr(text, '-') ? strrchr(text, '-') + 1 : strrchr(text, ',');
	if (last && atol(last) + 1 > configured)
		configured = atol(last) + 1;
	return configured > 0 ? configured : 1;
}

static uint64_t shm_free(void)
{
	struct statvfs shm;

	if (statvfs("/dev/shm", &shm) != 0)
		return 0;
	return (uint64_t)shm.f_bavail * shm.f_frsize;
}

/* A quarter of what /dev/shm has free: other uids of the tree get buffers of the same size. */
static uint64_t cpu_bytes(void)
{
	uint64_t bytes = shm_free() / 4;

	return (bytes < buffers_bytes_max ? bytes : buffers_bytes_max) / cpus_possible();
}

static uint64_t buffer_bytes(const struct channel_plan *plan)
{
	uint64_t wanted = cpu_bytes() * plan->share / 16 / plan->buffers;
	uint64_t bytes = BUFFER_BYTES_MIN;

	while (bytes * 2 <= wanted && bytes * 2 <= plan->buffer_bytes_max)
		bytes *= 2;
	return bytes;
}

/* LTTng itself doesn't say when /dev/shm is too small for it: it records nothing. */
static bool shm_suffices(int talk)
{
	uint64_t needed = 0;

	for (unsigned i = 0; i < COUNT(channels); i++)
		needed += (buffer_bytes(&channels[i]) + BUFFER_BYTES_MIN) * channels[i].buffers;
	needed *= cpus_possible();
	if (needed < shm_free())
		return true;
	talk_bad(talk, "needs %llu KiB of shared memory, and /dev/shm has %llu KiB free",
		(unsigned long long)needed >> 10, (unsigned long long)shm_free() >> 10);
	return false;
}

/* ---- set-up ---- */

static struct lttng_domain domain = {.type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID};

static int channel_add(struct lttng_handle *handle, const struct channel_plan *plan,
	const struct session_kind *kind)
{
	struct lttng_channel *channel = ctl.lttng_channel_create(&domain);

	if (!channel)
		return -LTTNG_ERR_NOMEM;
	snprintf(channel->name, sizeof(channel->name), "%s", plan->name);
	channel->attr.overwrite = kind->ring;
	channel->attr.switch_timer_interval = kind->others ? NAMES_EVERY_US : 0;
	channel->attr.subbuf_size = buffer_bytes(plan);
	channel->attr.num_subbuf = plan->buffers;
	return ctl.lttng_enable_channel(handle, channel);
}

static int event_add(struct lttng_handle *handle, const char *channel, const char *name,
	int excluded_count, char **excluded)
{
	struct lttng_event *event = ctl.lttng_event_create();

	if (!event)
		return -LTTNG_ERR_NOMEM;
	event->type = LTTNG_EVENT_TRACEPOINT;
	event->loglevel_type = LTTNG_EVENT_LOGLEVEL_ALL;
	event->loglevel = -1;
	snprintf(event->name, sizeof(event->name), "%s", name);
	return ctl.lttng_enable_event_with_exclusions(
		handle, event, channel, NULL, excluded_count, excluded);
}

static int events_add(struct lttng_handle *handle, const struct session_kind *kind)
{
	const struct channel_plan *end = kind->channels + kind->count;
	char *taken[32];
	int count = 0, result = 0;

	for (unsigned k = 0; k < kind->other_count; k++)
		for (unsigned i = 0; i < 8 && kind->others[k].events[i]; i++)
			taken[count++] = (char *)kind->others[k].events[i];
	for (const struct channel_plan *c = kind->channels; c < end && result >= 0; c++) {
		if (!c->events[0])
			result = event_add(handle, c->name, "cuward:*", count, taken);
		for (unsigned i = 0; i < 8 && c->events[i] && result >= 0; i++) {
			taken[count++] = (char *)c->events[i];
			result = event_add(handle, c->name, c->events[i], 0, NULL);
		}
	}
	return result;
}

static int channels_add(struct lttng_handle *handle, const struct session_kind *kind)
{
	int result = 0;

	for (unsigned i = 0; i < kind->count && result >= 0; i++)
		result = channel_add(handle, &kind->channels[i], kind);
	return result;
}

/* Both ports are in the one URL. */
static struct lttng_session_descriptor *describe(const struct session_plan *plan)
{
	if (session_is_remote(plan->trace_dir))
		return ctl.lttng_session_descriptor_network_create(plan->name, plan->trace_dir, NULL);
	return ctl.lttng_session_descriptor_local_create(plan->name, plan->trace_dir);
}

/* 0 or a negative LTTng error code; what it was doing then is in *step. */
static int session_add(const char *name, struct lttng_session_descriptor *descriptor,
	const struct session_kind *kind, struct lttng_handle **handle, const char **step)
{
	int result;

	*step = "create a trace session";
	if (!descriptor)
		return -LTTNG_ERR_INVALID;
	result = ctl.lttng_create_session_ext(descriptor);
	if (result != LTTNG_OK)
		return -result;
	*handle = ctl.lttng_create_handle(name, &domain);
	if (!*handle)
		return -LTTNG_ERR_NOMEM;
	*step = "create trace buffers";
	result = channels_add(*handle, kind);
	if (result < 0)
		return result;
	*step = "enable the events";
	result = events_add(*handle, kind);
	if (result < 0)
		return result;
	*step = "start the trace session";
	return ctl.lttng_start_tracing(name);
}

static void ring_name(char name[64], const struct session_plan *plan)
{
	snprintf(name, 64, "%s-ring", plan->name);
}

static int control_set_up(const struct session_plan *plan, struct lttng_handle **handle,
	const char **step)
{
	struct lttng_handle *ring_handle;
	char name[64];
	int result = 0;

	if (plan->recorder) {
		ring_name(name, plan);
		result = session_add(name, ctl.lttng_session_descriptor_snapshot_create(name), &ring,
			&ring_handle, step);
	}
	if (result < 0)
		return result;
	return session_add(plan->name, describe(plan), plan->recorder ? &rare : &whole, handle, step);
}

/* ---- snapshots ---- */

/* Where it lies: the folder of that name that was not there before. */
static void control_snapshot(const struct session_plan *plan, const char *why, int talk)
{
	struct lttng_snapshot_output *output = ctl.lttng_snapshot_output_create();
	struct session_report report = {.good = true};
	char session[64], name[64];
	int result = -LTTNG_ERR_NOMEM;

	ring_name(session, plan);
	snprintf(name, sizeof(name), SNAPSHOT_PREFIX "%.32s", why);
	if (output && ctl.lttng_snapshot_output_set_local_path(plan->trace_dir, output) == 0 &&
		ctl.lttng_snapshot_output_set_name(name, output) == 0)
		result = ctl.lttng_snapshot_record(session, output, 1);
	if (output)
		ctl.lttng_snapshot_output_destroy(output);
	if (result < 0)
		talk_bad(talk, "no snapshot: %s", ctl.lttng_strerror(result));
	else
		talk_send(talk, &report);
}

/* ---- stop ---- */

/*
 * Wait until all buffers are on disk. A process that was killed while it wrote an event leaves a
 * buffer that never becomes readable; then no file grows any more, and waiting longer is in vain.
 */
static bool control_drain(const struct session_plan *plan)
{
	bool remote = session_is_remote(plan->trace_dir); /* we do not see it grow */
	int64_t now = clock_ms(), deadline = now + STOP_SECONDS * 1000, grown = now, looked = now;
	uint64_t size = 0;

	while (ctl.lttng_data_pending(plan->name) == 1) {
		usleep(2000);
		now = clock_ms();
		if (now - looked > 250) {
			uint64_t size_now = tree_size(plan->trace_dir);

			looked = now;
			if (size_now != size)
				grown = now;
			size = size_now;
		}
		if (now > deadline || (!remote && now - grown > 1000))
			return false;
	}
	return true;
}

/* LTTng does not tell that the disk was full. */
static bool is_full(const char *folder)
{
	struct statvfs disk;

	return statvfs(folder, &disk) == 0 &&
		(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize < 4096;
}

static uint64_t control_lost(struct lttng_handle *handle)
{
	struct lttng_channel *list = NULL;
	int count = ctl.lttng_list_channels(handle, &list);
	uint64_t sum = 0;

	for (int i = 0; i < count; i++) {
		uint64_t discarded = 0, packets = 0;

		ctl.lttng_channel_get_discarded_event_count(&list[i], &discarded);
		ctl.lttng_channel_get_lost_packet_count(&list[i], &packets);
		sum += discarded + packets;
	}
	free(list);
	return sum;
}

/* What is in memory and was not asked for is not wanted. */
static void ring_end(const struct session_plan *plan)
{
	char name[64];

	ring_name(name, plan);
	ctl.lttng_stop_tracing_no_wait(name);
	ctl.lttng_destroy_session_no_wait(name);
}

static void control_stop(const struct session_plan *plan, struct lttng_handle *handle, int talk)
{
	struct session_report report = {.good = true};
	int result = ctl.lttng_stop_tracing_no_wait(plan->name);

	if (result < 0) {
		talk_bad(talk, "the trace session did not stop: %s", ctl.lttng_strerror(result));
		return;
	}
	if (plan->recorder)
		ring_end(plan);
	report.last = true;
	report.result.complete = control_drain(plan);
	report.result.lost = control_lost(handle);
	if (!report.result.complete)
		snprintf(report.result.warning, sizeof(report.result.warning),
			"some trace buffers could not be read; a process may have been killed "
			"while it wrote an event");
	if (!session_is_remote(plan->trace_dir) && is_full(plan->trace_dir)) {
		report.result.complete = false;
		snprintf(report.result.warning, sizeof(report.result.warning),
			"no room is left on the disk of the trace: what did not fit is missing");
	}
	ctl.lttng_destroy_session_no_wait(plan->name);
	talk_send(talk, &report);
}

void control_main(const struct session_plan *plan, int talk)
{
	struct lttng_handle *handle = NULL;
	struct session_report request;
	const char *step = "";
	int result;

	plan_environment(plan);
	if (plan->recorder)
		buffers_bytes_max = RECORDER_BYTES_MAX;
	if (!control_load(talk) || !shm_suffices(talk))
		_exit(1);
	while (ctl.lttng_session_daemon_alive() != 1)
		usleep(1000); /* our keeper's patience is the limit */
	result = control_set_up(plan, &handle, &step);
	if (result < 0) {
		talk_bad(talk, "LTTng could not %s in %s: %s%s", step, plan->trace_dir,
			ctl.lttng_strerror(result), session_is_remote(plan->trace_dir) ?
			"; does lttng-relayd listen there, and can it be reached?" : "");
		_exit(1);
	}
	talk_good(talk);
	while (!talk_ended(talk, 60000))
		if (talk_receive(talk, &request, 0))
			control_snapshot(plan, request.result.warning, talk);
	control_stop(plan, handle, talk);
	_exit(0);
}

/* Another daemon's session of this name may be gone, and then there is nothing to count. */
void ask_main(const struct session_plan *plan, int talk)
{
	struct session_report report = {.good = true};
	struct lttng_session *sessions = NULL;
	int count;

	plan_environment(plan);
	if (!control_load(talk))
		_exit(1);
	if (ctl.lttng_session_daemon_alive() != 1 ||
		(count = ctl.lttng_list_sessions(&sessions)) < 0) {
		talk_bad(talk, "no session daemon answers");
		_exit(1);
	}
	for (int i = 0; i < count; i++) {
		if (strcmp(sessions[i].name, plan->name) != 0)
			continue;
		report.result.complete = true;
		report.result.lost = control_lost(ctl.lttng_create_handle(plan->name, &domain));
	}
	talk_send(talk, &report);
	_exit(0);
}

#else

void ask_main(const struct session_plan *plan, int talk)
{
	(void)plan;
	talk_bad(talk, "this cuward was built without LTTng, so traces are not available");
	_exit(1);
}

void control_main(const struct session_plan *plan, int talk)
{
	(void)plan;
	talk_bad(talk, "this cuward was built without LTTng, so --trace is not available");
	_exit(1);
}

#endif
