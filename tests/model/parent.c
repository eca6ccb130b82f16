/*
 * parent.c - runs of all seeds, which calls they made, and short lists of steps for those that fail.
 */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SETTINGS_MAX 12
#define TRIES 3000 /* runs that shortening a list may take, */
#define SHORT 100    /* steps that are printed */
#define SECONDS 60 /* and how long */

extern char **environ;
static unsigned long long hits[CALLS], good[CALLS];

const char *const *seed_settings(uint64_t seed)
{
	static const char *settings[SETTINGS_MAX];
	unsigned count = 0;

	settings[count++] = "CUWARD_SIM_DEVICES=2";
	settings[count++] = "CUWARD_SIM_MEMORY=2G";
	settings[count++] = "CUWARD_SIM_CONTEXT_BYTES=16M";
	settings[count++] = "CUWARD_SIM_MODULE_BYTES=64K";
	settings[count++] = "CUWARD_SIM_KERNEL_NS=3000";
	settings[count++] = "CUWARD_LOG=off";
	settings[count++] = seed & 1 ? "CUWARD_SIM_REUSE=immediate" : "CUWARD_SIM_REUSE=never";
	settings[count++] = seed & 2 ? "CUWARD_SIM_HANDLES=immediate" : "CUWARD_SIM_HANDLES=late";
	settings[count++] = (seed & 3) == 3 ? "CUWARD_MEMORY=none" : "CUWARD_MEMORY=0=900M,1=400M";
	settings[count] = NULL;
	return settings;
}

/* ---- runs ---- */

static void note_hits(FILE *from)
{
	char line[256], name[128];
	unsigned long long count, fine;
	int call;

	while (fgets(line, sizeof(line), from)) {
		if (sscanf(line, "hit %127s %llu %llu", name, &count, &fine) != 3)
			continue;
		for (call = 0; call < CALLS && strcmp(call_name(call), name) != 0; call++)
			;
		if (call < CALLS) {
			hits[call] += count;
			good[call] += fine;
		}
	}
}

static void child_exec(const char *program, char **arguments, uint64_t seed, int out, int err)
{
	for (const char *const *setting = seed_settings(seed); *setting; setting++)
		putenv((char *)*setting);
	dup2(out, 1);
	dup2(err, 2);
	execv(program, arguments);
	_exit(127);
}

/* Run this program again; its status as waitpid gives it, and the last of what it says on stderr. */
static int run(const char *program, char **arguments, uint64_t seed, char *said, size_t room)
{
	int out[2], err[2], status = 0;
	ssize_t length;
	FILE *from;
	pid_t child;

	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		exit(3);
	child = fork();
	if (child == 0)
		child_exec(program, arguments, seed, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	from = fdopen(out[0], "r");
	note_hits(from);
	fclose(from);
	length = read(err[0], said, room - 1);
	said[length > 0 ? length : 0] = 0;
	close(err[0]);
	waitpid(child, &status, 0);
	return status;
}

static int run_seed(const struct options *options, const char *program, uint64_t seed, char *said,
	size_t room)
{
	char seed_text[32], steps[32], threads[32];
	char *arguments[16 + 2 * ENABLED_MAX] = { "model", "--child", seed_text, "--steps", steps,
		"--threads", threads };
	unsigned count = 7;

	snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
	snprintf(steps, sizeof(steps), "%llu", (unsigned long long)options->steps);
	snprintf(threads, sizeof(threads), "%d", options->threads);
	for (unsigned i = 0; i < options->enabled_count && i < ENABLED_MAX; i++) {
		arguments[count++] = "--enable";
		arguments[count++] = (char *)options->enabled[i];
	}
	return run(program, arguments, seed, said, room);
}

/* ---- shorter lists ---- */

struct list {
	struct step *steps;
	size_t count;
	uint64_t seed;
	const struct options *options;
	const char *program;
	char path[64];
	unsigned tries;
	time_t until;
	char said[1024];
	const char *first; /* what the whole list said */
};

/* Is it the same complaint, whatever the numbers in it? A crash says nothing, each time. */
static bool alike(const char *a, const char *b)
{
	while (*a || *b) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b)
			return false;
		a += *a != 0;
		b += *b != 0;
	}
	return true;
}

static void list_print(const struct list *list, FILE *to)
{
	for (const char *const *setting = seed_settings(list->seed); *setting; setting++)
		fprintf(to, "# %s\n", *setting);
	for (size_t i = 0; i < list->count; i++) {
		const struct step *step = &list->steps[i];

		fprintf(to, "%s %u %u %u %d\n", operation_at(step->operation)->name, step->a, step->b,
			step->c, step->fault);
	}
}

static bool list_fails(struct list *list)
{
	char *arguments[8 + 2 * ENABLED_MAX] = { "model", "--replay", list->path };
	FILE *file = fopen(list->path, "w");
	unsigned count = 3;
	char said[1024];

	if (!file)
		exit(3);
	list_print(list, file);
	fclose(file);
	for (unsigned i = 0; i < list->options->enabled_count && i < ENABLED_MAX; i++) {
		arguments[count++] = "--enable";
		arguments[count++] = (char *)list->options->enabled[i];
	}
	list->tries++;
	if (!run(list->program, arguments, list->seed, said, sizeof(said)) ||
		!alike(said, list->first))
		return false;
	memcpy(list->said, said, sizeof(said));
	return true;
}

