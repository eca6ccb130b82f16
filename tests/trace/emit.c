/*
 * emit.c - a guest without a driver: emits events through shim/trace.c in several ways of life.
 *
 * emit FOLDER COUNT [once|all|forever|threads|fork|fork-thread|fork-only|rate]; one line a process
 * on stdout: its state, how long that took, what trace_start() said.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace.h"

static const char *folder;
static unsigned count;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void start(const char *who)
{
	double began = now_ms();
	char why[256] = "";
	enum trace_state state = trace_start(folder, why, sizeof(why));

	printf("%s %s ms=%.0f why=%s\n", who, state == TRACE_REGISTERED ? "registered" : "failed",
		now_ms() - began, why);
	fflush(stdout);
}

static void emit(uint32_t thread)
{
	struct event_alloc event = {.thread = thread, .api = 1, .kind = KIND_DEVICE, .bytes = 256,
		.pointer = 0x7f0000000000};

	trace_define_api(getpid(), event.api);
	for (unsigned i = 0; i < count; i++) {
		event.site = i;
		trace_alloc(&event);
	}
}

static void *emit_thread(void *key)
{
	emit((uint32_t)(size_t)key);
	return NULL;
}

static void emit_threads(void)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, emit_thread, (void *)(i + 1));
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* One of each event, no two fields alike; what babeltrace2 should show goes to stdout. */
static uint64_t serial = 0x8877665544332211;

static uint64_t next_value(void)
{
	return serial = serial * 6364136223846793005 + 1442695040888963407;
}

#define SHOW_u8(name) printf(" %s = %u", #name, e.name = next_value() >> 32);
#define SHOW_u16(name) SHOW_u8(name)
#define SHOW_u32(name) SHOW_u8(name)
#define SHOW_u64(name) printf(" %s = %llu", #name, (unsigned long long)(e.name = next_value()));
#define SHOW_i32(name) printf(" %s = %d", #name, e.name = -(int)(next_value() >> 40));
#define SHOW_x64(name) printf(" %s = 0x%llX", #name, (unsigned long long)(e.name = next_value()));
#define SHOW_str(name) \
	printf(" %s = \"%s\"", #name, e.name = #name " says \xc3\xa9" + (next_value() >> 62));
#define F(type, name) SHOW_##type(name)
#define X(event, fields) \
	static void show_##event(void) \
	{ \
		struct event_##event e; \
\
		printf("cuward:" #event ":"); \
		fields \
		printf("\n"); \
		trace_##event(&e); \
	}
CUWARD_EVENTS(X, F)
#undef X
#undef F

static void emit_all(void)
{
#define F(type, name)
#define X(event, fields) show_##event();
	CUWARD_EVENTS(X, F)
#undef X
#undef F
}

/* liblttng-ust's own are among them: where they are missing, the daemon can't reach the process. */
static unsigned thread_count(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned found = 0;

	while (tasks && readdir(tasks))
		found++;
	if (tasks)
		closedir(tasks);
	return found - 2; /* . and .. */
}

/* As the shim does it: the child starts empty and registers at its own first call. */
static void *emit_fork(void *unused)
{
	double began = now_ms();
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		trace_stop();
		start("child");
		printf("child threads=%u\n", thread_count());
		emit(2);
		exit(0);
	}
	emit(1);
	waitpid(child, &status, 0);
	printf("child status=%d ms=%.0f\n", status, now_ms() - began);
	return unused;
}

static void *fork_only(void *unused)
{
	for (unsigned i = 0; i < count; i++) {
		pid_t child = fork();

		if (child == 0)
			exit(0); /* destructors and all */
		waitpid(child, NULL, 0);
	}
	return unused;
}

static void measure(const char *name, void (*one)(unsigned))
{
	double began = now_ms();

	for (unsigned i = 0; i < count; i++)
		one(i);
	printf("%s %.0f ns\n", name, (now_ms() - began) * 1e6 / count);
}

static void one_call(unsigned i)
{
	trace_call(&(struct event_call){.thread = 1, .api = 5, .duration_ns = i});
}

static void one_alloc(unsigned i)
{
	trace_alloc(&(struct event_alloc){.thread = 1, .api = 5, .duration_ns = i, .bytes = 99});
}

static void one_launch(unsigned i)
{
	trace_launch(&(struct event_launch){.thread = 1, .api = 5, .correlation = i, .grid_x = 99});
}

static void one_named(unsigned i)
{
	(void)i;
	trace_define_api(1, 5);
}

static void measure_all(void)
{
	measure("call", one_call);
	measure("alloc", one_alloc);
	measure("launch", one_launch);
	measure("define_api", one_named);
	trace_stop();
	measure("off", one_launch);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[3] : "once";
	pthread_t thread;

	if (argc < 3)
		return 2;
	folder = argv[1];
	count = atoi(argv[2]);
	start("parent");
	if (!strcmp(mode, "once")) {
		emit(1);
	} else if (!strcmp(mode, "all")) {
		emit_all();
	} else if (!strcmp(mode, "forever")) {
		while (true)
			emit(1);
	} else if (!strcmp(mode, "threads")) {
		emit_threads();
	} else if (!strcmp(mode, "fork")) {
		emit_fork(NULL);
	} else if (!strcmp(mode, "fork-only")) {
		fork_only(NULL);
	} else if (!strcmp(mode, "fork-thread")) {
		pthread_create(&thread, NULL, emit_fork, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(mode, "rate")) {
		measure_all();
	} else {
		return 2;
	}
	return 0;
}
