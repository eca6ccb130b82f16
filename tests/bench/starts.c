/*
 * starts.c - what starting a program costs: `starts NAME COUNT COMMAND...`, one after the other, and
 * `starts -a NAME COUNT COMMAND...`, all at once. Prints `name value` lines in milliseconds: NAME, by the clock,
 * divided by COUNT; with -a also the processor time of single processes, which does not count those that
 * were in the way: NAME_cpu, the median, and NAME_cpu_worst, that of all but one in a hundred.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 1000

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double ms_of(struct timeval t)
{
	return t.tv_sec * 1e3 + t.tv_usec / 1e3;
}

/* They hold still until all of them are there: what is measured is their start, not ours. */
static void start_one(char **command, const int gate[2])
{
	char byte;

	if (fork() != 0)
		return;
	if (gate) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) < 0)
			_exit(126);
		close(gate[0]);
	}
	execvp(command[0], command);
	_exit(127);
}

/* Processor milliseconds of whoever ends next. */
static double end_one(void)
{
	struct rusage usage;
	int status;

	if (wait4(-1, &status, 0, &usage) < 0 || status != 0) {
		fprintf(stderr, "starts: a process failed: status %#x\n", status);
		exit(1);
	}
	return ms_of(usage.ru_utime) + ms_of(usage.ru_stime);
}

static int smaller(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void at_once(const char *name, int count, char **command)
{
	static double cpu[MOST];
	double began;
	int gate[2];

	if (pipe(gate) < 0)
		exit(1);
	for (int i = 0; i < count; i++)
		start_one(command, gate);
	began = now_ms();
	close(gate[1]);
	for (int i = 0; i < count; i++)
		cpu[i] = end_one();
	printf("%s %.3f\n", name, (now_ms() - began) / count);
	qsort(cpu, count, sizeof(*cpu), smaller);
	printf("%s_cpu %.3f\n%s_cpu_worst %.3f\n", name, cpu[count / 2], name, cpu[count - 1 - count / 100]);
}

static void in_turn(const char *name, int count, char **command)
{
	double began = now_ms();

	for (int i = 0; i < count; i++) {
		start_one(command, NULL);
		end_one();
	}
	printf("%s %.3f\n", name, (now_ms() - began) / count);
}

int main(int argc, char **argv)
{
	bool together = argc > 1 && !strcmp(argv[1], "-a");
	char **arguments = argv + 1 + together;
	int count = argc > 3 + together ? atoi(arguments[1]) : 0;

	if (count < 1 || count > MOST)
		return 2;
	(together ? at_once : in_turn)(arguments[0], count, arguments + 2);
	return 0;
}
