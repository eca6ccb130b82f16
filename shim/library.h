/*
 * library.h - libraries in memory as the loader left them, read without the loader and without libc:
 * some of it runs inside the first dlsym of a process, before anything has started.
 */
#ifndef CUWARD_LIBRARY_H
#define CUWARD_LIBRARY_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* What the dynamic section of a library says. */
struct library_dynamic {
	const ElfW(Sym) *symbols;
	const char *names;
	const char *soname; /* NULL: it has none */
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const ElfW(Rela) *relocations[2]; /* data, and functions that may be bound late */
	size_t relocation_bytes[2];
	size_t relative; /* so many of the first come first and name nothing */
};

void library_read(const struct link_map *map, struct library_dynamic *dynamic);

/* strcmp() == 0. */
bool library_equal(const char *a, const char *b);

/* Does it define the function `name`? */
bool library_defines(const struct link_map *map, const char *name);
/* Its address; NULL too where that is only known once it is bound. */
void *library_definition(const struct link_map *map, const char *name);

/* Does it name, among the libraries it needs, one whose name begins so? */
bool library_needs(const struct link_map *map, const char *prefix);

/* Called for each word that the loader fills in with the address of function `name`. */
typedef void library_visitor(const struct link_map *map, const char *name, void **word, void *user);
void library_imports(const struct link_map *map, library_visitor *visit, void *user);

/* Does the address lie in it? */
bool library_holds(const struct link_map *map, const void *address);

/* Its part that is read-only once relocated: false if it has none, or cannot be told. */
bool library_relro(const struct link_map *map, uintptr_t *start, uintptr_t *end);

#endif
