/*
 * chaos.c - processes of several users that allocate at random under common limits, and are killed,
 * stopped, forked and restarted meanwhile; see tests/t/box_chaos.bats.
 *
 *	chaos SECONDS PROCESSES LIBRARY FOLDER ALL EACH JOB UID...   started by root, without a preload
 *	chaos work PLACE | chaos probe BYTES                         what it starts, as those users
 *
 * ALL, EACH and JOB are the limits that are set: of all users, of each, and of one job in each. Again and
 * again everybody is stopped, and the driver's truth about those alive is held against the limits. At
 * the end all of them are killed, and a process of each user must get all memory at once, again.
 * Prints what was done, and `WRONG: ...` for what should not be; then the status is 1.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

#define PROCESSES_MAX 64
#define USERS_MAX 8
#define HELD 6
#define SIZE_MAX_BYTES (2u << 20)
#define PATIENCE_MS 10000 /* of a call, whatever happens to others; those stopped wait for that, too */
#define BACK_MS 1000

/* What workers tell, in a file that all users may write. */
struct told {
	_Atomic uint64_t granted, refused, forks, ends;
	_Atomic uint64_t odd;      /* answers that no program should get */
	_Atomic uint64_t last_odd;
	_Atomic uint64_t longest_ms;
};

static struct told *told;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static void *map_file(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	return at;
}

/* ---- a worker ---- */

static uint64_t state;

static unsigned dice(unsigned sides)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % sides;
}

static void open_device(void)
{
	CUcontext context;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		exit(3);
}

static void note(CUresult result, uint64_t began)
{
	uint64_t ms = now_ms() - began, longest = told->longest_ms;

	while (ms > longest && !atomic_compare_exchange_weak(&told->longest_ms, &longest, ms))
		;
	if (result == CUDA_SUCCESS)
		return;
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		told->refused++;
		return;
	}
	told->last_odd = result;
	told->odd++;
}

static CUresult take(CUdeviceptr *pointer, size_t bytes)
{
	switch (dice(4)) {
	case 0: return cuMemAllocManaged(pointer, bytes, CU_MEM_ATTACH_GLOBAL);
	case 1: return cuMemAllocAsync(pointer, bytes, NULL);
	default: return cuMemAlloc(pointer, bytes);
	}
}

/* A child that outlives many a parent, and keeps nothing of it alive. */
static void fork_child(void)
{
	pid_t pid = fork();
	CUdeviceptr pointer;

	if (pid != 0) {
		told->forks++;
		return;
	}
	cuMemAlloc(&pointer, 4096); /* the driver has an answer for that */
	usleep(100000 + dice(400000));
	_exit(0);
}

static int work(const char *place)
{
	CUdeviceptr held[HELD] = { 0 };

	told = map_file("told", sizeof(*told));
	state = (uint64_t)getpid() << 20 ^ now_ms() ^ strtoull(place, NULL, 0) << 40;
	signal(SIGCHLD, SIG_IGN);
	open_device();
	for (;;) {
		CUdeviceptr *one = &held[dice(HELD)];
		uint64_t began = now_ms();
		CUresult result;

		if (*one) {
			result = cuMemFree(*one);
			*one = 0;
		} else {
			result = take(one, 4096 + dice(SIZE_MAX_BYTES - 4096));
			told->granted += result == CUDA_SUCCESS;
			*one = result == CUDA_SUCCESS ? *one : 0;
		}
		note(result, began);
		if (dice(300) == 0)
			fork_child();
		if (dice(1000) == 0) {
			told->ends++;
			return 0; /* with what it holds */
		}
		usleep(dice(4000));
	}
}

/* Attached before it matters; a line on stdin says that everybody else is dead. */
static int probe(const char *bytes)
{
	size_t wanted = strtoull(bytes, NULL, 0), available, total;
	CUdeviceptr pointer;
	uint64_t began;
	char go;

	open_device();
	if (write(1, "r", 1) != 1 || read(0, &go, 1) != 1)
		return 4;
	began = now_ms();
	while (cuMemAlloc(&pointer, wanted) != CUDA_SUCCESS) {
		if (now_ms() - began > BACK_MS)
			return 5;
		usleep(1000);
	}
	cuMemFree(pointer);
	return cuMemGetInfo(&available, &total) ? 6 : 0;
}

/* ---- who starts, stops and kills them ---- */

