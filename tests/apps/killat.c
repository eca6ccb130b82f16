/* flags: -Wl,-z,now */
/*
 * killat.c - a process that is killed at one point after the other of what it does under a limit of several,
 * and a peer that goes on: `killat POINTS LIMIT [OTHERS [UID GROUP FOLDER]]`, under the preload. `killat guest
 * LIMIT` is who is killed; with UID it is another user's, in that group, FOLDER its CUWARD_DIR. OTHERS are bytes that
 * other processes may hold meanwhile, which come and go all the time.
 *
 * `killat stop POINTS LIMIT`: at each point it is not killed but stands still for 100 ms, as if something more important ran,
 * and goes on; nobody hangs meanwhile, and it gets what it should.
 *
 * The guest is stepped through an allocation, a refusal and a free, instruction by instruction; POINTS of
 * them, evenly spread, are where it dies. For each the peer's next call is timed, again where it
 * took long, as a busy machine may be late on its own; and it must get all memory again. Prints the worst.
 */
#include <cuda.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES 5
#define NEXT_MS 10
#define ALL_MS 1000
#define STOP_MS 100
#define HANG_MS 5000 /* who asks and lives is waited for a second; a busy machine may add to that */

static size_t limit, others;
static uid_t uid;
static gid_t gid;
static const char *folder;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void fail(const char *what)
{
	fprintf(stderr, "killat: %s\n", what);
	exit(1);
}

static void open_device(void)
{
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		fail("no device");
}

/* Between the two stops. */
static int guest(void)
{
	CUdeviceptr before, pointer, none;

	open_device();
	if (cuMemAlloc(&before, limit / 4))
		fail("nothing before");
	raise(SIGSTOP);
	if (cuMemAlloc(&pointer, limit / 4) || cuMemAlloc(&none, limit) != CUDA_ERROR_OUT_OF_MEMORY ||
		cuMemFree(pointer))
		return 1;
	raise(SIGSTOP);
	return 0;
}

static pid_t start_guest(void)
{
	char text[32];
	pid_t pid = fork();
	int status;

	snprintf(text, sizeof(text), "%zu", limit);
	if (pid == 0) {
		if (uid && (setenv("CUWARD_DIR", folder, 1) || setgroups(1, &gid) || setgid(uid) || setuid(uid)))
			_exit(9);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/proc/self/exe", "killat", "guest", text, NULL);
		_exit(9);
	}
	/* After its exec, and then by itself. */
	for (int i = 0; i < 2; i++) {
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			fail("the guest did not come up");
		if (i == 0)
			ptrace(PTRACE_CONT, pid, NULL, NULL);
	}
	return pid;
}

/* So many instructions on, or up to its second stop; how many it took. */
static long step(pid_t pid, long steps)
{
	int status;
	long i;

	for (i = 0; i < steps; i++) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid ||
			!WIFSTOPPED(status))
			fail("the guest went away");
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		if (WSTOPSIG(status) != SIGTRAP)
			fail("the guest met another signal");
	}
	return i;
}

/* The next call after the death, and all memory after that: 0 for never within two seconds. */
static void look(double *next_ms, double *all_ms)
{
	double began = now_ms();
	CUdeviceptr pointer, all;
	CUresult result = cuMemAlloc(&pointer, limit / 8);

	*next_ms = now_ms() - began;
	if (result == CUDA_SUCCESS)
		cuMemFree(pointer);
	else if (result != CUDA_ERROR_OUT_OF_MEMORY)
		fail("an odd answer");
	while (cuMemAlloc(&all, limit - others) != CUDA_SUCCESS && now_ms() - began < 2000)
		usleep(200);
	*all_ms = now_ms() - began;
	if (*all_ms < 2000)
		cuMemFree(all);
}

static void kill_at(long steps, double *next_ms, double *all_ms)
{
	*next_ms = *all_ms = 1e9;
	for (int i = 0; i < TRIES && (*next_ms > NEXT_MS || *all_ms > ALL_MS); i++) {
		double next, all;
		pid_t pid = start_guest();

		step(pid, steps);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		look(&next, &all);
		*next_ms = next < *next_ms ? next : *next_ms;
		*all_ms = all < *all_ms ? all : *all_ms;
	}
}

/* So long it stands still at that point; the peer's longest call meanwhile. */
static double stop_at(long steps)
{
	pid_t pid = start_guest();
	double worst = 0, began;
	int status;

	step(pid, steps);
	for (double end = now_ms() + STOP_MS; now_ms() < end; usleep(1000)) {
		CUdeviceptr pointer;
		CUresult result;

		began = now_ms();
		result = cuMemAlloc(&pointer, limit / 4);
		worst = now_ms() - began > worst ? now_ms() - began : worst;
		if (result == CUDA_SUCCESS)
			cuMemFree(pointer);
		else if (result != CUDA_ERROR_OUT_OF_MEMORY)
			fail("an odd answer");
	}
	do
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail("who stood still did not get what it should");
	return worst;
}

static int stop(long points)
{
	double worst = 0;
	long whole;
	pid_t pid;

	open_device();
	pid = start_guest();
	whole = step(pid, 10000000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (long i = 0; i < points; i++) {
		double took = stop_at(whole * (2 * i + 1) / (2 * points));

		if (took > NEXT_MS)
			printf("point %ld: a call of %.3f ms\n", i, took);
		worst = took > worst ? took : worst;
	}
	printf("%ld points of %ld instructions: a call took at most %.3f ms\n", points, whole, worst);
	return worst > HANG_MS;
}

int main(int argc, char **argv)
{
	double worst_next = 0, worst_all = 0;
	long points, whole;
	pid_t pid;

	limit = argc >= 3 ? strtoull(argv[2], NULL, 0) : 0;
	others = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	uid = argc > 6 ? (uid_t)atoi(argv[4]) : 0;
	gid = argc > 6 ? (gid_t)atoi(argv[5]) : 0;
	folder = argc > 6 ? argv[6] : NULL;
	if (limit && strcmp(argv[1], "guest") == 0)
		return guest();
	if (limit && strcmp(argv[1], "stop") == 0 && argc == 4) {
		limit = strtoull(argv[3], NULL, 0);
		alarm(300);
		return stop(atol(argv[2]));
	}
	points = limit ? atol(argv[1]) : 0;
	if (points < 1)
		return 2;
	alarm(300);
	open_device();
	pid = start_guest();
	whole = step(pid, 10000000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (long i = 0; i < points; i++) {
		double next, all;

		kill_at(whole * (2 * i + 1) / (2 * points), &next, &all);
		worst_next = next > worst_next ? next : worst_next;
		worst_all = all > worst_all ? all : worst_all;
		if (next > NEXT_MS || all > ALL_MS)
			printf("point %ld: next call %.3f ms, all memory %.3f ms\n", i, next, all);
	}
	printf("%ld points of %ld instructions: next call at most %.3f ms, all memory back in %.3f ms\n", points,
		whole, worst_next, worst_all);
	return worst_next > NEXT_MS || worst_all > ALL_MS;
}
