/* flags: -Wl,--no-as-needed -lm */
/*
 * manners.c - a CUDA program with habits: `manners WHAT` prints what it sees; a preload may change
 * nothing of it. tests/t/manners.bats says what each is about.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-result"

extern char **environ;

static CUcontext context;

static int start(void)
{
	int result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&context, 0);
	return result ? result : (int)cuCtxSetCurrent(context);
}

/* 4 MiB, which is the limit under which the tests run it. */
static int use(void)
{
	CUdeviceptr pointer;
	int result = start();

	if (!result)
		result = cuMemAlloc(&pointer, 4 << 20);
	return result ? result : (int)cuMemFree(pointer);
}

/* A look-up leaves errno alone too, whatever its answer. */
static void look_up(void *handle)
{
	static const char *const names[] = { "cuInit", "cuMemAlloc_v2", "cuMemAlloc_v9", "malloc", "dlsym", "cu" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		errno = 77;
		printf("%d", dlsym(handle, names[i]) != NULL);
		printf(" %d; ", errno);
	}
	puts("");
}

static void see_errno(void)
{
	CUdeviceptr pointer;
	size_t free_bytes, total;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);

	look_up(driver);
	look_up(libc);
	look_up(RTLD_DEFAULT);
	look_up(RTLD_NEXT);
	look_up(dlopen(NULL, RTLD_NOW));
	look_up(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW));

	errno = 77;
	printf("%d %d\n", cuInit(0), errno);
	errno = 77;
	printf("%d %d\n", start(), errno);
	errno = 77;
	printf("%d %d\n", cuMemAlloc(&pointer, 4096), errno);
	printf("%d %d\n", cuMemGetInfo(&free_bytes, &total), errno);
	printf("%d %d\n", cuMemFree(pointer), errno);
	printf("%d %d\n", cuMemFree(12345), errno);
	printf("%d %d\n", cuMemAlloc(&pointer, (size_t)1 << 60), errno);
}

static void see_rounding(void)
{
	fesetround(FE_UPWARD);
	feraiseexcept(FE_INEXACT);
	printf("%d ", use());
	printf("%d %d %.20g\n", fegetround() == FE_UPWARD, fetestexcept(FE_ALL_EXCEPT), 1.0 / 3);
}

/* ---- signals ---- */

static volatile sig_atomic_t caught[65];
static sigjmp_buf back;

static void catch(int number)
{
	caught[number]++;
	if (number == SIGSEGV)
		siglongjmp(back, 1);
}

static void see_handlers(void)
{
	static const int numbers[] = { SIGUSR1, SIGUSR2, SIGSEGV, SIGBUS, SIGPIPE, SIGCHLD, SIGXFSZ };
	struct sigaction action = { .sa_handler = catch };
	sigset_t set;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		action.sa_flags = i & 1 ? SA_RESTART : SA_NODEFER;
		sigaction(numbers[i], &action, NULL);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGHUP);
	printf("%d\n", use());
	for (int i = 1; i < 65; i++) {
		if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("%d %d %x; ", i, action.sa_handler == catch, action.sa_flags);
	}
	raise(SIGUSR1);
	raise(SIGUSR2);
	if (sigsetjmp(back, 1) == 0)
		kill(getpid(), SIGSEGV), pause();
	sigpending(&set);
	printf("\n%d %d %d pending %d\n", caught[SIGUSR1], caught[SIGUSR2], caught[SIGSEGV],
		sigismember(&set, SIGHUP));
}

static void call_driver(int number)
{
	CUcontext current;
	int version;

	caught[number]++;
	if (cuCtxGetCurrent(&current) || cuDriverGetVersion(&version) || version == 0)
		caught[0]++;
}

