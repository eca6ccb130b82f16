/*
 * state.h - where shared state lies.
 */
#ifndef STATE_H
#define STATE_H

#include <limits.h>

/* The folder that processes of this user and environment use. NULL, or why it cannot be told. */
const char *state_folder(char path[PATH_MAX]);

/*
 * Make it if it is missing. NULL, or what is wrong with it: in a public place it may be anybody's, and
 * the guests ask for the same.
 */
const char *state_make(const char *folder);

#endif
