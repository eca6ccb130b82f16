/*
 * run_environment.c - what the command finds around it: the preload, the simulated driver,
 * settings, and the name of the folder where its processes leave their ledgers.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format.h"
#include "gpus.h"
#include "history.h"
#include "libraries.h"
#include "limit.h"
#include "limit_show.h"
#include "state.h"
#include "text.h"

/* Variables that the command gets another value of than we have; a NULL value removes one. */
static struct change {
	const char *name;
	char *value;
	const char *source;
} changes[32];
static unsigned change_count;

static void change(const char *name, const char *source, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void change(const char *name, const char *source, const char *format, ...)
{
	char *value = NULL;
	va_list args;

	va_start(args, format);
	if (format && vasprintf(&value, format, args) < 0)
		abort();
	va_end(args);
	changes[change_count++] = (struct change){ name, value, source };
}

/* ---- libraries ---- */

static int find_libraries(struct run *run)
{
	if (libraries_find(run->libraries))
		return 0;
	return run_fail("libcuward.so is neither in %s nor in %s", run->libraries, CUWARD_LIBDIR);
}

/* Ours goes first: an interposer behind another one may never be called. What was set stays. */
static int plan_preload(const struct run *run)
{
	const char *before = getenv("LD_PRELOAD");
	char ours[PATH_MAX + 16];
	size_t length = (size_t)snprintf(ours, sizeof(ours), "%s/libcuward.so", run->libraries);

	if (strpbrk(ours, ": "))
		return run_fail("%s: a path with a blank or a colon cannot be preloaded", ours);
	/* In a nested run it is there already. */
	if (before && strncmp(before, ours, length) == 0 && strchr(": ", before[length])) {
		change("LD_PRELOAD", "as it was", "%s", before);
		return 0;
	}
	change("LD_PRELOAD", "cuward run", "%s%s%s", ours, before && *before ? ":" : "",
		before ? before : "");
	return 0;
}

static void sim_folder(const struct run *run, char folder[2 * PATH_MAX])
{
	bool newest = !*run->sim || strcmp(run->sim, "13.0") == 0;

	snprintf(folder, 2 * PATH_MAX, "%s/sim%s%s", run->libraries, newest ? "" : "/",
		newest ? "" : run->sim);
}

bool run_environment_driver(const struct run *run, char path[PATH_MAX])
{
	char folder[2 * PATH_MAX];

	if (!run->sim)
		return false;
	sim_folder(run, folder);
	return snprintf(path, PATH_MAX, "%s/libcuda.so.1", folder) < PATH_MAX;
}

static int plan_sim(const struct run *run)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char folder[2 * PATH_MAX], library[2 * PATH_MAX + 16];

	if (!run->sim)
		return 0;
	sim_folder(run, folder);
	snprintf(library, sizeof(library), "%s/libcuda.so.1", folder);
	if (strchr(run->sim, '/') || run->sim[0] == '.' || access(library, R_OK) != 0)
		return run_fail("--sim: there is no simulated driver %s", library);
	change("LD_LIBRARY_PATH", "--sim", "%s%s%s", folder, before && *before ? ":" : "",
		before ? before : "");
	return 0;
}

/* ---- the state folder and the job ---- */

static int find_dir(struct run *run)
{
	const char *why = state_folder(run->dir);

	return why ? run_fail("%s", why) : 0;
}

/* Letters, digits, - _ . and / between; no part begins with a dot. */
static bool is_job(const char *job)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
	char previous = '/';

	for (; *job; previous = *job++)
		if (!strchr(letters, *job) || (previous == '/' && (*job == '.' || *job == '/')))
			return false;
	return previous != '/';
}

