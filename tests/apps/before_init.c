/*
 * before_init.c - call every exported function with zero arguments before cuInit and print
 * "symbol result" for each. Those that work then are left out: they would follow the zeros.
 * With a second argument each argument is a pointer to zeros.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int call(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
	uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* argv[1]: driver_facts.tsv */
int main(int argc, char **argv)
{
	static uint64_t zeros[512];
	char line[256], symbol[128], answer[16];
	uintptr_t x = argc > 2 ? (uintptr_t)zeros : 0;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	FILE *facts = argc > 1 ? fopen(argv[1], "r") : NULL;
	call *function;

	if (!driver || !facts)
		return 1;
	while (fgets(line, sizeof(line), facts)) {
		if (sscanf(line, "%127s %*s %*s %*s %*s %*s %15s", symbol, answer) != 2 ||
			*symbol == '#')
			continue;
		*(void **)&function = dlsym(driver, symbol);
		if (!function || !strcmp(answer, "works"))
			continue;
		printf("%s %d\n", symbol, function(x, x, x, x, x, x, x, x, x, x, x, x));
	}
	return 0;
}
