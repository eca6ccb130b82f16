/*
 * near_option.h - words that were probably meant to be others.
 */
#ifndef NEAR_OPTION_H
#define NEAR_OPTION_H

#include <stddef.h>

/* Edits (insert, delete, replace) from a to b; SIZE_MAX for long words, which are never near. */
size_t near_distance(const char *a, const char *b);

/* Where the command ends with a usage error, the option next to one that is none is told. */
void near_option_watch(const char *command, char **words);

#endif
