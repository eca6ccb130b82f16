/*
 * child.c - one run: the steps of a seed, or of a file.
 */
#include "parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 16
#define RESTS 128      /* steps between two looks, with several threads */
#define LOOK_INTO 2048 /* steps between two looks at every record */

static struct world worlds[THREADS_MAX];
static struct exporter exporter;
static pthread_barrier_t barrier;
static bool stop;

uint64_t seed_state(uint64_t seed, int thread)
{
	uint64_t state = seed + (uint64_t)thread * 0xd1342543de82ef95ull;

	/* Far from where the neighbours' steps lie. */
	state = (state ^ state >> 31) * 0xd6e8feb86659fd93ull;
	state = (state ^ state >> 32) * 0xd6e8feb86659fd93ull;
	return state ^ state >> 32;
}

void context_died(CUcontext context, bool everywhere)
{
	if (world->alone)
		return;
	for (int i = 0; i < THREADS_MAX; i++)
		if (everywhere || &worlds[i] == world)
			world_forget(&worlds[i], context);
}

static void enter(struct world *its, int thread, bool alone)
{
	world = its;
	world->thread = thread;
	world->alone = alone;
	world->exporter = &exporter;
	for (int i = 0; i < SEEN_DEVICES; i++)
		if (cuDevicePrimaryCtxRetain(&world->primary[i], i) != CUDA_SUCCESS)
			exit(3);
	cuCtxSetCurrent(world->primary[thread % SEEN_DEVICES]);
}

static void begin(bool alone)
{
	if (family_enabled(FAM_imported))
		exporter_start(&exporter);
	if (cuInit(0) != CUDA_SUCCESS) {
		fprintf(stderr, "model: no simulated driver\n");
		exit(3);
	}
	seen_open();
	calls_find();
	enter(&worlds[0], 0, alone);
}

static int complain(uint64_t number, const struct step *step, const char *what)
{
	fprintf(stderr, "wrong after %llu: %s: %s\n", (unsigned long long)number,
		step ? operation_at(step->operation)->name : "rest", what);
	if (world->thread == 0 && (!world->alone || getenv("CUWARD_MODEL_STRAYS")))
		strays(stderr);
	return 1;
}

/* Look after every step, at some things less often. */
static bool agree(uint64_t number, char *what, size_t room)
{
	if (world->wrong) {
		snprintf(what, room, "%s", world->wrong);
		return false;
	}
	return same(what, room) && (number % 16 || told(what, room)) &&
		(number % LOOK_INTO || recorded(what, room));
}

static int run_alone(uint64_t seed, uint64_t count)
{
	uint64_t state = seed_state(seed, 0);
	char what[256];

	for (uint64_t i = 1; i <= count; i++) {
		struct step step;

		step_make(&step, &state);
		step_run(&step);
		if (!agree(i, what, sizeof(what)))
			return complain(i, &step, what);
	}
	return recorded(what, sizeof(what)) ? 0 : complain(count, NULL, what);
}

static int run_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256], name[64], what[256];
	uint64_t number = 0;
	int result = 0;

	if (!file) {
		fprintf(stderr, "model: %s: cannot be read\n", path);
		return 2;
	}
	while (!result && fgets(line, sizeof(line), file)) {
		struct step step = { 0 };
		int fault, operation;

		if (sscanf(line, "%63s %u %u %u %d", name, &step.a, &step.b, &step.c, &fault) != 5)
			continue; /* a setting, or a remark */
		operation = operation_named(name);
		if (operation < 0)
			continue;
		step.operation = (uint16_t)operation;
		step.fault = (int16_t)fault;
		step_run(&step);
		number++;
		if (!agree(number * LOOK_INTO, what, sizeof(what)))
			result = complain(number, &step, what);
	}
	fclose(file);
	return result;
}

/* ---- several threads ---- */

struct task {
	int thread, threads;
	uint64_t seed, steps;
	int result;
};

/* Thread 0 alone does what needs quiet, while the others wait. */
static void run_some(const struct task *task, uint64_t *state, struct step *quiet)
{
	for (int i = 0; i < RESTS; i++) {
		struct step step;

		step_make(&step, state);
		if (operation_at(step.operation)->quiet)
			*quiet = step;
		else
			step_run(&step);
	}
	(void)task;
}

static void *run_thread(void *argument)
{
	struct task *task = argument;
	uint64_t state = seed_state(task->seed, task->thread), done = 0;
	char what[256];

	if (task->thread)
		enter(&worlds[task->thread], task->thread, false);
	while (!stop && done < task->steps) {
		struct step quiet = { .operation = UINT16_MAX };

		run_some(task, &state, &quiet);
		done += RESTS;
		pthread_barrier_wait(&barrier);
		if (task->thread == 0) {
			if (quiet.operation != UINT16_MAX)
				step_run(&quiet);
			for (int i = 0; i < task->threads && !task->result; i++)
				if (worlds[i].wrong)
					task->result = complain(done, NULL, worlds[i].wrong);
			if (!task->result && (!same(what, sizeof(what)) ||
				!recorded(what, sizeof(what)) || !told(what, sizeof(what))))
				task->result = complain(done, NULL, what);
			stop = task->result != 0;
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static int run_threads(uint64_t seed, uint64_t steps, int threads)
{
	struct task tasks[THREADS_MAX];
	pthread_t ids[THREADS_MAX];

	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++)
		tasks[i] = (struct task){ i, threads, seed, steps / (unsigned)threads, 0 };
	for (int i = 1; i < threads; i++)
		pthread_create(&ids[i], NULL, run_thread, &tasks[i]);
	run_thread(&tasks[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	return tasks[0].result;
}

/* ---- the run ---- */

static void print_hits(int threads)
{
	for (int call = 0; call < CALLS; call++) {
		unsigned long long hits = 0, good = 0;

		for (int i = 0; i < threads; i++) {
			hits += worlds[i].hits[call];
			good += worlds[i].good[call];
		}
		if (hits)
			printf("hit %s %llu %llu\n", call_name(call), hits, good);
	}
}

int child_main(const struct options *options)
{
	int threads = options->threads > THREADS_MAX ? THREADS_MAX : options->threads;
	int result;

	begin(threads <= 1);
	if (options->replay)
		result = run_file(options->replay);
	else if (threads > 1)
		result = run_threads(options->child, options->steps, threads);
	else
		result = run_alone(options->child, options->steps);
	print_hits(threads > 1 ? threads : 1);
	fflush(stdout);
	exporter_stop();
	return result;
}