static void see_restart(void)
{
	struct sigaction action = { .sa_handler = call_driver };
	char byte;
	int ends[2];

	start();
	for (int restart = 0; restart < 2; restart++) {
		action.sa_flags = restart ? SA_RESTART : 0;
		sigaction(SIGALRM, &action, NULL);
		pipe(ends);
		if (fork() == 0) {
			usleep(300000);
			write(ends[1], "x", 1);
			_exit(0);
		}
		ualarm(50000, 0);
		errno = 0;
		printf("read %zd ", read(ends[0], &byte, 1));
		printf("%s, handlers %d %d\n", strerror(errno), caught[SIGALRM], caught[0]);
		while (wait(NULL) < 0 && errno == EINTR)
			;
	}
}

/* A handler that calls the driver comes at any instruction of any call. */
static void storm(int flags)
{
	struct itimerval every = { { 0, 200 }, { 0, 200 } };
	struct sigaction action = { .sa_handler = call_driver, .sa_flags = SA_RESTART | flags };
	CUdeviceptr pointers[8];
	int failed = 0, rounds = 0;

	start();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (; rounds < 20000 || (caught[SIGALRM] < 50 && rounds < 100000000); rounds++) {
		for (int i = 0; i < 8; i++)
			failed += cuMemAlloc(&pointers[i], 4096 << i) != 0;
		for (int i = 0; i < 8; i++)
			failed += cuMemFree(pointers[i]) != 0;
	}
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
	printf("failed %d, in handlers %d, enough %d\n", failed, caught[0], caught[SIGALRM] >= 50);
}

static void see_storm(void)
{
	storm(0);
}

/* ... and on a stack of its own. */
static void see_elsewhere(void)
{
	static char room[65536];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };

	sigaltstack(&stack, NULL);
	storm(SA_ONSTACK);
	sigaltstack(NULL, &stack);
	printf("%d %d\n", stack.ss_sp == room, stack.ss_flags);
}

/* ---- children ---- */

static void say_status(const char *who, pid_t child)
{
	int status = 0;

	if (child > 0)
		waitpid(child, &status, 0);
	printf("%s %s %d\n", who, child > 0 ? "ended" : "failed", child > 0 ? status : errno);
	fflush(stdout);
}

static void *fork_here(void *unused)
{
	pid_t child = fork();

	if (child == 0)
		exit(use());
	say_status("thread", child);
	return unused;
}

static void become_daemon(void)
{
	int ends[2], result = 99;
	pid_t child;

	pipe(ends);
	child = fork();
	if (child == 0) {
		daemon(1, 1);
		result = use();
		write(ends[1], &result, sizeof(result));
		_exit(0);
	}
	close(ends[1]);
	say_status("daemon's parent", child);
	read(ends[0], &result, sizeof(result));
	printf("daemon %d\n", result);
}

static int exec_there(void *arguments)
{
	execvp("sh", arguments);
	return 7;
}

static int end_there(void *unused)
{
	(void)unused;
	_exit(8);
}

static void see_children(void)
{
	static char stack[65536] __attribute__((aligned(64)));
	char *arguments[] = { "sh", "-c", "exit 5", NULL };
	struct clone_args modern = { .exit_signal = SIGCHLD };
	pthread_t thread;
	pid_t child = fork();

	if (child == 0)
		exit(use());
	say_status("fork", child);
	child = fork();
	if (child == 0)
		_exit(use());
	say_status("fork, _exit", child);
	child = vfork();
	if (child == 0)
		_exit(6);
	say_status("vfork", child);
	child = vfork();
	if (child == 0) {
		execvp("sh", arguments);
		_exit(7);
	}
	say_status("vfork, exec", child);
	child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0)
		syscall(SYS_exit_group, use());
	say_status("clone", child);
	child = syscall(SYS_clone3, &modern, sizeof(modern));
	if (child == 0)
		syscall(SYS_exit_group, use());
	say_status("clone3", child);
	child = _Fork();
	if (child == 0)
		_exit(use());
	say_status("_Fork", child);
	child = clone(exec_there, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, arguments);
	say_status("clone in our memory, exec", child);
	child = clone(end_there, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	say_status("clone in our memory, _exit", child);
	posix_spawnp(&child, "sh", NULL, NULL, arguments, environ);
	say_status("spawn", child);
	printf("popen %d\n", pclose(popen("exit 4", "r")));
	printf("system %d\n", system("exit 3"));
	pthread_create(&thread, NULL, fork_here, NULL);
	pthread_join(thread, NULL);
	become_daemon();
	printf("parent %d\n", use());
}