static struct {
	const char *self, *library, *folder;
	uint64_t limit_all, limit_each, limit_job;
	unsigned users, processes;
	uid_t uid[USERS_MAX];
	pid_t pid[PROCESSES_MAX];
	const struct sim_truth *truth;
	unsigned kills, stops, looks, starts;
	bool wrong;
} chaos;

static void __attribute__((format(printf, 1, 2))) wrong(const char *format, ...)
{
	va_list arguments;

	printf("WRONG: ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	chaos.wrong = true;
}

static uid_t uid_of(unsigned place)
{
	return chaos.uid[place % chaos.users];
}

/* One in three of each user is in his job. */
static bool is_in_job(unsigned place)
{
	return place / chaos.users % 3 == 0;
}

static void become(unsigned place, bool in_job)
{
	char text[4200];
	uid_t uid = uid_of(place);

	if (setgroups(0, NULL) || setgid(uid) || setuid(uid))
		_exit(8);
	snprintf(text, sizeof(text), "%s/state-%u", chaos.folder, uid);
	setenv("CUWARD_DIR", text, 1);
	if (in_job) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)chaos.limit_job);
		setenv("CUWARD_JOB", "chaos", 1);
		setenv("CUWARD_JOB_MEMORY", text, 1);
	}
	setenv("LD_PRELOAD", chaos.library, 1);
}

static void start(unsigned place)
{
	char number[16];
	pid_t pid = fork();

	if (pid == 0) {
		become(place, is_in_job(place));
		snprintf(number, sizeof(number), "%u", place);
		execl(chaos.self, chaos.self, "work", number, NULL);
		_exit(9);
	}
	chaos.pid[place] = pid;
	chaos.starts++;
}

/* Those that ended by themselves did so in order; all of them begin again. */
static void restart_ended(void)
{
	int status;

	for (unsigned i = 0; i < chaos.processes; i++) {
		if (waitpid(chaos.pid[i], &status, WNOHANG) != chaos.pid[i])
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			wrong("a worker ended with status %#x", status);
		start(i);
	}
}

static void kill_one(unsigned place)
{
	kill(chaos.pid[place], SIGKILL);
	waitpid(chaos.pid[place], NULL, 0);
	chaos.kills++;
	start(place);
}

static void signal_all(int number)
{
	for (unsigned i = 0; i < chaos.processes; i++)
		kill(chaos.pid[i], number);
}

static char letter_of(pid_t pid)
{
	char path[64], text[512], *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 'X';
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	at = strrchr(text, ')');
	return at ? at[2] : 'X';
}

static void stop_all(void)
{
	signal_all(SIGSTOP);
	for (unsigned i = 0; i < chaos.processes; i++)
		for (char letter = 0; letter != 'T' && letter != 'Z' && letter != 'X'; usleep(letter ? 500 : 0))
			letter = letter_of(chaos.pid[i]);
}

/* What the driver gave to who stands there; 0 if he has not begun. */
static uint64_t truth_of(unsigned place)
{
	for (unsigned i = 0; i < SIM_TRUTH_PROCESSES; i++)
		if (chaos.truth->process[i].state == ROW_LIVE && chaos.truth->process[i].pid == chaos.pid[place])
			return chaos.truth->process[i].device[0].requested;
	return 0;
}

/* Everybody stands still. Who ended just now is not counted: his memory is nobody's. */
static void look(void)
{
	uint64_t all = 0;

	for (unsigned user = 0; user < chaos.users; user++) {
		uint64_t each = 0, job = 0;

		for (unsigned i = user; i < chaos.processes; i += chaos.users) {
			uint64_t bytes = letter_of(chaos.pid[i]) == 'T' ? truth_of(i) : 0;

			each += bytes;
			job += is_in_job(i) ? bytes : 0;
		}
		if (each > chaos.limit_each)
			wrong("a user holds %llu", (unsigned long long)each);
		if (job > chaos.limit_job)
			wrong("a job holds %llu", (unsigned long long)job);
		all += each;
	}
	if (all > chaos.limit_all)
		wrong("all hold %llu", (unsigned long long)all);
	chaos.looks++;
}

