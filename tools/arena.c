/*
 * arena.c - chunks of memory; the newest is the one that pieces are taken from.
 */
#include "arena.h"

#include "need.h"

#define CHUNK_BYTES 16384

struct arena_chunk {
	struct arena_chunk *next;
	size_t bytes;
	_Alignas(16) char memory[];
};

static void add_chunk(struct arena *arena, size_t bytes)
{
	struct arena_chunk *chunk;

	bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	chunk = need(malloc(sizeof(*chunk) + bytes));
	*chunk = (struct arena_chunk){ .next = arena->chunks, .bytes = bytes };
	arena->chunks = chunk;
	arena->used = 0;
}

void *arena_take(struct arena *arena, size_t bytes)
{
	void *memory;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!arena->chunks || arena->chunks->bytes - arena->used < bytes)
		add_chunk(arena, bytes);
	memory = arena->chunks->memory + arena->used;
	arena->used += bytes;
	return memset(memory, 0, bytes);
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_take(arena, length + 1);

	memcpy(copy, text, length);
	return copy;
}

void arena_reset(struct arena *arena)
{
	struct arena_chunk *last = arena->chunks;

	while (last && last->next) {
		arena->chunks = last->next;
		free(last);
		last = arena->chunks;
	}
	arena->used = 0;
}

void arena_free(struct arena *arena)
{
	arena_reset(arena);
	free(arena->chunks);
	*arena = (struct arena){ 0 };
}
