/*
 * libraries.h - where libcuward.so and its companions lie.
 */
#ifndef LIBRARIES_H
#define LIBRARIES_H

#include <limits.h>
#include <stdbool.h>

/*
 * The folder of libcuward.so: beside the command, in ../lib/cuward from it (an installation anywhere),
 * or where this build would install it. False: in none of them; folder is that of the command.
 */
bool libraries_find(char folder[PATH_MAX]);

#endif