static void play(unsigned seconds)
{
	uint64_t end = now_ms() + seconds * 1000ull, next_look = now_ms() + 500;

	state = now_ms();
	while (now_ms() < end) {
		unsigned one = dice(chaos.processes);

		switch (dice(3)) {
		case 0:
			kill_one(one);
			break;
		case 1: /* in the middle of whatever it does */
			kill(chaos.pid[one], SIGSTOP);
			usleep(dice(200000));
			if (dice(2))
				kill_one(one);
			else
				kill(chaos.pid[one], SIGCONT);
			chaos.stops++;
			break;
		default:
			usleep(dice(50000));
		}
		restart_ended();
		if (now_ms() > next_look) {
			stop_all();
			look();
			signal_all(SIGCONT);
			next_look = now_ms() + 500;
		}
	}
}

/* ---- the end ---- */

/* One line a worker: his pid, and what the driver gave him. `cuward ps` must not say less. */
static void write_held(void)
{
	FILE *file = fopen("held", "w");

	for (unsigned i = 0; file && i < chaos.processes; i++)
		if (letter_of(chaos.pid[i]) == 'T')
			fprintf(file, "%d %llu\n", (int)chaos.pid[i], (unsigned long long)truth_of(i));
	if (!file || fclose(file) || system("cuward ps --json >held.json"))
		wrong("cuward ps failed");
}

struct prober {
	pid_t pid;
	int to, from;
};

static void start_prober(struct prober *prober, unsigned user)
{
	int to[2], from[2];
	char bytes[32], ready;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		exit(1);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)chaos.limit_each);
	prober->pid = fork();
	if (prober->pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		become(user, false);
		execl(chaos.self, chaos.self, "probe", bytes, NULL);
		_exit(9);
	}
	close(to[0]);
	close(from[1]);
	prober->to = to[1];
	prober->from = from[0];
	if (read(prober->from, &ready, 1) != 1)
		wrong("a prober did not start");
}

static void finish(void)
{
	struct prober prober[USERS_MAX];
	int status;

	for (unsigned i = 0; i < chaos.users; i++)
		start_prober(&prober[i], i);
	stop_all();
	look();
	write_held();
	signal_all(SIGKILL);
	for (unsigned i = 0; i < chaos.processes; i++)
		waitpid(chaos.pid[i], NULL, 0);
	for (unsigned i = 0; i < chaos.users; i++) {
		if (write(prober[i].to, "g", 1) != 1 || waitpid(prober[i].pid, &status, 0) != prober[i].pid)
			status = -1;
		if (status != 0)
			wrong("user %u does not get his memory back, status %#x", chaos.uid[i], status);
	}
	if (chaos.truth->device[0].requested != 0)
		wrong("%llu bytes are left", (unsigned long long)chaos.truth->device[0].requested);
	if (chaos.truth->device[0].requested_high > chaos.limit_all)
		wrong("all held %llu at once", (unsigned long long)chaos.truth->device[0].requested_high);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "work") == 0)
		return work(argv[2]);
	if (argc == 3 && strcmp(argv[1], "probe") == 0)
		return probe(argv[2]);
	if (argc < 9 || argc > 8 + USERS_MAX || atoi(argv[2]) > PROCESSES_MAX)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	chaos.self = "/proc/self/exe";
	chaos.processes = atoi(argv[2]);
	chaos.library = argv[3];
	chaos.folder = argv[4];
	chaos.limit_all = strtoull(argv[5], NULL, 0);
	chaos.limit_each = strtoull(argv[6], NULL, 0);
	chaos.limit_job = strtoull(argv[7], NULL, 0);
	for (int i = 8; i < argc; i++)
		chaos.uid[chaos.users++] = strtoul(argv[i], NULL, 0);
	told = map_file("told", sizeof(*told));
	chaos.truth = map_file(getenv("CUWARD_SIM_TRUTH"), sizeof(*chaos.truth));
	for (unsigned i = 0; i < chaos.processes; i++)
		start(i);
	play(atoi(argv[1]));
	finish();
	printf("%u starts, %u kills, %u stops, %u looks; %llu granted, %llu refused, %llu forks, %llu ends; "
		"a call took %llu ms at most\n", chaos.starts, chaos.kills, chaos.stops, chaos.looks,
		(unsigned long long)told->granted, (unsigned long long)told->refused,
		(unsigned long long)told->forks, (unsigned long long)told->ends,
		(unsigned long long)told->longest_ms);
	if (told->odd)
		wrong("%llu odd answers, the last %llu", (unsigned long long)told->odd,
			(unsigned long long)told->last_odd);
	if (told->longest_ms > PATIENCE_MS)
		wrong("a call took %llu ms", (unsigned long long)told->longest_ms);
	return chaos.wrong;
}
