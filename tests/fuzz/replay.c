/*
 * replay.c - play files to a fuzz target, one after the other, where there is no libFuzzer.
 *
 *	gcc -fsanitize=address,undefined ... tests/fuzz/replay.c tests/fuzz/fuzz_NAME.c ... && ./a.out FILE...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of just its size, so that a look behind its end is seen. */
static int play(const char *path)
{
	FILE *file = fopen(path, "r");
	uint8_t *data;
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		return 0;
	rewind(file);
	data = malloc(size ? (size_t)size : 1);
	if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
		return 0;
	fclose(file);
	LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
	return 1;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		fprintf(stderr, "%s\n", argv[i]); /* the last one is that of a crash */
		if (!play(argv[i])) {
			perror(argv[i]);
			return 2;
		}
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
