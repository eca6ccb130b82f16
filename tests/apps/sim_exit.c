/*
 * sim_exit.c - calls the driver from a handler that runs after the driver's own destructor.
 */
#include "sim_check.h"

#include <unistd.h>

extern int __cxa_atexit(void (*handler)(void *), void *argument, void *module);

static void late(void *unused)
{
	CUdeviceptr p;

	(void)unused;
	if (cuMemAlloc_v2(&p, 100) != CUDA_ERROR_DEINITIALIZED)
		_exit(1);
}

/* Before every constructor, so that it is the last handler to run. */
static void early(void)
{
	__cxa_atexit(late, NULL, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

int main(void)
{
	check_start();
	return 0;
}
