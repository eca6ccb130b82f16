/* flags: -rdynamic */
/*
 * play.c - a CUDA program that does what its arguments say, one after the other.
 *
 *	init  init_refused  device N  alloc SIZE  host SIZE  managed SIZE  vmm SIZE  free N  freeall  refused SIZE
 *	info TOTAL/FREE  launch KERNEL  launch_ex KERNEL  launches MS  sync  copy  churn MS  grow MS
 *	sleep MS  sh COMMAND  chdir FOLDER  putenv NAME=VALUE  say WORD  exit N  _exit N  quick_exit N  abort  kill SIGNAL  segv
 *	fork ( ... )  wait  exec PROGRAM ARG...  stdin  closeall
 *
 * SIZE is bytes, or with K, M or G. free N frees the Nth allocation of this process, from 0.
 * launch_ex of `again` is of the kernel before.
 * closeall: every descriptor from 3 on, as those do that become daemons.
 * init_refused: cuInit must fail with 800, and the program goes on as if it had not.
 * stdin: do what lines there say, up to the end of it. `fork (` lets a child do what stands up to the `)`, after which the child ends like the others.
 * A CUDA call that fails ends the program with status 99, except after `refused`, which wants error
 * 2 (out of memory); so does `info` with other sizes than cuMemGetInfo tells. launches, churn and grow go on for so long: launching,
 * allocating and freeing, allocating alone. copy copies out of the first
 * allocation, and waits for the GPU. It finds the driver as the CUDA runtime does.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*call)();

static void *driver;
static struct {
	uint64_t handle;
	const char *free_by;
} allocations[10000];
static int count;

static call find(const char *name)
{
	call found;

	if (!driver)
		driver = dlopen("libcuda.so.1", RTLD_NOW);
	found = driver ? (call)dlsym(driver, name) : NULL;
	if (!found) {
		fprintf(stderr, "play: no %s\n", name);
		exit(98);
	}
	return found;
}

static void need(const char *what, int result)
{
	if (result == 0)
		return;
	fprintf(stderr, "play: %s: error %d\n", what, result);
	exit(99);
}

static uint64_t size(const char *text)
{
	char *unit;
	uint64_t bytes = strtoull(text, &unit, 10);

	return bytes << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0);
}

static void use_device(int ordinal)
{
	void *context;
	int device;

	need("cuDeviceGet", find("cuDeviceGet")(&device, ordinal));
	need("cuDevicePrimaryCtxRetain", find("cuDevicePrimaryCtxRetain")(&context, device));
	need("cuCtxSetCurrent", find("cuCtxSetCurrent")(context));
}

static void keep(uint64_t handle, const char *free_by)
{
	allocations[count].handle = handle;
	allocations[count++].free_by = free_by;
}

/* Not static, so that -rdynamic gives its name to who reports call sites. */
void allocate(const char *kind, const char *text);

void allocate(const char *kind, const char *text)
{
	uint64_t handle = 0;
	struct {
		int type, handles, location, id;
		void *security;
		unsigned char flags[8];
	} physical = { 1, 0, 1, 0, NULL, { 0 } };

	if (strcmp(kind, "host") == 0)
		need(kind, find("cuMemAllocHost_v2")(&handle, size(text)));
	else if (strcmp(kind, "managed") == 0)
		need(kind, find("cuMemAllocManaged")(&handle, size(text), 1));
	else if (strcmp(kind, "vmm") == 0)
		need(kind, find("cuMemCreate")(&handle, size(text), &physical, 0ull));
	else
		need(kind, find("cuMemAlloc_v2")(&handle, size(text)));
	keep(handle, strcmp(kind, "host") == 0 ? "cuMemFreeHost" :
		strcmp(kind, "vmm") == 0 ? "cuMemRelease" : "cuMemFree_v2");
}

