/*
 * steps.c - count the instructions and system calls a program executes between two breakpoints
 * (int3), one step at a time: exact, and the same every time. Usage: steps CALLS PROGRAM ARG...
 * Prints instructions and system calls divided by CALLS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
		fprintf(stderr, "steps: the program ended early\n");
		exit(1);
	}
	return WSTOPSIG(status);
}

/* The two bytes of the instruction `syscall`. */
static int is_system_call(pid_t child, unsigned long at)
{
	return (ptrace(PTRACE_PEEKTEXT, child, at, NULL) & 0xffff) == 0x050f;
}

int main(int argc, char **argv)
{
	struct user_regs_struct registers;
	long instructions = 0, system_calls = 0;
	pid_t child;

	if (argc < 3)
		return 2;
	child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	wait_for(child);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	while (wait_for(child) != 5)
		ptrace(PTRACE_CONT, child, NULL, NULL);
	for (;;) {
		ptrace(PTRACE_GETREGS, child, NULL, &registers);
		/* The second breakpoint is one byte, 0xcc. */
		if ((ptrace(PTRACE_PEEKTEXT, child, registers.rip, NULL) & 0xff) == 0xcc)
			break;
		system_calls += is_system_call(child, registers.rip);
		instructions++;
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		wait_for(child);
	}
	ptrace(PTRACE_KILL, child, NULL, NULL);
	printf("%.1f %.2f\n", (double)instructions / atoi(argv[1]), (double)system_calls / atoi(argv[1]));
	return 0;
}
