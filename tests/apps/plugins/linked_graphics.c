/*
 * linked_graphics.c - linked with graphics.c: the answers of its functions, twice each, and what a
 * look-up finds. FIRST=1: cuInit is called before them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned int flags);
long cuGraphicsGLRegisterImage(long a, long b, long c, long d, long e, long f, long g, long h, double i,
	double j, double k, double l, double m, double n, double o, double p, double q);
int cuGLInit(void);

static void graphics(void)
{
	printf("%ld\n", cuGraphicsGLRegisterImage(1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 1, 2,
		3, 4, 5, 6, 7, 8, 9));
}

static void show(const char *how, void *found)
{
	Dl_info info = { 0 };
	const char *word = dlerror();

	if (found)
		dladdr(found, &info);
	printf("%s %s\n", how, found ? info.dli_sname : word ? "absent" : "no word");
}

int main(void)
{
	if (getenv("FIRST"))
		printf("%d\n", cuInit(0));
	graphics();
	printf("%d\n", cuGLInit());
	printf("%d\n", cuInit(0));
	graphics();
	printf("%d\n", cuGLInit());
	show("default", dlsym(RTLD_DEFAULT, "cuGraphicsGLRegisterImage"));
	show("next", dlsym(RTLD_NEXT, "cuGraphicsGLRegisterImage"));
	show("handle", dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphicsGLRegisterImage"));
	show("main", dlsym(dlopen(NULL, RTLD_NOW), "cuGraphicsGLRegisterImage"));
	return 0;
}
