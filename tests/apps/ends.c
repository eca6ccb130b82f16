/*
 * ends.c - ways to end a process, and to make another one: ends WAY.
 *
 * The process that is asked for takes 3 allocations of 4096 bytes, frees one and ends; helpers of it
 * take one of 64 KiB. Anything else that is allocated is freed in due order.
 *
 * quick_exit runs handlers of its own, and nothing else: quick_frees leaves everything to such handlers.
 */
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;

static void must(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "ends: error %d\n", result);
	_exit(99);
}

static void start(void)
{
	CUcontext context;

	must(cuInit(0));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
}

static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr pointer;

	must(cuMemAlloc(&pointer, bytes));
	return pointer;
}

static void leak_two(void)
{
	start();
	take(4096);
	take(4096);
	must(cuMemFree(take(4096)));
}

static void leak_big(void)
{
	start();
	take(65536);
}

static void await(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
}

static void *exit_in_thread(void *unused)
{
	(void)unused;
	exit(5);
}

static void *outlive_main(void *unused)
{
	CUdeviceptr late;

	(void)unused;
	usleep(100000);
	start();
	late = take(65536);
	must(cuMemFree(late));
	take(4096);
	return NULL;
}

static void in_thread(void *(*what)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, what, NULL);
	if (what == outlive_main)
		pthread_exit(NULL);
	pthread_join(thread, NULL);
}

/* A child that shares our memory until it calls exec or _exit. */
static void vforked(int with_exec)
{
	pid_t child = vfork();

	if (child == 0) {
		if (with_exec)
			execl(self, self, "leak_big", NULL);
		_exit(7);
	}
	await(child);
}

static void spawned(void)
{
	char *const args[] = { self, "leak_big", NULL };
	pid_t child;

	if (posix_spawn(&child, self, NULL, NULL, args, environ) == 0)
		await(child);
}

/* No handler of fork runs, and libc does not know. */
static void cloned(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (child == 0) {
		leak_big();
		_exit(0);
	}
	await(child);
}

static void forked(int then_exit)
{
	pid_t child = fork();

	if (child == 0) {
		leak_big();
		if (then_exit)
			exit(3);
		_exit(3);
	}
	await(child);
}

/* Registered by a constructor, as C++ does. */
static CUdeviceptr early, late;

static void quick_free_late(void)
{
	must(cuMemFree(late));
}

static void quick_free_early(void)
{
	/* What a handler registers runs next. */
	if (late)
		at_quick_exit(quick_free_late);
	if (early)
		must(cuMemFree(early));
}

static __attribute__((constructor)) void first_of_all(int argc, char **argv)
{
	(void)argc;
	if (argv[1] && !strcmp(argv[1], "quick_frees"))
		at_quick_exit(quick_free_early);
}

static void quick_frees(void)
{
	early = take(4096);
	late = take(4096);
	quick_exit(4);
}

/* The child has no part in CUDA; then one that has. */
static void quick_forked(void)
{
	pid_t child = fork();

	if (child == 0)
		quick_exit(6);
	await(child);
	child = fork();
	if (child == 0) {
		leak_big();
		quick_exit(3);
	}
	await(child);
	quick_exit(4);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";

	self = argv[0];
	if (!strcmp(way, "leak_big")) {
		leak_big();
		return 0;
	}
	if (!strcmp(way, "daemon")) {
		if (daemon(1, 0) != 0)
			return 98;
		leak_two();
		return 0;
	}
	if (!strcmp(way, "child_first")) {
		forked(1);
		leak_two();
		return 0;
	}
	leak_two();
	if (!strcmp(way, "thread_exit"))
		in_thread(exit_in_thread);
	else if (!strcmp(way, "pthread_exit"))
		in_thread(outlive_main);
	else if (!strcmp(way, "vfork"))
		vforked(0);
	else if (!strcmp(way, "vfork_exec"))
		vforked(1);
	else if (!strcmp(way, "spawn"))
		spawned();
	else if (!strcmp(way, "clone"))
		cloned();
	else if (!strcmp(way, "fork_exit"))
		forked(1);
	else if (!strcmp(way, "fork__exit"))
		forked(0);
	else if (!strcmp(way, "exec"))
		execl(self, self, "leak_big", NULL);
	else if (!strcmp(way, "exec_other"))
		execl("/bin/sh", "sh", "-c", "exit 4", NULL);
	else if (!strcmp(way, "exec_killed"))
		execl("/bin/sh", "sh", "-c", "kill -9 $$", NULL);
	else if (!strcmp(way, "exec_fails")) {
		execl("/nowhere", "nowhere", NULL);
		syscall(SYS_exit_group, 4);
	} else if (!strcmp(way, "quick_exit"))
		quick_exit(4);
	else if (!strcmp(way, "quick_frees"))
		quick_frees();
	else if (!strcmp(way, "quick_fork"))
		quick_forked();
	else if (!strcmp(way, "_exit"))
		_exit(4);
	else if (!strcmp(way, "_Exit"))
		_Exit(4);
	else if (!strcmp(way, "syscall_exit"))
		syscall(SYS_exit_group, 4);
	else if (!strcmp(way, "abort"))
		abort();
	else if (!strncmp(way, "signal", 6))
		kill(getpid(), atoi(way + 6));
	return 0;
}