/* ---- descriptors, files ---- */

static void list_descriptors(FILE *out)
{
	struct stat status;

	for (int fd = 0; fd < 64; fd++) {
		if (fstat(fd, &status) == 0)
			fprintf(out, "%d ", fd);
	}
	fprintf(out, "\n");
}

static void see_descriptors(void)
{
	char text[100] = "";
	int data;

	close(0), close(1), close(2);
	open("a", O_RDWR | O_CREAT, 0600);
	open("b", O_RDWR | O_CREAT, 0600);
	data = open("data", O_RDWR | O_CREAT, 0600);
	write(data, "data", 4);
	for (int round = 0; round < 3; round++) {
		snprintf(text, sizeof(text), "%d %d\n", round, use());
		write(1, text, strlen(text));
		syscall(SYS_close_range, 3, ~0u, 0);
	}
	cuMemFree(12345);
	cuMemFree(12345);
	list_descriptors(fdopen(1, "w"));
	exit(data == 2 ? 0 : 1);
}

static void see_umask(void)
{
	static const int masks[] = { 0, 022, 077, 0777 };
	struct stat status;
	char name[20];

	for (int i = 0; i < 4; i++) {
		umask(masks[i]);
		snprintf(name, sizeof(name), "f%d", i);
		printf("%d ", use());
		close(open(name, O_CREAT | O_WRONLY, 0666));
		stat(name, &status);
		printf("%o %o\n", status.st_mode, umask(masks[i]));
	}
}

/* ---- threads ---- */

static void *use_in_thread(void *result)
{
	*(int *)result = use();
	return NULL;
}

static void see_small_stack(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int result = 99;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 32768);
	printf("%d\n", pthread_create(&thread, &attributes, use_in_thread, &result));
	pthread_join(thread, NULL);
	printf("%d\n", result);
}

static void *wait_for_ever(void *stream)
{
	cuCtxSetCurrent(context);
	cuStreamSynchronize(stream);
	return NULL;
}

static void see_cancel(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry endless() { ret; }\n";
	CUmodule module;
	CUfunction kernel;
	CUstream stream;
	pthread_t thread;
	void *end = NULL;

	start();
	cuModuleLoadData(&module, ptx);
	cuModuleGetFunction(&kernel, module, "endless");
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	pthread_create(&thread, NULL, wait_for_ever, stream);
	usleep(100000);
	pthread_cancel(thread);
	pthread_join(thread, &end);
	printf("%d %d\n", end == PTHREAD_CANCELED, use());
	fflush(stdout);
	_exit(0);
}

/* ---- surroundings ---- */

static void see_environment(void)
{
	printf("%d\n", use());
	setenv("CUWARD_MEMORY", "1K", 1);
	setenv("CUWARD_DISABLE", "1", 1);
	clearenv();
	printf("%d %d\n", use(), environ == NULL || environ[0] == NULL);
}

static void see_few_descriptors(void)
{
	struct rlimit few = { 3, 3 };

	setrlimit(RLIMIT_NOFILE, &few);
	printf("%d\n", use());
}

/* Files, advice, locks: the kernel says no to what a sandbox may forbid. */
static void see_sandbox(void)
{
	static const int forbidden[] = { SYS_openat, SYS_mkdirat, SYS_madvise, SYS_fallocate, SYS_fcntl,
		SYS_ftruncate, SYS_unlinkat, SYS_process_vm_readv, SYS_tgkill, SYS_readlinkat };
	enum { COUNT = sizeof(forbidden) / sizeof(forbidden[0]) };
	struct sock_filter filter[COUNT + 3];
	struct sock_fprog program = { COUNT + 3, filter };

	filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i],
			COUNT - i, 0);
	filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("filter %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	printf("%d\n", use());
}

