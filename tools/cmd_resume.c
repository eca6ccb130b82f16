/*
 * cmd_resume.c - `cuward resume`: what was stopped goes on; halt.c does it.
 */
#include "cuward.h"
#include "halt.h"

int cmd_resume(int argc, char **argv)
{
	return halt_command(argc, argv, true);
}
