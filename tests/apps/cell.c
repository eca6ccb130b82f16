/*
 * cell.c - `cell WAY`: a CUDA program that starts other processes, or ends, in one of the ways of
 * tests/trace/cells.sh. It prints what it saw, which must not depend on how the trace fares.
 */
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *who, const char *what, int value)
{
	char line[128];
	int bytes = snprintf(line, sizeof(line), "%s %s %d\n", who, what, value);

	if (write(1, line, bytes) != bytes)
		_exit(99);
}

/* Some memory, some of it freed again: a child that cannot use the parent's context makes its own. */
static void use(const char *who)
{
	CUdeviceptr kept = 0, freed = 0;
	CUcontext context;
	int result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&context, 0);
	if (!result)
		result = cuCtxSetCurrent(context);
	say(who, "init", result);
	say(who, "alloc", cuMemAlloc(&kept, 1 << 20));
	say(who, "alloc", cuMemAlloc(&freed, 2 << 20));
	say(who, "free", cuMemFree(freed));
}

/* CUDA does not survive a fork: what the driver says to the child is all the child can see. */
static int child(void)
{
	use("child");
	return 5;
}

static void await(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		say("parent", "wait", -1);
	else
		say("parent", WIFSIGNALED(status) ? "child killed" : "child exit",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void *in_thread(void *unused)
{
	pid_t pid = fork();

	if (pid == 0)
		exit(child());
	await(pid);
	return unused;
}

static void fork_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, NULL) != 0)
		_exit(98);
	/* Somebody is in the middle of a call meanwhile. */
	for (int i = 0; i < 1000; i++) {
		CUdeviceptr pointer;

		if (cuMemAlloc(&pointer, 4096) == CUDA_SUCCESS)
			cuMemFree(pointer);
	}
	pthread_join(thread, NULL);
}

static void by_vfork(const char *self)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(6);
	await(pid);
	pid = vfork();
	if (pid == 0) {
		execl(self, self, "plain", NULL);
		_exit(97);
	}
	await(pid);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	use(way);
	if (strcmp(way, "plain") == 0)
		return 3;
	if (strcmp(way, "fork") == 0) {
		pid_t pid = fork();

		if (pid == 0)
			exit(child());
		await(pid);
		use("parent");
	} else if (strcmp(way, "thread") == 0) {
		fork_in_thread();
		use("parent");
	} else if (strcmp(way, "vfork") == 0) {
		by_vfork("/proc/self/exe");
		use("parent");
	} else if (strcmp(way, "exec") == 0) {
		execl("/proc/self/exe", argv[0], "plain", NULL);
	} else if (strcmp(way, "_exit") == 0) {
		_exit(4);
	} else if (strcmp(way, "killed") == 0) {
		raise(SIGKILL);
	} else if (strcmp(way, "daemon") == 0) {
		if (daemon(1, 1) != 0)
			return 96;
		use("daemon");
		return 0;
	} else {
		return 2;
	}
	return 1;
}
