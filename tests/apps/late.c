/* flags: -rdynamic */
/*
 * late.c - a program that has loaded its kernels and holds memory long before anybody wants a trace of it.
 *
 *	late            four modules of three kernels and a library; then launches them all again and again
 *	late handler    calls CUDA in a signal handler only, until SIGUSR1 comes
 *	late storm      four threads allocate and free until SIGUSR1 comes, then hold what they have, and
 *	                say `still`; a fifth has a stack too small to load anything there
 *
 * It says `held` once all is there. A file `free` in its folder: free the first block, say so, once.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef int (*call)();

enum { MODULES = 4, KERNELS = 3, BLOCKS = 6 };

static void *the_context;
static void *kernels[MODULES * KERNELS + 2];
static uint64_t blocks[BLOCKS];
static int kernel_count;
static call launch, get_free, info;
static volatile sig_atomic_t handled, leave;

static call find(const char *name)
{
	static void *driver;
	call found;

	driver = driver ? driver : dlopen("libcuda.so.1", RTLD_NOW);
	found = driver ? (call)dlsym(driver, name) : NULL;
	if (!found)
		exit(98);
	return found;
}

static void need(int result)
{
	if (result)
		exit(99);
}

static const char *source(char *ptx, const char *name, int count)
{
	int at = sprintf(ptx, ".version 7.0\n.target sm_52\n.address_size 64\n");

	for (int i = 0; i < count; i++)
		at += sprintf(ptx + at, ".visible .entry %s%d() { ret; }\n", name, i);
	return ptx;
}

static void load_modules(void)
{
	char ptx[2000], name[40];
	void *module;

	for (int m = 0; m < MODULES; m++) {
		sprintf(name, "module%d_kernel", m);
		need(find("cuModuleLoadData")(&module, source(ptx, name, KERNELS)));
		for (int k = 0; k < KERNELS; k++) {
			sprintf(name, "module%d_kernel%d", m, k);
			need(find("cuModuleGetFunction")(&kernels[kernel_count++], module, name));
		}
	}
}

/* One kernel launched as such, one through its function. */
static void load_library(void)
{
	char ptx[2000];
	void *library, *kernel;

	need(find("cuLibraryLoadData")(&library, source(ptx, "library_kernel", 2), NULL, NULL, 0, NULL, NULL, 0));
	need(find("cuLibraryGetKernel")(&kernels[kernel_count++], library, "library_kernel0"));
	need(find("cuLibraryGetKernel")(&kernel, library, "library_kernel1"));
	need(find("cuKernelGetFunction")(&kernels[kernel_count++], kernel));
}

static void hold(void)
{
	need(find("cuMemAlloc_v2")(&blocks[0], (size_t)1 << 20));
	need(find("cuMemAlloc_v2")(&blocks[1], (size_t)3 << 20));
	need(find("cuMemAllocManaged")(&blocks[2], (size_t)2 << 20, 1));
	need(find("cuMemAllocAsync")(&blocks[3], (size_t)4 << 20, NULL));
	need(find("cuMemAllocHost_v2")(&blocks[4], (size_t)8 << 20));
	need(find("cuStreamCreate")(&blocks[5], 0));
}

static void in_handler(int number)
{
	size_t free_bytes, total;

	(void)number;
	need(info(&free_bytes, &total));
	need(launch(kernels[0], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	handled++;
}

static void leave_handler(int number)
{
	leave = number;
}

static void work_in_handler(void)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };

	signal(SIGALRM, in_handler);
	signal(SIGUSR1, leave_handler);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 20)
		pause();
	puts("held");
	fflush(stdout);
	while (!leave)
		pause();
	setitimer(ITIMER_REAL, &never, NULL);
}

enum { STORM = 200 };

static void *storm(void *seed)
{
	call get = find("cuMemAlloc_v2");
	unsigned number = (unsigned)(size_t)seed;
	uint64_t mine[STORM] = { 0 };

	need(find("cuCtxSetCurrent")(the_context));
	while (!leave) {
		unsigned i = rand_r(&number) % STORM;

		if (mine[i])
			need(get_free(mine[i]));
		mine[i] = 0;
		if (rand_r(&number) % 4)
			need(get(&mine[i], (size_t)(1 + rand_r(&number) % 64) << 9));
		/* Not more than a trace can take. */
		if (rand_r(&number) % 8 == 0)
			usleep(100);
	}
	return NULL;
}

static void *small(void *unused)
{
	size_t free_bytes, total;

	need(find("cuCtxSetCurrent")(the_context));
	while (!leave) {
		need(info(&free_bytes, &total));
		usleep(100);
	}
	return unused;
}

static void work_in_storm(void)
{
	pthread_t threads[5];
	pthread_attr_t attributes;

	signal(SIGUSR1, leave_handler);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, storm, (void *)(i + 1));
	pthread_create(&threads[4], &attributes, small, NULL);
	puts("held");
	fflush(stdout);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	puts("still");
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	void *context;

	need(find("cuInit")(0));
	need(find("cuDevicePrimaryCtxRetain")(&context, 0));
	need(find("cuCtxSetCurrent")(context));
	the_context = context;
	launch = find("cuLaunchKernel");
	info = find("cuMemGetInfo_v2");
	get_free = find("cuMemFree_v2");
	load_modules();
	load_library();
	hold();
	if (argc > 1 && strcmp(argv[1], "handler") == 0)
		work_in_handler();
	if (argc > 1 && strcmp(argv[1], "storm") == 0)
		work_in_storm();
	puts("held");
	fflush(stdout);
	for (int i = 0; i < 20000; i++) {
		for (int k = 0; k < kernel_count; k++)
			need(launch(kernels[k], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		if (blocks[0] && access("free", F_OK) == 0) {
			need(get_free(blocks[0]));
			blocks[0] = 0;
			puts("freed");
			fflush(stdout);
		}
		usleep(1000);
	}
	return 0;
}