/* A name of eight letters that nobody else has; nested in the job we are part of. */
static int name_job(struct run *run)
{
	static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";
	const char *outer = getenv("CUWARD_JOB");
	uint8_t random[8];
	size_t used;

	if (outer && *outer && !is_job(outer))
		return run_fail("CUWARD_JOB: '%.128s' is no name of a job", outer);
	used = (size_t)snprintf(run->job, sizeof(run->job), "%s%s", outer ? outer : "",
		outer && *outer ? "/" : "");
	if (used + sizeof(random) >= sizeof(run->job))
		return run_fail("CUWARD_JOB: runs are nested too deep, or the name is too long");
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return run_fail("no random numbers: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(random); i++)
		run->job[used + i] = letters[random[i] % 32];
	run->job[used + sizeof(random)] = 0;
	snprintf(run->job_dir, sizeof(run->job_dir), "%s/jobs/%s", run->dir, run->job);
	return 0;
}

/* ---- the plan ---- */

static const enum run_setting passed_on[] = { SETTING_memory, SETTING_job_memory, SETTING_inner_memory,
	SETTING_gpu, SETTING_priority, SETTING_on_limit, SETTING_overhead, SETTING_leak, SETTING_stack,
	SETTING_gpu_time, SETTING_label, SETTING_log };

/* Is it this run that the job's limit was given to? An outer run's binds us too, as part of that. */
static bool limits_a_job(const struct run *run)
{
	const char *outer = getenv("CUWARD_JOB_MEMORY");
	bool outer_limits = outer && strcmp(outer, "none") != 0 && getenv("CUWARD_JOB_OF");

	return strcmp(run->values[SETTING_job_memory].text, "none") != 0 && !outer_limits;
}

int run_environment_plan(struct run *run)
{
	if (find_libraries(run) || find_dir(run) || name_job(run) || plan_preload(run) ||
		plan_sim(run))
		return EXIT_CUWARD;
	change("CUWARD_JOB", "cuward run", "%s", run->job);
	/* The limit binds all of the run it was given to, runs within it included. */
	if (limits_a_job(run))
		change("CUWARD_JOB_OF", "cuward run", "%s", run->job);
	if (strcmp(run->values[SETTING_inner_memory].source, "command line") == 0)
		change("CUWARD_INNER_OF", "cuward run", "%s", run->job);
	change("CUWARD_DIR", getenv("CUWARD_DIR") ? "environment" : "default", "%s", run->dir);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
		const struct run_value *value = &run->values[passed_on[i]];

		/* Which one is found when the command is about to start. */
		if (passed_on[i] == SETTING_gpu && run->gpu_auto)
			continue;
		if (value->text && strcmp(value->source, "default") != 0)
			change(run_setting_variable(passed_on[i]), value->source, "%s",
				value->text);
	}
	if (run->trace_to)
		change("CUWARD_TRACE", "command line", "1");
	/* This is our task; a guest that knew of it would write as well. */
	change(run_setting_variable(SETTING_report), "cuward run", NULL);
	return 0;
}

void run_environment_choose_gpu(const char *uuid)
{
	change(run_setting_variable(SETTING_gpu), "--gpu auto", "%s", uuid);
}

/* ---- dry run ---- */

static void print_amount(const struct limit_amount *amount)
{
	if (amount->unit == LIMIT_NONE)
		printf("none");
	else if (amount->unit == LIMIT_BYTES)
		printf("%llu bytes", (unsigned long long)amount->bytes);
	else
		printf("a percentage of the GPU");
}

static void print_limit(const struct run *run, enum run_setting setting, const char *whose)
{
	const struct run_value *value = &run->values[setting];
	struct limit limit;
	char why[256];

	if (!limit_parse(&limit, value->text, why, sizeof(why)))
		return;
	printf("limit of %s on each GPU: ", whose);
	if (limit.count == 0)
		print_amount(&limit.all);
	for (unsigned i = 0; i < limit.count; i++) {
		const struct limit_item *item = &limit.items[i];

		printf(i ? ", " : "");
		if (item->by == LIMIT_INDEX)
			printf("%u=", item->index);
		else
			printf("GPU-%s=", item->uuid);
		print_amount(&item->amount);
	}
	printf("  (%s: %s)\n", value->source, value->text);
}