/* cuLaunchKernelEx takes a structure: shape, shared memory, stream, and no attributes. */
static void launch(const char *name, int ex)
{
	struct {
		unsigned grid[3], block[3], shared;
		void *stream, *attributes;
		unsigned count;
	} config = { { 1, 1, 1 }, { 32, 1, 1 }, 0, NULL, NULL, 0 };
	static void *function;
	char ptx[200];
	void *module;

	snprintf(ptx, sizeof(ptx), ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry %s() { ret; }\n", name);
	if (!ex || strcmp(name, "again") != 0) {
		need("module", find("cuModuleLoadData")(&module, ptx));
		need("function", find("cuModuleGetFunction")(&function, module, name));
	}
	if (ex)
		need("launch", find("cuLaunchKernelEx")(&config, function, NULL, NULL));
	else
		need("launch", find("cuLaunchKernel")(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void keep_launching(int ms)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry again() { ret; }\n";
	long end = now_ms() + ms;
	void *module, *function;
	call cuLaunchKernel = find("cuLaunchKernel");

	need("module", find("cuModuleLoadData")(&module, ptx));
	need("function", find("cuModuleGetFunction")(&function, module, "again"));
	for (; now_ms() < end; usleep(1000))
		need("launch", cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static void keep_allocating(int ms, int freeing)
{
	long end = now_ms() + ms;

	for (; now_ms() < end; usleep(freeing ? 1000 : 20000)) {
		uint64_t handle = 0;

		need("alloc", find("cuMemAlloc_v2")(&handle, (size_t)1 << 20));
		if (freeing)
			need("free", find("cuMemFree_v2")(handle));
	}
}

static void give_back(int number)
{
	need("free", find(allocations[number].free_by)(allocations[number].handle));
}

static void refused(const char *text)
{
	uint64_t handle = 0;
	int result = find("cuMemAlloc_v2")(&handle, size(text));

	if (result == 2 && handle == 0)
		return;
	fprintf(stderr, "play: wanted error 2, got %d\n", result);
	exit(97);
}

/* What follows happens in a child up to the ")"; the parent goes on behind it. */
static char **fork_here(char **word)
{
	char **end = word;
	pid_t child;

	while (strcmp(*end, ")") != 0)
		end++;
	fflush(NULL);
	child = fork();
	if (child != 0)
		return end;
	*end = NULL;
	count = 0;
	return word + 1; /* behind the "(" is found next */
}

static char **one(char **word);

static void all(char **word)
{
	while (*word)
		word = one(word) + 1;
}

static void info(const char *sizes)
{
	size_t available, total;

	need("cuMemGetInfo_v2", find("cuMemGetInfo_v2")(&available, &total));
	if (total == size(sizes) && available == size(strchr(sizes, '/') + 1))
		return;
	fprintf(stderr, "play: info: %zu free of %zu\n", available, total);
	exit(99);
}

/* Words of a line, as if they were arguments. */
static void read_lines(void)
{
	char line[4096], *words[200], *rest;
	int n;

	while (fgets(line, sizeof(line), stdin)) {
		rest = line;
		for (n = 0; n < 199 && (words[n] = strtok_r(rest, " \n", &rest)); n++)
			;
		words[n] = NULL;
		all(words);
	}
}

static int plain(const char *word)
{
	uint64_t copied;

	if (strcmp(word, "init") == 0)
		need(word, find("cuInit")(0));
	else if (strcmp(word, "init_refused") == 0)
		need(word, find("cuInit")(0) == 800 ? 0 : 800);
	else if (strcmp(word, "sync") == 0)
		need(word, find("cuCtxSynchronize")());
	else if (strcmp(word, "copy") == 0)
		need(word, find("cuMemcpyDtoH_v2")(&copied, allocations[0].handle, sizeof(copied)));
	else if (strcmp(word, "freeall") == 0)
		for (int i = 0; i < count; i++)
			give_back(i);
	else if (strcmp(word, "stdin") == 0)
		read_lines();
	else if (strcmp(word, "closeall") == 0)
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	else if (strcmp(word, "abort") == 0)
		abort();
	else if (strcmp(word, "segv") == 0)
		raise(SIGSEGV);
	else if (strcmp(word, "wait") == 0)
		while (wait(NULL) > 0)
			;
	else
		return 0;
	return 1;
}

static void with_argument(const char *word, const char *argument)
{
	if (strcmp(word, "device") == 0)
		use_device(atoi(argument));
	else if (strcmp(word, "free") == 0)
		give_back(atoi(argument));
	else if (strcmp(word, "refused") == 0)
		refused(argument);
	else if (strcmp(word, "info") == 0)
		info(argument);
	else if (strcmp(word, "sleep") == 0)
		usleep((useconds_t)atoi(argument) * 1000);
	else if (strcmp(word, "sh") == 0)
		need("sh", system(argument));
	else if (strcmp(word, "launch") == 0)
		launch(argument, 0);
	else if (strcmp(word, "launch_ex") == 0)
		launch(argument, 1);
	else if (strcmp(word, "launches") == 0)
		keep_launching(atoi(argument));
	else if (strcmp(word, "churn") == 0 || strcmp(word, "grow") == 0)
		keep_allocating(atoi(argument), word[0] == 'c');
	else if (strcmp(word, "chdir") == 0)
		need("chdir", chdir(argument));
	else if (strcmp(word, "putenv") == 0)
		need("putenv", putenv((char *)argument));
	else if (strcmp(word, "say") == 0)
		printf("%s\n", argument), fflush(stdout);
	else if (strcmp(word, "exit") == 0)
		exit(atoi(argument));
	else if (strcmp(word, "_exit") == 0)
		_exit(atoi(argument));
	else if (strcmp(word, "quick_exit") == 0)
		quick_exit(atoi(argument));
	else if (strcmp(word, "kill") == 0)
		kill(getpid(), atoi(argument));
	else
		allocate(word, argument);
}

/* Play one word; the last of its arguments. */
static char **one(char **word)
{
	if (plain(*word))
		return word;
	if (strcmp(*word, "fork") == 0)
		return fork_here(word);
	if (strcmp(*word, "exec") == 0) {
		execvp(word[1], word + 1);
		exit(127);
	}
	if (!word[1]) {
		fprintf(stderr, "play: %s what?\n", *word);
		exit(96);
	}
	with_argument(word[0], word[1]);
	return word + 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	all(argv + 1);
	return 0;
}
