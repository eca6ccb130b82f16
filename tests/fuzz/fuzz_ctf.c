/*
 * fuzz_ctf.c - a fuzz target for the reader of traces: the input is a stream, whose metadata is the file
 * FUZZ_METADATA; where its first byte is odd, what stands before "\n\0" is appended to that.
 *
 * Events of ours come by time within a stream, and both ways of reading end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], *metadata;
static size_t metadata_bytes;

static void clean_up(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/metadata", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/stream", folder);
	unlink(path);
	rmdir(folder);
}

static void set_up(void)
{
	FILE *file = fopen(getenv("FUZZ_METADATA"), "r");

	if (!file)
		exit(77);
	metadata = malloc(1 << 20);
	metadata_bytes = fread(metadata, 1, 1 << 20, file);
	fclose(file);
	strcpy(folder, "/dev/shm/cuward-fuzz-XXXXXX");
	if (!mkdtemp(folder))
		exit(77);
	atexit(clean_up);
}

static void write_file(const char *name, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file)
		exit(77);
	fwrite(a, 1, a_bytes, file);
	fwrite(b, 1, b_bytes, file);
	fclose(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ctf_dir dir = { .path = folder };
	struct ctf_dirs dirs = { .items = &dir, .count = 1 };
	struct trace_facts facts = { 0 };
	struct event_source *source;
	const uint8_t *split;
	struct event event;
	uint64_t last_ns = 0;
	size_t more = 0;
	FILE *null;

	if (!metadata)
		set_up();
	if (size && data[0] & 1 && (split = memmem(data, size, "\n\0", 2)))
		more = (size_t)(split - data);
	write_file("metadata", metadata, metadata_bytes, data + (more > 0), more - (more > 0));
	write_file("stream", data + more, size - more, "", 0);
	source = ctf_open(&dirs, NULL, NULL);
	while (source->next(source, &event)) {
		if (event.time_ns < last_ns && !source->facts.damaged)
			abort();
		last_ns = event.time_ns;
	}
	source->close(source);
	null = fopen("/dev/null", "w");
	ctf_write_text(&dirs, NULL, null, &facts);
	fclose(null);
	trace_facts_free(&facts);
	return 0;
}
