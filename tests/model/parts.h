/*
 * parts.h - what the files of the model itself share: model.c, child.c, parent.c, steps.c.
 */
#ifndef PARTS_H
#define PARTS_H

#include "model.h"

#define ENABLED_MAX 16

struct options {
	uint64_t seeds, from, steps;
	int threads;
	const char *rows;   /* which calls must have been made */
	const char *replay; /* a list of steps */
	uint64_t child;     /* the seed that this process runs */
	const char *enabled[ENABLED_MAX];
	unsigned enabled_count;
};

/* ---- model.c ---- */

bool family_enabled(enum family family);
enum family family_named(const char *name);

const struct operation *operation_at(unsigned number);
int operation_named(const char *name);
void step_make(struct step *step, uint64_t *state);
void step_run(const struct step *step);

/* Do both sides agree? False: `what` says where not. */
bool same(char *what, size_t room);
bool told(char *what, size_t room);
bool recorded(char *what, size_t room);
void strays(FILE *to);

/* ---- steps.c ---- */

void calls_find(void);
/* Empty the places of what was in this context. */
void world_forget(struct world *its, CUcontext context);
const char *call_name(int call);

/* ---- child.c ---- */

/* Status 0: all agreed; 1: not, with `wrong after STEP: ...` on stderr. */
int child_main(const struct options *options);
/* Steps of a thread of a seed. */
uint64_t seed_state(uint64_t seed, int thread);

/* ---- parent.c ---- */

int parent_main(const struct options *options, const char *program);

/* The settings that a run of this seed has, as NAME=VALUE; NULL after the last. */
const char *const *seed_settings(uint64_t seed);

#endif
