/*
 * cmd_pause.c - `cuward pause`: a process or the processes of a job stand still; halt.c does it.
 */
#include "cuward.h"
#include "halt.h"

int cmd_pause(int argc, char **argv)
{
	return halt_command(argc, argv, false);
}
