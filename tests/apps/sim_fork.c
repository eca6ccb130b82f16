/*
 * sim_fork.c - a child of a process that called cuInit cannot use CUDA, one of a process that did
 * not can.
 */
#include "sim_check.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_child(int (*test)(void))
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(test());
	SAME(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static int starts(void)
{
	return cuInit(0);
}

static int allocates(void)
{
	CUdeviceptr p;

	return cuMemAlloc_v2(&p, 100);
}

int main(void)
{
	SAME(in_child(starts), CUDA_SUCCESS);
	check_start();
	SAME(in_child(starts), CUDA_ERROR_NOT_INITIALIZED);
	SAME(in_child(allocates), CUDA_ERROR_NOT_INITIALIZED);
	OK(allocates());
	return 0;
}
