/*
 * jump.c - a signal handler jumps out of a driver call that does not end; then the limit must still
 * hold: prints the answer to a request of 64 MiB. Wants a kernel that never ends.
 *
 *	jump WHERE: asks from `here`, `deep` down the stack, `deeper`, `up` from where it was
 *	jump nested [other]: a handler asks for it inside the call, [on another stack], and the call goes on
 *	jump forks sync|launch: a handler forks inside the call, and it goes on in both; of a kernel that ends, and
 *	                        for the launch one that a launch waits for
 */
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static CUstream stream;
static const char *where;
static pid_t child = -1;

static __attribute__((noinline)) int ask(size_t bytes)
{
	CUdeviceptr pointer;

	return cuMemAlloc(&pointer, bytes);
}

/* From `depth` frames of some size further down. */
static __attribute__((noinline)) int ask_below(int depth, size_t bytes)
{
	volatile char room[500];
	int answer;

	memset((char *)room, depth, sizeof(room));
	answer = depth ? ask_below(depth - 1, bytes) : ask(bytes);
	return answer + (room[0] != (char)depth);
}

static __attribute__((noinline)) int wait_below(int depth)
{
	volatile char room[500];
	int result;

	memset((char *)room, depth, sizeof(room));
	result = depth ? wait_below(depth - 1) : (int)cuStreamSynchronize(stream);
	return result + (room[0] != (char)depth);
}

static void interrupt(int signal)
{
	if (strcmp(where, "forks") == 0) {
		child = fork();
		return;
	}
	if (strcmp(where, "nested") != 0)
		siglongjmp(back, signal);
	printf("inside %d\n", ask((size_t)64 << 20));
	fflush(stdout);
	signal = 0;
}

static void handle_alarm(int elsewhere)
{
	static char room[65536];
	stack_t other = { .ss_sp = room, .ss_size = sizeof(room) };
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = elsewhere ? SA_ONSTACK : 0 };

	if (elsewhere)
		sigaltstack(&other, NULL);
	sigaction(SIGALRM, &action, NULL);
	ualarm(200000, 0);
}

/* What the call says in both, and the next one: of the child the driver wants nothing. */
static int tell_both(int result)
{
	printf("%s %d %d\n", child ? "parent" : "child", result, ask((size_t)64 << 20));
	fflush(stdout);
	_exit(child < 0);
}

static int go_on_in_both(CUfunction kernel, const char *call)
{
	int result = strcmp(call, "sync") == 0 ? cuStreamSynchronize(stream) :
		cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);

	if (child > 0)
		waitpid(child, NULL, 0);
	return tell_both(result);
}

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry endless() { ret; }\n";
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	int answer;

	where = argc > 1 ? argv[1] : "here";
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
		cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&kernel, module, "endless") ||
		cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
		cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL))
		return 1;
	handle_alarm(argc > 2);
	if (strcmp(where, "forks") == 0)
		return go_on_in_both(kernel, argv[2]);
	if (sigsetjmp(back, 1) == 0)
		wait_below(strcmp(where, "up") == 0 ? 20 : strcmp(where, "deeper") == 0 ? 3 : 0);
	answer = strcmp(where, "deep") == 0 || strcmp(where, "deeper") == 0 ?
		ask_below(10, (size_t)64 << 20) : ask((size_t)64 << 20);
	printf("answer %d\n", answer);
	fflush(stdout);
	_exit(0);
}