/* GPU by GPU, as only their sizes and names tell; the driver is not met where there is no policy. */
static void print_policy(const struct run *run)
{
	struct limit_asked asked[2] = {
		{ "process", run->values[SETTING_memory].text, run->values[SETTING_memory].source },
		{ "job", run->values[SETTING_job_memory].text, run->values[SETTING_job_memory].source } };
	struct gpu_fact facts[SLOT_DEVICES];
	struct limit_device devices[SLOT_DEVICES];
	char driver[PATH_MAX];
	unsigned count;

	if (access(CUWARD_SYSCONFDIR, F_OK) != 0)
		return;
	count = gpus_ask_as(facts, run_environment_driver(run, driver) ? driver : NULL,
		run->gpu_auto ? NULL : run->values[SETTING_gpu].text);
	for (unsigned i = 0; i < count; i++) {
		memcpy(devices[i].uuid, facts[i].uuid, sizeof(devices[i].uuid));
		devices[i].total_bytes = facts[i].total_bytes;
	}
	printf("with what the administrator allows (" CUWARD_SYSCONFDIR "):\n");
	fflush(stdout);
	limit_here(stdout, asked, devices, count, false);
}

/* What is recorded, and where. */
static void print_records(const struct run *run)
{
	static const char *const words[] = { "on-denied", "on-leak", "on-signal" };
	char path[PATH_MAX];
	const char *comma = "";

	if (run->trace_to)
		printf("--trace: %s\n", *run->trace_to ? run->trace_to : "./cuward-trace-TIME-PID");
	printf(run->record ? "--record: " : "");
	for (unsigned i = 0; i < 3; i++)
		if (run->record & 1u << i) {
			printf("%s%s", comma, words[i]);
			comma = ",";
		}
	printf(run->record ? "\n" : "");
	if (history_file(path, run->history))
		printf("--history: %s\n", path);
}

void run_environment_print(const struct run *run)
{
	printf("command: %s\n", run->program);
	print_limit(run, SETTING_memory, "each process");
	print_limit(run, SETTING_job_memory, "all processes together");
	if (strcmp(run->values[SETTING_inner_memory].text, "none") != 0)
		print_limit(run, SETTING_inner_memory, "those of this run within the other");
	print_policy(run);
	for (enum run_setting i = 0; i < SETTING_COUNT; i++)
		if (run->values[i].text && i != SETTING_memory && i != SETTING_job_memory &&
			i != SETTING_inner_memory)
			printf("%s: %s  (%s)\n", run_setting_option(i), run->values[i].text,
				run->values[i].source);
	if (run->wait)
		printf("--wait: %s\n", run->wait_ns == UINT64_MAX ? "until it is free" :
			format_ns(run->wait_ns));
	for (enum run_watch_for what = 0; what < WATCH_COUNT; what++)
		if (run->watch.orders[what].ns)
			printf("--%s: %s, then %s\n", run_watch_word(what),
				format_ns(run->watch.orders[what].ns),
				run->watch.orders[what].terminate ? "term" : "warn");
	print_records(run);
	printf("environment:\n");
	for (unsigned i = 0; i < change_count; i++)
		if (changes[i].value)
			printf("  %s=%s  (%s)\n", changes[i].name, changes[i].value,
				changes[i].source);
		else if (getenv(changes[i].name))
			printf("  %s removed  (%s)\n", changes[i].name, changes[i].source);
}

/* ---- into force ---- */

int run_environment_set(struct run *run)
{
	const struct session_variable *more = NULL;

	for (unsigned i = 0; i < change_count; i++)
		if (changes[i].value ? setenv(changes[i].name, changes[i].value, 1) :
			unsetenv(changes[i].name))
			return run_fail("cannot set %s", changes[i].name);
	if (run->tracing)
		more = session_environment(&run->session);
	for (; more && more->name; more++)
		if (setenv(more->name, more->value, 1))
			return run_fail("cannot set %s", more->name);
	return 0;
}

/* Ourselves, started as the command will be: is the library there? */
int run_environment_check(struct run *run)
{
	char library[PATH_MAX + 16];
	int status = -1;
	pid_t child = fork();

	snprintf(library, sizeof(library), "%s/libcuward.so", run->libraries);
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		for (int fd = 0; fd <= 2; fd++)
			dup2(null, fd);
		execl("/proc/self/exe", "cuward", "preflight", library, NULL);
		_exit(EXIT_CUWARD);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return run_fail("cannot start the pre-flight: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return run_fail("the pre-flight failed: %s is not loaded into programs that we start; "
		"`LD_PRELOAD=%s true` may say why", library, library);
}
