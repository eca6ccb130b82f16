/*
 * versions.c - what cuGetProcAddress says about every name of the table, at every version of it,
 * with each flag, both ABIs: `versions driver_facts.tsv`. A pointer is told by the symbol it is the
 * address of. A preload may not change a line.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int (*look_up)(const char *, void **, int, uint64_t);
static int (*look_up_v2)(const char *, void **, int, uint64_t, int *);
static void *driver;

static const char *symbol_of(void *pointer)
{
	static char text[20];
	Dl_info info;

	if (pointer == (void *)0x55)
		return "untouched";
	if (pointer && dladdr(pointer, &info) && info.dli_sname)
		return info.dli_sname;
	snprintf(text, sizeof(text), "%s", pointer ? "unknown" : "null");
	return text;
}

static void show(const char *name, int version, uint64_t flags)
{
	void *pointer = (void *)0x55;
	int status = 99, result;

	result = look_up_v2(name, &pointer, version, flags, &status);
	printf("%s %d %d: %d %d %s, ", name, version, (int)flags, result, status, symbol_of(pointer));
	pointer = (void *)0x55;
	result = look_up(name, &pointer, version, flags);
	printf("%d %s\n", result, symbol_of(pointer));
}

int main(int argc, char **argv)
{
	static const int versions[] = { 0, 2000, 3019, 3020, 4000, 11000, 11030, 12000, 13000, 99999, -1 };
	static const uint64_t flags[] = { 0, 1, 2, 3, 4 };
	char line[500], symbol[100], name[100], last[100] = "";
	FILE *table = argc > 1 ? fopen(argv[1], "r") : NULL;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	look_up = (__typeof__(look_up))dlsym(driver, "cuGetProcAddress");
	look_up_v2 = (__typeof__(look_up_v2))dlsym(driver, "cuGetProcAddress_v2");
	while (table && fgets(line, sizeof(line), table)) {
		if (line[0] == '#' || sscanf(line, "%99s %99s", symbol, name) != 2 || !strcmp(name, last))
			continue;
		strcpy(last, name);
		for (unsigned v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
			for (unsigned f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
				show(name, versions[v], flags[f]);
		show(symbol, 99999, 0);
	}
	show("", 12000, 0);
	show("cuNoSuchThing", 12000, 0);
	show("cuLaunchKernel_ptsz", 12000, 0);
	return 0;
}
