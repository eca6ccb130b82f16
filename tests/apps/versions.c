/*
 * versions.c - what the driver says about every name of the table, by both ABIs of cuGetProcAddress at
 * every version with each flag, and by dlsym: `versions driver_facts.tsv`. Asked are all versions that
 * brought something, the last ones before those, and what no driver is; a line is printed where the
 * answer differs from that to the version before, and at the end how many there were. A pointer is told
 * as `symbol@library`. A preload may change nothing but the library. Then it calls cuInit.
 * `versions asked LIST`: for each line `name version flags` what the driver hands out, once.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*look_up)(const char *, void **, int, uint64_t);
static int (*look_up_v2)(const char *, void **, int, uint64_t, int *);
static void *driver;

#define VERSIONS_MAX 200
static int versions[VERSIONS_MAX];
static unsigned version_count, asked;

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

struct answer {
	void *pointer, *pointer_v2;
	int result, result_v2, status;
};

static void ask(struct answer *answer, const char *name, int version, uint64_t flags)
{
	memset(answer, 0, sizeof(*answer));
	answer->pointer = answer->pointer_v2 = (void *)0x55;
	answer->status = 99;
	if (look_up_v2)
		answer->result_v2 = look_up_v2(name, &answer->pointer_v2, version, flags, &answer->status);
	answer->result = look_up(name, &answer->pointer, version, flags);
	asked++;
}

static void print(const struct answer *answer, const char *name, int version, uint64_t flags)
{
	printf("%s %d %#llx: %d %d %s, ", name, version, (unsigned long long)flags, answer->result_v2,
		answer->status, who(answer->pointer_v2));
	printf("%d %s\n", answer->result, who(answer->pointer));
}

static void show(const char *name, int version, uint64_t flags)
{
	struct answer answer;

	ask(&answer, name, version, flags);
	print(&answer, name, version, flags);
}

static void show_all(const char *name)
{
	static const uint64_t flags[] = { 0, 1, 2, 3, 4, 1ull << 32 };
	struct answer answer, before;

	for (unsigned f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
		for (unsigned v = 0; v < version_count; v++) {
			ask(&answer, name, versions[v], flags[f]);
			if (v == 0 || memcmp(&answer, &before, sizeof(answer)) != 0)
				print(&answer, name, versions[v], flags[f]);
			before = answer;
		}
}

/* A driver compares them unsigned. */
static int compare(const void *a, const void *b)
{
	return *(const unsigned *)a < *(const unsigned *)b ? -1 : *(const unsigned *)a > *(const unsigned *)b;
}

static void add_version(int version)
{
	for (unsigned i = 0; i < version_count; i++)
		if (versions[i] == version)
			return;
	if (version_count == VERSIONS_MAX)
		exit(3);
	versions[version_count++] = version;
}

/* From 11.2 to 13.5 every one is asked for, whether it brought something or not. */
static void read_versions(FILE *table)
{
	static const int odd[] = { 0, 1, 99999, INT_MAX, INT_MIN, -1 };
	char line[500];
	int version;

	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		add_version(odd[i]);
	for (version = 11000; version <= 13100; version += version % 1000 == 100 ? 900 : 10)
		add_version(version);
	while (fgets(line, sizeof(line), table))
		if (line[0] != '#' && sscanf(line, "%*s %*s %*s %d", &version) == 1) {
			add_version(version);
			add_version(version - 1);
		}
	rewind(table);
	qsort(versions, version_count, sizeof(versions[0]), compare);
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
	if (!table)
		return 2;
	read_versions(table);
	while (fgets(line, sizeof(line), table)) {
		if (line[0] == '#' || sscanf(line, "%99s %99s", symbol, name) != 2)
			continue;
		printf("%s: %s\n", symbol, who(dlsym(driver, symbol)));
		if (!look_up)
			continue;
		show(symbol, 99999, 0);
		if (strcmp(name, last) != 0)
			show_all(name);
		strcpy(last, name);
	}
	if (look_up) {
		show("", 12000, 0);
		show("cuNoSuchThing", 12000, 0);
		show("cuLaunchKernel_ptsz", 12000, 0);
	}
	printf("%u asked, at %u versions\n", asked, version_count);
	return ((int (*)(unsigned))dlsym(driver, "cuInit"))(0);
}
