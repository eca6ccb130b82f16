/*
 * versions.c - what the driver says about every name of the table, by both ABIs of cuGetProcAddress at
 * every version with each flag, and by dlsym: `versions driver_facts.tsv`. A pointer is told as
 * `symbol@library`. A preload may change nothing but the library. Then it calls cuInit.
 * `versions asked LIST`: for each line `name version flags` what the driver hands out, once.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int (*look_up)(const char *, void **, int, uint64_t);
static int (*look_up_v2)(const char *, void **, int, uint64_t, int *);
static void *driver;

static const char *who(void *pointer)
{
	static char text[2][300];
	static int turn;
	Dl_info info;
	char *answer = text[turn++ % 2];

	if (pointer == (void *)0x55)
		return "untouched";
	if (!pointer)
		return "null";
	if (!dladdr(pointer, &info) || !info.dli_sname)
		return "unknown";
	snprintf(answer, sizeof(text[0]), "%s@%s", info.dli_saddr == pointer ? info.dli_sname : "within",
		strrchr(info.dli_fname, '/') + 1);
	return answer;
}

static void show(const char *name, int version, uint64_t flags)
{
	void *pointer = (void *)0x55;
	int status = 99, result;

	result = look_up_v2(name, &pointer, version, flags, &status);
	printf("%s %d %d: %d %d %s, ", name, version, (int)flags, result, status, who(pointer));
	pointer = (void *)0x55;
	result = look_up(name, &pointer, version, flags);
	printf("%d %s\n", result, who(pointer));
}

static void show_all(const char *name)
{
	static const int versions[] = { 0, 2000, 3019, 3020, 4000, 11000, 11020, 11030, 11080, 12000, 12020,
		12080, 13000, 13010, 13050, 15000, 99999, -1 };
	static const uint64_t flags[] = { 0, 1, 2, 3, 4 };

	for (unsigned v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
		for (unsigned f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
			show(name, versions[v], flags[f]);
}

static void show_asked(FILE *list)
{
	char line[500], name[100];
	int version, flags;

	while (list && fgets(line, sizeof(line), list)) {
		void *pointer = NULL;

		if (*line == '#' || sscanf(line, "%99s %d %d", name, &version, &flags) != 3)
			continue;
		look_up_v2(name, &pointer, version, flags, NULL);
		printf("%s %d %d %s\n", name, version, flags, who(pointer));
	}
}

int main(int argc, char **argv)
{
	char line[500], symbol[100], name[100], last[100] = "";
	FILE *table = argc > 1 ? fopen(argv[1], "r") : NULL;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	look_up = (__typeof__(look_up))dlsym(driver, "cuGetProcAddress");
	look_up_v2 = (__typeof__(look_up_v2))dlsym(driver, "cuGetProcAddress_v2");
	if (argc > 2) {
		show_asked(fopen(argv[2], "r"));
		return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
	}
	while (table && fgets(line, sizeof(line), table)) {
		if (line[0] == '#' || sscanf(line, "%99s %99s", symbol, name) != 2)
			continue;
		printf("%s: %s\n", symbol, who(dlsym(driver, symbol)));
		if (!look_up_v2)
			continue;
		show(symbol, 99999, 0);
		if (strcmp(name, last) != 0)
			show_all(name);
		strcpy(last, name);
	}
	if (look_up_v2) {
		show("", 12000, 0);
		show("cuNoSuchThing", 12000, 0);
		show("cuLaunchKernel_ptsz", 12000, 0);
	}
	return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
}
