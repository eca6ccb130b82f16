/*
 * cmd_limit.c - `cuward limit`: limits of running processes and jobs, and where each comes from.
 */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "cuward.h"
#include "format.h"
#include "gpus.h"
#include "limit_show.h"
#include "live_limit.h"
#include "need.h"
#include "ps.h"

enum { WORDS = 3 };

struct order {
	const char *words[WORDS]; /* get, set, ...; a process or job; a limit */
	unsigned count;
	bool json;
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct order *order = state->input;

	switch (key) {
	case 'j': order->json = true; return 0;
	case ARGP_KEY_ARG:
		if (order->count == WORDS)
			argp_usage(state);
		order->words[order->count++] = argument;
		return 0;
	case ARGP_KEY_END:
		if (!order->count)
			argp_error(state, "get, set, clear or check?");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int fail(int status, const char *what, const char *why)
{
	fputs("cuward: limit: ", stderr);
	put_safe(stderr, what, 0);
	fprintf(stderr, ": %s\n", why);
	return status;
}

static int fail_of(int status, const struct box_process *process, const char *why)
{
	char what[300];

	snprintf(what, sizeof(what), "process %s, %s", ps_pid(process), process->who->command);
	return fail(status, what, why);
}

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

/* ---- whom it is about ---- */

struct targets {
	struct box_process **all;
	size_t count;
	enum live_scope scope;
	uid_t uid; /* LIVE_USER */
};

/* The job whose limit binds it, which may be one around its own. */
static bool is_bound_by(const struct box_process *process, const char *job)
{
	return process->entry->slot.group_length == strlen(job) &&
		strncmp(process->who->job, job, strlen(job)) == 0;
}

static bool is_there(const struct box *box, const char *job)
{
	for (size_t i = 0; i < box->count; i++)
		if (box->processes[i].owner != OWNER_DEAD && box_in_job(&box->processes[i], job))
			return true;
	return false;
}

/* A number is a process; a word is a job, or a user where no job has that name. */
static enum live_scope scope_of(const struct box *box, const char *name, uid_t *uid)
{
	const struct passwd *user;

	if (is_number(name))
		return LIVE_PROCESS;
	user = is_there(box, name) ? NULL : getpwnam(name);
	if (user)
		*uid = user->pw_uid;
	return user ? LIVE_USER : LIVE_JOB;
}

static bool is_meant(const struct targets *targets, const struct box *box,
	const struct box_process *process, const char *name, bool exactly)
{
	switch (targets->scope) {
	case LIVE_PROCESS: return process == box_find(box, box_pid(name));
	case LIVE_USER: return process->owner != OWNER_DEAD && process->uid == targets->uid;
	default: return process->owner != OWNER_DEAD && box_in_job(process, name) &&
		(!exactly || is_bound_by(process, name));
	}
}

static void find_targets(struct targets *targets, const struct box *box, const char *name, bool exactly)
{
	*targets = (struct targets){ 0 };
	targets->scope = scope_of(box, name, &targets->uid);
	targets->all = need_zeroed(box->count, sizeof(struct box_process *));
	for (size_t i = 0; i < box->count; i++) {
		struct box_process *process = &box->processes[i];

		if (is_meant(targets, box, process, name, exactly))
			targets->all[targets->count++] = process;
	}
}

static int nobody(const char *name)
{
	return fail(EXIT_FOUND, name, is_number(name) ? "no process with this pid uses CUDA under cuward" :
		"no process of this job or user uses CUDA, or its limit is that of a job around it");
}

/* ---- get, set, clear ---- */

/* The GPUs that the driver shows here; where there is none, those that others hold. */
static unsigned find_devices(struct limit_device devices[SLOT_DEVICES], const struct box *box)
{
	struct gpu_fact facts[SLOT_DEVICES];
	unsigned count = gpus_ask(facts);

	for (unsigned i = 0; i < count; i++) {
		memcpy(devices[i].uuid, facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = facts[i].total_bytes;
	}
	for (size_t i = 0; i < box->gpu_count && i < SLOT_DEVICES && !count; i++) {
		memcpy(devices[i].uuid, box->gpus[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = box->gpus[i].total_bytes;
	}
	return count ? count : box->gpu_count < SLOT_DEVICES ? (unsigned)box->gpu_count : SLOT_DEVICES;
}

static int get_here(const struct order *order, const struct box *box)
{
	const struct limit_asked asked[2] = { { "process", getenv("CUWARD_MEMORY"), "CUWARD_MEMORY" },
		{ "job", getenv("CUWARD_JOB_MEMORY"), "CUWARD_JOB_MEMORY" } };
	struct limit_device devices[SLOT_DEVICES];
	unsigned count = find_devices(devices, box);

	return limit_here(stdout, asked, devices, count, order->json) ? EXIT_FINE : EXIT_FOUND;
}

static int get(const struct order *order, const struct box *box)
{
	struct targets targets;
	int status = EXIT_FINE;

	if (order->count > 2)
		return fail(EXIT_USAGE, order->words[2], "get takes a process, a job or a user");
	if (order->count == 1)
		return get_here(order, box);
	find_targets(&targets, box, order->words[1], false);
	if (targets.count)
		limit_show(stdout, box, targets.all, targets.count, order->json);
	else
		status = nobody(order->words[1]);
	free(targets.all);
	return status;
}

static int change_one(const struct targets *targets, const struct box_process *process,
	const struct limit *limit)
{
	struct live_change change = { .clear = !limit };
	char why[300];
	int error;

	if (!process->file->own && geteuid() != 0)
		return fail_of(EXIT_NO_PERMISSION, process, "it belongs to another user");
	if (limit && !live_resolve(&change, process, limit, why, sizeof(why)))
		return fail_of(EXIT_FOUND, process, why);
	error = live_write(process, targets->scope, &change);
	if (!error || (error == -ESRCH && targets->scope != LIVE_PROCESS))
		return EXIT_FINE;
	return fail_of(error == -EACCES || error == -EPERM ? EXIT_NO_PERMISSION : EXIT_FOUND, process,
		strerror(-error));
}

static int change(const struct order *order, const struct box *box, const struct limit *limit)
{
	struct targets targets;
	int status = EXIT_FINE;

	find_targets(&targets, box, order->words[1], true);
	if (!targets.count)
		status = nobody(order->words[1]);
	for (size_t i = 0; i < targets.count; i++) {
		int one = change_one(&targets, targets.all[i], limit);

		status = one > status ? one : status;
	}
	free(targets.all);
	return status;
}

static int set(const struct order *order, const struct box *box)
{
	struct limit limit;
	char why[300];

	if (order->count != 3)
		return fail(EXIT_USAGE, "set", "of which process, job or user, and which limit?");
	if (!limit_parse(&limit, order->words[2], why, sizeof(why)))
		return fail(EXIT_USAGE, "set", why);
	return change(order, box, &limit);
}

static int clear(const struct order *order, const struct box *box)
{
	if (order->count != 2)
		return fail(EXIT_USAGE, "clear", "of which process, job or user?");
	return change(order, box, NULL);
}

/* ---- check ---- */

static int check_policy(void)
{
	struct admin admin;
	char why[300];

	if (!admin_read(&admin, NULL, 0, getuid(), why, sizeof(why)))
		return fail(EXIT_FOUND, "check", why);
	if (admin.warning[0] || admin.nobody[0])
		return fail(EXIT_FOUND, "check", admin.warning[0] ? admin.warning : admin.nobody);
	printf("the policy files in " CUWARD_SYSCONFDIR " can be read\n");
	return EXIT_FINE;
}

/* What all of them hold on a GPU, and the least that the limit means for one of them there. */
struct sum {
	uint64_t used_bytes, limit_bytes;
};

static int add_to_sums(struct sum *sums, const struct box_process *process, const struct limit *limit)
{
	struct live_change change;
	char why[300];

	if (!live_resolve(&change, process, limit, why, sizeof(why)))
		return fail_of(EXIT_FOUND, process, why);
	for (size_t i = 0; i < process->hold_count; i++) {
		const struct box_hold *hold = &process->holds[i];
		struct sum *sum = &sums[hold->gpu];
		uint64_t bytes = change.bytes[hold->word];

		if (hold->used_bytes != BYTES_UNKNOWN)
			sum->used_bytes += hold->used_bytes;
		if (bytes && bytes < sum->limit_bytes)
			sum->limit_bytes = bytes;
	}
	return EXIT_FINE;
}

/* Would this process, or all of the job or user together, be over it already? */
static int check_targets(const struct box *box, const struct targets *targets, const char *name,
	const struct limit *limit)
{
	struct sum *sums = need_zeroed(box->gpu_count, sizeof(*sums));
	int status = EXIT_FINE;

	for (size_t i = 0; i < box->gpu_count; i++)
		sums[i].limit_bytes = BYTES_NONE;
	for (size_t i = 0; i < targets->count; i++)
		if (add_to_sums(sums, targets->all[i], limit) != EXIT_FINE)
			status = EXIT_FOUND;
	for (size_t i = 0; i < box->gpu_count; i++) {
		if (sums[i].used_bytes <= sums[i].limit_bytes)
			continue;
		put_safe(stdout, name, 0);
		printf(" holds %s on %s, more than %s: nothing is taken from it, and it gets no more\n",
			format_bytes(sums[i].used_bytes), box_gpu_name(box, &box->gpus[i]),
			format_bytes(sums[i].limit_bytes));
		status = EXIT_FOUND;
	}
	free(sums);
	return status;
}

static int check(const struct order *order, const struct box *box)
{
	struct targets targets;
	struct limit limit;
	char why[300];
	int status;

	if (order->count == 1)
		return check_policy();
	if (!limit_parse(&limit, order->words[order->count - 1], why, sizeof(why)))
		return fail(EXIT_FOUND, "check", why);
	if (order->count == 2)
		return EXIT_FINE;
	find_targets(&targets, box, order->words[1], false);
	status = targets.count ? check_targets(box, &targets, order->words[1], &limit) :
		nobody(order->words[1]);
	free(targets.all);
	return status;
}

static const struct {
	const char *word;
	int (*run)(const struct order *, const struct box *);
} verbs[] = { { "get", get }, { "set", set }, { "clear", clear }, { "check", check } };

int cmd_limit(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "get: as JSON", 0 }, { 0 },
	};
	static const struct argp parser = { .options = options, .parser = parse_option,
		.args_doc = "get [PID|JOB|USER]\nset PID|JOB|USER LIMIT\nclear PID|JOB|USER\n"
			"check [[PID|JOB|USER] LIMIT]",
		.doc = "Limits of running processes, jobs and users, live, and where each comes from.\v"
			"A process follows at its next allocation. The administrator's limits stay.\n"
			"Exit status: 0, 1 not found or not so, 2 usage, 4 no permission." };
	struct order order = { 0 };
	struct box box;
	int status = -1;

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &order);
	box_open(&box, false);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(order.words[0], verbs[i].word) == 0)
			status = verbs[i].run(&order, &box);
	box_close(&box);
	return status >= 0 ? status : fail(EXIT_USAGE, order.words[0], "it is get, set, clear or check");
}
