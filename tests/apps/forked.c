/*
 * forked.c - a child that inherits a driver at work: what it and its parent may have afterwards.
 *
 *	forked fork|clone [launch]     of 4 MiB the parent has 3, then the child takes 3 and wants 2 more,
 *	                               then the parent takes 1 and wants 1 more; the parent's last call
 *	                               before the child is a kernel launch
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)

static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry nothing() { ret; }\n";

static int ask(size_t bytes)
{
	CUdeviceptr pointer;

	return cuMemAlloc(&pointer, bytes);
}

static void launch(void)
{
	CUmodule module;
	CUfunction kernel;

	cuModuleLoadData(&module, ptx);
	cuModuleGetFunction(&kernel, module, "nothing");
	cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

int main(int argc, char **argv)
{
	CUcontext context;
	int status, first;
	pid_t child;

	cuInit(0);
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	first = ask(3 * MIB);
	if (argc > 2)
		launch();
	child = strcmp(argv[1], "fork") == 0 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		first = ask(3 * MIB);
		syscall(SYS_exit_group, first << 4 | ask(2 * MIB));
	}
	waitpid(child, &status, 0);
	printf("parent %d, ", first);
	if (WIFEXITED(status))
		printf("child %d %d, ", WEXITSTATUS(status) >> 4, WEXITSTATUS(status) & 15);
	first = ask(MIB);
	printf("parent %d %d\n", first, ask(MIB));
	return 0;
}
