/*
 * sim_control.c - what tests may see and do from inside; see control.h.
 */
#include "control.h"
#include "sim_gate.h"
#include "sim_memory.h"

#include <string.h>

static __thread struct {
	int call; /* + 1; 0: none */
	CUresult code;
} next_fault;
static _Atomic uint64_t counts[CALLS];
static __thread uint32_t thread_counts[CALLS];

bool control_fault(enum call call, CUresult *result)
{
	atomic_fetch_add_explicit(&counts[call], 1, memory_order_relaxed);
	thread_counts[call]++;
	if (next_fault.call != (int)call + 1)
		return false;
	next_fault.call = 0;
	*result = next_fault.code;
	return true;
}

static const struct sim_truth_process *control_truth(void)
{
	return usage_process();
}

static int control_call(const char *symbol)
{
	int i;

	gate_watch();
	for (i = 0; i < CALLS; i++)
		if (!strcmp(sim_call_names[i], symbol))
			return i;
	return -1;
}

static void control_set_fault(int call, int code)
{
	next_fault.call = call + 1;
	next_fault.code = (CUresult)code;
}

static uint64_t control_count(int call)
{
	return atomic_load_explicit(&counts[call], memory_order_relaxed);
}

static uint64_t control_thread_count(int call)
{
	return thread_counts[call];
}

extern const struct sim_control cuward_simulated_driver_control;
__attribute__((visibility("default"))) const struct sim_control cuward_simulated_driver_control = {
	control_truth,
	control_call,
	control_set_fault,
	control_count,
	control_thread_count,
	gate_set_delay,
};
