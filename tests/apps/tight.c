/* flags: -Wl,-z,now */
/*
 * tight.c - a CUDA program in tight quarters: `tight WHAT` prints what it sees.
 *
 *	smallest   everything in threads with the smallest stacks there are, the end too
 *	pending    a thread that is cancelled already makes the first calls of all
 *	space      little address space, of which the driver wants the most
 *	specific   memory is freed by a destructor of thread-specific data
 */
#include <cuda.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_key_t key;

static int start(void)
{
	CUcontext context;
	int result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&context, 0);
	return result ? result : (int)cuCtxSetCurrent(context);
}

static int use(void)
{
	CUdeviceptr pointer;
	int result = start();

	if (!result)
		result = cuMemAlloc(&pointer, 4 << 20);
	return result ? result : (int)cuMemFree(pointer);
}

/* Results of threads that may not write: their stacks are small, or writing would end them. */
static int used, failed, too_much = -1, wrong_free = -1;

/* More than the limit that the tests set, but only they know; and records until the books grow. */
static void use_much(void)
{
	CUdeviceptr pointer;

	used = use();
	for (int i = 0; i < 5000; i++)
		failed += cuMemAlloc(&pointer, 256) != 0;
	if (getenv("TOO_MUCH")) {
		too_much = cuMemAlloc(&pointer, 8 << 20);
		wrong_free = cuMemFree(12345);
	}
}

static void tell_results(void)
{
	printf("%d %d, too much %d, wrong %d\n", used, failed, too_much, wrong_free);
}

/* ---- stacks ---- */

static void *use_small(void *unused)
{
	use_much();
	return unused;
}

static void *end(void *unused)
{
	(void)unused;
	exit(3);
}

static void in_small_thread(void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	printf("%d ", pthread_create(&thread, &attributes, run, NULL));
	pthread_join(thread, NULL);
}

static void see_smallest(void)
{
	in_small_thread(use_small);
	tell_results();
	in_small_thread(end);
}

/* ---- cancellation ---- */

static void *use_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	use_much();
	pthread_testcancel();
	return unused;
}

static void see_pending(void)
{
	pthread_t thread;
	void *result = NULL;

	pthread_create(&thread, NULL, use_cancelled, NULL);
	pthread_join(thread, &result);
	tell_results();
	printf("%d %d\n", result == PTHREAD_CANCELED, use());
}

/* ---- address space ---- */

static void see_space(void)
{
	struct rlimit limit = { 1000 << 20, 1000 << 20 };

	printf("%d ", setrlimit(RLIMIT_AS, &limit));
	printf("%d\n", use());
}

/* ---- the end of a thread ---- */

static void give_back(void *pointer)
{
	printf("given back %d\n", cuMemFree((CUdeviceptr)pointer));
}

static void *take(void *unused)
{
	CUdeviceptr pointer = 0;
	int result = start();

	printf("%d ", result ? result : (int)cuMemAlloc(&pointer, 4 << 20));
	pthread_setspecific(key, (void *)pointer);
	return unused;
}

static void see_specific(void)
{
	pthread_t thread;

	pthread_key_create(&key, give_back);
	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, take, NULL);
		pthread_join(thread, NULL);
	}
}

static const struct {
	const char *name;
	void (*see)(void);
} quarters[] = {
	{ "smallest", see_smallest }, { "pending", see_pending }, { "space", see_space },
	{ "specific", see_specific },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (unsigned i = 0; argc > 1 && i < sizeof(quarters) / sizeof(quarters[0]); i++) {
		if (strcmp(argv[1], quarters[i].name) == 0) {
			quarters[i].see();
			return 0;
		}
	}
	return 2;
}
