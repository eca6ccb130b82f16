/*
 * control.h - the simulated driver from inside the process it runs in, for tests that look after
 * every call: no file is read and no system call made.
 *
 *	const struct sim_control *sim = dlsym(libcuda, "cuward_simulated_driver_control");
 */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <stdbool.h>

#include "truth.h"

struct sim_control {
	/* What this process uses; valid until it forks. Devices are by their place in the box. */
	const struct sim_truth_process *(*truth)(void);
	/* The number of an exported call, -1: there is none of this name. */
	int (*call)(const char *symbol);
	/* The next such call of this thread answers `code` and does nothing; -1: no call does. */
	void (*fault)(int call, int code);
	/* How often programs came to this call since the first use of call(), refused or not. */
	uint64_t (*count)(int call);
	/* The same, by this thread alone. */
	uint64_t (*thread_count)(int call);
	/* From now on such calls take so long before they do anything, as by CALL_DELAY_NS. */
	void (*delay)(int call, uint64_t ns);
};

#endif