/* What could not be made short goes into a file. */
static void list_show(const struct list *list)
{
	char path[64];
	FILE *file;

	if (list->count <= SHORT) {
		list_print(list, stdout);
		return;
	}
	snprintf(path, sizeof(path), "/tmp/cuward-model-%llu.steps", (unsigned long long)list->seed);
	file = fopen(path, "w");
	if (!file)
		return;
	list_print(list, file);
	fclose(file);
	printf("%zu steps in %s\n", list->count, path);
}

static bool tired(const struct list *list)
{
	return list->tries >= TRIES || time(NULL) >= list->until;
}

/* Leave out what is not needed: first large pieces, then small ones. */
static void list_shorten(struct list *list)
{
	struct step *all = malloc((list->count + 1) * sizeof(*all));
	size_t piece = list->count / 2;

	if (!all)
		exit(3);
	while (piece && !tired(list)) {
		size_t before = list->count;

		for (size_t at = 0; at < list->count && !tired(list);) {
			size_t count = list->count, gone = piece < count - at ? piece : count - at;

			memcpy(all, list->steps, count * sizeof(*all));
			memmove(&list->steps[at], &list->steps[at + gone],
				(count - at - gone) * sizeof(*all));
			list->count -= gone;
			if (list_fails(list))
				continue;
			memcpy(list->steps, all, count * sizeof(*all));
			list->count = count;
			at += gone;
		}
		if (piece > 1 || list->count == before)
			piece /= 2;
	}
	free(all);
}

static void explain(const struct options *options, const char *program, uint64_t seed,
	uint64_t number, const char *first)
{
	struct list list = { .count = number && number < options->steps ? number : options->steps,
		.seed = seed, .options = options, .program = program,
		.first = first, .until = time(NULL) + SECONDS };
	uint64_t state = seed_state(seed, 0);

	snprintf(list.path, sizeof(list.path), "/tmp/cuward-model-%d", (int)getpid());
	list.steps = calloc(list.count, sizeof(*list.steps));
	for (size_t i = 0; list.steps && i < list.count; i++)
		step_make(&list.steps[i], &state);
	if (list.steps && list_fails(&list)) {
		list_shorten(&list);
		printf("%s", list.said);
		list_show(&list);
	} else {
		printf("it does not fail again\n");
	}
	unlink(list.path);
	free(list.steps);
}

/* ---- rows ---- */

static int call_named(const char *name)
{
	int call;

	for (call = 0; call < CALLS && strcmp(call_name(call), name) != 0; call++)
		;
	return call;
}

/* Cut the next field off a line of fields with tabs between them. */
static char *field(char **rest)
{
	char *start = *rest, *end = start + strcspn(start, "\t\n");

	*rest = *end ? end + 1 : end;
	*end = 0;
	return start;
}

/* Fields: symbol, what it does to a limit, family, why the model cannot make it succeed. */
static unsigned check_rows(const char *path, unsigned *seen)
{
	FILE *file = fopen(path, "r");
	unsigned missing = 0;
	char line[512];

	if (!file) {
		printf("%s: cannot be read\n", path);
		return 1;
	}
	while (fgets(line, sizeof(line), file)) {
		char *rest = line, *name = field(&rest), *quota = field(&rest);
		char *family = field(&rest), *reason = field(&rest);
		int call = call_named(name);

		if (*name == '#' || !*quota)
			continue;
		++*seen;
		if (*reason || !family_enabled(family_named(family)) || (call < CALLS && good[call]))
			continue;
		printf("row %s: %s\n", name, call < CALLS && hits[call] ? "never succeeded" :
			"never called");
		missing++;
	}
	fclose(file);
	return missing;
}

int parent_main(const struct options *options, const char *program)
{
	unsigned failed = 0, missing = 0, rows = 0;
	unsigned long long calls = 0;
	struct timespec begin, end;
	char said[1024];
	double seconds;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uint64_t seed = options->from; seed < options->from + options->seeds; seed++) {
		unsigned long long number = 0;
		int status = run_seed(options, program, seed, said, sizeof(said));

		if (!status)
			continue;
		failed++;
		printf("seed %llu: status %#x: %s", (unsigned long long)seed, (unsigned)status, said);
		sscanf(said, "wrong after %llu", &number);
		if (options->threads <= 1)
			explain(options, program, seed, number, said);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (int call = 0; call < CALLS; call++)
		calls += hits[call];
	if (options->rows)
		missing = check_rows(options->rows, &rows);
	seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%llu seeds, %llu steps, %llu calls, %u rows, %.0f steps/s: %u failed, %u missing\n",
		(unsigned long long)options->seeds,
		(unsigned long long)(options->seeds * options->steps), calls, rows,
		(double)(options->seeds * options->steps) / seconds, failed, missing);
	return failed || missing;
}
