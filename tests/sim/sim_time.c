/*
 * sim_time.c - simulated durations on the real clock.
 */
#include "sim.h"
#include "sim_knobs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

uint64_t sim_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_sleep_until(uint64_t when)
{
	struct timespec until = { (time_t)(when / 1000000000u), (long)(when % 1000000000u) };

	if (when == SIM_NEVER)
		until.tv_sec = (time_t)INT32_MAX;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

uint64_t sim_copy_ns(uint64_t bytes)
{
	static double bytes_per_ns = -1;

	if (bytes_per_ns < 0)
		bytes_per_ns = strtod(knobs.copy_gbps, NULL);
	return bytes_per_ns > 0 ? (uint64_t)((double)bytes / bytes_per_ns) : 0;
}

uint64_t sim_kernel_ns(const char *name)
{
	return knobs_by_name(knobs.kernel_ns, name, 0);
}
