/*
 * cmd_run.c - `cuward run`: a command under limits, leak check and trace.
 */
#include "cuward.h"

int cmd_run(int argc, char **argv)
{
	(void)argv;
	return argc > 1 ? EXIT_CUWARD : EXIT_USAGE;
}
