/*
 * fuzz_salvage.c - a fuzz target for traces whose metadata is lost, or in packets as LTTng writes it. The
 * input is two files, apart where "\n\0" stands first: two streams without metadata; or, where its first byte
 * is odd, the metadata and a stream. That byte is of neither.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void path_of(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", folder, name);
}

static void remove_file(const char *name)
{
	char path[128];

	path_of(path, name);
	unlink(path);
}

static void clean_up(void)
{
	remove_file("metadata");
	remove_file("process_0");
	remove_file("calls_0");
	rmdir(folder);
}

static void write_file(const char *name, const uint8_t *bytes, size_t count)
{
	char path[128];
	FILE *file;

	path_of(path, name);
	file = fopen(path, "w");
	if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
		exit(77);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ctf_dir dir = { .path = folder, .has_streams = true };
	struct ctf_dirs dirs = { .items = &dir, .count = 1 };
	const uint8_t *second;
	struct event_source *source;
	struct event event;
	size_t first;

	if (!folder[0]) {
		strcpy(folder, "/dev/shm/cuward-fuzz-XXXXXX");
		if (!mkdtemp(folder))
			exit(77);
		atexit(clean_up);
	}
	if (size < 2)
		return 0;
	dir.orphan = !(data[0] & 1);
	data++;
	size--;
	second = memmem(data, size, "\n\0", 2);
	first = second ? (size_t)(second - data) : size;
	second = second ? second + 2 : data + size;
	write_file(dir.orphan ? "process_0" : "metadata", data, first);
	write_file("calls_0", second, (size_t)(data + size - second));
	source = ctf_open(&dirs, NULL, NULL);
	while (source->next(source, &event))
		;
	/* Guessing is no reading: it is said that something is wrong. */
	if (dir.orphan && !source->facts.damaged)
		abort();
	source->close(source);
	remove_file("process_0");
	remove_file("metadata");
	return 0;
}
