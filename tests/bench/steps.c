/*
 * steps.c - count the instructions and system calls a program executes between two breakpoints (int3).
 * Usage: steps [-s] CALLS PROGRAM ARG...; prints instructions and system calls divided by CALLS; -s: the
 * latter only. steps -a PROGRAM ARG...: system calls of its first thread from its beginning to its end.
 *
 * Instructions are counted one step at a time: exact, and the same every time. That is slow, and work
 * that is done once a second would be counted for each call; so system calls are counted in a second
 * run at full speed.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYSTEM_CALL (SIGTRAP | 0x80)

static int wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
		fprintf(stderr, "steps: the program ended early\n");
		exit(1);
	}
	return WSTOPSIG(status);
}

/* The program, stopped before its first instruction. */
static pid_t begin(char **argv)
{
	pid_t child = fork();

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		_exit(127);
	}
	wait_for(child);
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	return child;
}

/* ... and at its first breakpoint. */
static pid_t start(char **argv)
{
	pid_t child = begin(argv);
	int signal;

	ptrace(PTRACE_CONT, child, NULL, NULL);
	while ((signal = wait_for(child)) != SIGTRAP)
		ptrace(PTRACE_CONT, child, NULL, signal);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A step onto a breakpoint is no different from others; it is known by its cause. */
static int is_breakpoint(pid_t child)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0 && info.si_code == SI_KERNEL;
}

static long count_instructions(char **argv)
{
	pid_t child = start(argv);
	long count = 0;

	for (;;) {
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		wait_for(child);
		if (is_breakpoint(child))
			break;
		count++;
	}
	end(child);
	return count;
}

static long count_system_calls(char **argv)
{
	pid_t child = start(argv);
	long stops = 0;

	do
		ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	while (wait_for(child) == SYSTEM_CALL && ++stops);
	end(child);
	return stops / 2;
}

static long count_all_system_calls(char **argv)
{
	pid_t child = begin(argv);
	int status, signal = 0;
	long stops = 0;

	for (;;) {
		ptrace(PTRACE_SYSCALL, child, NULL, signal);
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
			break;
		signal = WSTOPSIG(status) == SYSTEM_CALL ? 0 : WSTOPSIG(status);
		stops += signal == 0;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		exit(1);
	return (stops + 1) / 2; /* the last does not return */
}

int main(int argc, char **argv)
{
	bool fast = argc > 1 && !strcmp(argv[1], "-s");
	char **command = argv + 2 + fast;
	double calls = argc > 2 + fast ? atoi(command[-1]) : 0;

	if (argc > 2 && !strcmp(argv[1], "-a"))
		return printf("%ld\n", count_all_system_calls(argv + 2)) < 0;
	if (calls < 1)
		return 2;
	if (!fast)
		printf("%.1f ", count_instructions(command) / calls);
	printf("%.2f\n", count_system_calls(command) / calls);
	return 0;
}
