/*
 * impatient.c - what happens to a thread while it waits for memory: `impatient STORY`, with a limit of 4M.
 *
 *	cancel	another thread cancels it; then 60 seconds of nothing, with the 4M held
 *	term	for CUWARD_ON_LIMIT=kill: timers go off while a handler of SIGTERM lets the program
 *		finish in a second, with status 7
 */
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

static CUcontext context;
static volatile sig_atomic_t asked_to_end;

static void *allocate(void *unused)
{
	CUdeviceptr pointer;

	OK(cuCtxSetCurrent(context));
	cuMemAlloc(&pointer, 1 << 20);
	pthread_testcancel();
	return unused;
}

static void cancel(void)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, allocate, NULL);
	usleep(500000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
	fflush(stdout);
	sleep(60);
}

static void on_term(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void *finish(void *unused)
{
	while (!asked_to_end)
		usleep(1000);
	sleep(1);
	_exit(7);
	return unused;
}

static void term(void)
{
	const struct itimerval often = { { 0, 50000 }, { 0, 50000 } };
	pthread_t thread;
	CUdeviceptr pointer;
	sigset_t alarms;

	signal(SIGTERM, on_term);
	signal(SIGALRM, on_alarm);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	pthread_create(&thread, NULL, finish, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	cuMemAlloc(&pointer, 1 << 20);
	sleep(60);
}

int main(int argc, char **argv)
{
	CUdeviceptr all;

	if (argc < 2)
		return 2;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc(&all, 4 << 20));
	if (strcmp(argv[1], "cancel") == 0)
		cancel();
	else if (strcmp(argv[1], "term") == 0)
		term();
	else
		return 2;
	return 0;
}