static long resident_kib(void)
{
	char line[200];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmRSS: %ld", &kib);
	fclose(status);
	return kib;
}

/* All its memory stays in core, whatever is mapped later. */
static void see_locked(void)
{
	int version = 0;
	long before = resident_kib();

	printf("%d ", mlockall(MCL_FUTURE));
	cuDriverGetVersion(&version);
	printf("%d %s\n", version, resident_kib() - before < 16384 ? "little" : "a lot");
	munlockall();
}

/* Threads are inside calls, at any place there, while others fork. */
static volatile int stop;

static void *churn(void *unused)
{
	CUdeviceptr pointers[4];

	cuCtxSetCurrent(context);
	while (!stop) {
		for (int i = 0; i < 4; i++)
			cuMemAlloc(&pointers[i], 4096 << i);
		for (int i = 0; i < 4; i++)
			cuMemFree(pointers[i]);
	}
	return unused;
}

/* Children of those find the books closed and empty, and no lock held. */
static void see_forks(void)
{
	pthread_t threads[4];
	int status, good = 0, version;

	start();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	for (int i = 0; i < 40; i++) {
		pid_t child = i % 2 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (child == 0) {
			alarm(20);
			status = cuDriverGetVersion(&version) || version == 0;
			i % 2 ? _exit(status) : (void)syscall(SYS_exit_group, status);
		}
		waitpid(child, &status, 0);
		good += status == 0;
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d children\n", good);
}

/* A sampling profiler: SIGPROF at any instruction, and a walk up the stack from there. */
static void sample(int number)
{
	void *frames[64];

	if (backtrace(frames, 64) > 0)
		caught[number]++;
}

static void see_profiler(void)
{
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = sample, .sa_flags = SA_RESTART };
	CUdeviceptr pointer;
	void *frame;
	int failed = 0;

	start();
	backtrace(&frame, 1); /* it loads a library the first time */
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	for (long i = 0; caught[SIGPROF] < 20 && i < 1000000000; i++)
		failed += cuMemAlloc(&pointer, 4096) || cuMemFree(pointer);
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_PROF, &every, NULL);
	printf("failed %d, enough %d\n", failed, caught[SIGPROF] >= 20);
}

static void leave(void)
{
	printf("handler %d\n", (int)cuCtxSetCurrent(context));
	fflush(stdout);
}

static __attribute__((destructor)) void unload(void)
{
	printf("destructor\n");
	fflush(stdout);
}

static void *end_here(void *status)
{
	exit(*(int *)status);
}

static void see_end(void)
{
	pthread_t thread;
	int status = 300;

	atexit(leave);
	printf("%d\n", use());
	pthread_create(&thread, NULL, end_here, &status);
	pthread_exit(NULL);
}

static const struct {
	const char *name;
	void (*see)(void);
} habits[] = {
	{ "errno", see_errno }, { "rounding", see_rounding }, { "handlers", see_handlers },
	{ "restart", see_restart }, { "storm", see_storm }, { "elsewhere", see_elsewhere }, { "children", see_children },
	{ "descriptors", see_descriptors }, { "umask", see_umask }, { "stack", see_small_stack },
	{ "cancel", see_cancel }, { "environment", see_environment }, { "few", see_few_descriptors },
	{ "sandbox", see_sandbox }, { "end", see_end }, { "locked", see_locked }, { "forks", see_forks }, { "profiler", see_profiler },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (unsigned i = 0; argc > 1 && i < sizeof(habits) / sizeof(habits[0]); i++) {
		if (strcmp(argv[1], habits[i].name) == 0) {
			if (argc > 2) /* it used CUDA before */
				printf("before %d\n", use());
			habits[i].see();
			return 0;
		}
	}
	return 2;
}
