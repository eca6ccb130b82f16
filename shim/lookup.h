/*
 * lookup.h - whatever hands out pointers hands out ours: dlsym, dlvsym, cuGetProcAddress.
 */
#ifndef CUWARD_LOOKUP_H
#define CUWARD_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

struct ledger_header;

/* dlsym as the process would have it without us: the next definition behind ours. */
void *lookup_real(void *handle, const char *name);

/* That dlsym itself. */
extern void *(*lookup_next_dlsym)(void *, const char *) __attribute__((visibility("hidden")));
extern void *(*lookup_next_dlvsym)(void *, const char *, const char *)
	__attribute__((visibility("hidden")));

/*
 * A module of the process that defines this name, however it was opened; and another name in the same
 * module. Unlike dlsym they leave nothing behind for dlerror().
 */
struct lookup_module {
	uint64_t base;
	const void *dynamic;
};
bool lookup_module_with(const char *name, struct lookup_module *module);
void *lookup_in(const struct lookup_module *module, const char *name);

/*
 * A pointer the driver handed out for `name` with `flags`: ours in its place, and counted; else itself.
 */
void *lookup_swap(const char *name, uint64_t flags, void *pointer);

/* Copy what was looked up so far into the ledger, and every later look-up too. */
void lookup_publish(struct ledger_header *header);

/* Forget that ledger, in a forked child whose kernel wipes nothing. */
void lookup_forget(void);

/* Did anybody look for what NVML says of memory? */
bool lookup_asked_nvml(void);

#endif
