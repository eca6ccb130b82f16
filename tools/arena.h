/*
 * arena.h - memory that is taken piece by piece and given back all at once.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks; /* the one in use first */
	size_t used;                /* of it */
};

/* Zeroed, aligned for anything. */
void *arena_take(struct arena *arena, size_t bytes);
char *arena_text(struct arena *arena, const char *text, size_t length);
/* Forget everything, but keep the memory for what comes next. */
void arena_reset(struct arena *arena);
void arena_free(struct arena *arena);

#endif
