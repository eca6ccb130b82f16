/*
 * halt.h - `cuward pause` and `cuward resume`: processes that hold GPU memory stand still, and go on.
 */
#ifndef HALT_H
#define HALT_H

#include <stdbool.h>

/* The whole command; the exit status. */
int halt_command(int argc, char **argv, bool go_on);

#endif
