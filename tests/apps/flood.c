/*
 * flood.c - one launch of `early`, then so many of `flood`, each with its number as the grid; then
 * SIGKILL.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*call)();

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
		".visible .entry early() { ret; }\n.visible .entry flood() { ret; }\n";
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *early, *flood;
	call launch;

#define CALL(name, ...) \
	if (!driver || !dlsym(driver, #name) || ((call)dlsym(driver, #name))(__VA_ARGS__)) \
		return 99;
	CALL(cuInit, 0)
	CALL(cuDevicePrimaryCtxRetain, &context, 0)
	CALL(cuCtxSetCurrent, context)
	CALL(cuModuleLoadData, &module, ptx)
	CALL(cuModuleGetFunction, &early, module, "early")
	CALL(cuModuleGetFunction, &flood, module, "flood")
	launch = (call)dlsym(driver, "cuLaunchKernel");
	if (launch(early, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
		return 99;
	for (unsigned i = 1; i <= count; i++)
		if (launch(flood, i, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
			return 99;
	kill(getpid(), SIGKILL);
	return 0;
}
