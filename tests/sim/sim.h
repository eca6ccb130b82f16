/*
 * sim.h - what every file of the simulated driver shares.
 *
 * A driver call `cuX` is exported by sim_entry.c and does what `sim_cuX` does. For each of them
 * there is a weak sim_cuX that answers CUDA_ERROR_NOT_SUPPORTED; a behaviour is an ordinary
 * function of that name in the file of its subject.
 */
#ifndef SIM_H
#define SIM_H

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver_calls.h"
#include "sim_calls.h"
#include "truth.h"

#define SIM_DECLARE(name, params, args) CUresult sim_##name params;
DRIVER_CALLS(SIM_DECLARE)

#define SIM_NUMBER(name, params, args) CALL_##name,
#define SIM_NUMBER_UNDECLARED(symbol, name, variant, version, profiles, before_init) CALL_##symbol,
enum call { DRIVER_CALLS(SIM_NUMBER) SIM_UNDECLARED(SIM_NUMBER_UNDECLARED) CALLS };

/* Graphics interop: exported by drivers, declared in headers that we do not need. */
#define SIM_DECLARE_UNDECLARED(symbol, name, variant, version, profiles, before_init) \
	__attribute__((visibility("default"))) CUresult symbol(uintptr_t first_argument);
SIM_UNDECLARED(SIM_DECLARE_UNDECLARED)

#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))
#define SIM_NEVER UINT64_MAX
#define SIM_BLOCK ((uint64_t)2 << 20) /* the granularity of physical memory */
#define SIM_DEVICES SIM_TRUTH_DEVICES

static inline uint64_t round_up(uint64_t value, uint64_t multiple)
{
	return (value + multiple - 1) / multiple * multiple;
}

static inline uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- sim_gate.c: what happens around each call ---- */

/* Not zero until cuInit succeeded, and always when a knob wants to see every call. */
extern int sim_slow;
extern const char *const sim_call_names[];

bool sim_enter(enum call call, uintptr_t first_argument, CUresult *result);
void sim_leave(enum call call, CUresult result, const void *caller);
void sim_ready(void);
bool sim_is_ready(void);

/* ---- sim_profile_*.o ---- */

extern const int sim_profile_version;
int sim_driver_version(void);

/* ---- sim_time.c ---- */

uint64_t sim_now(void);
void sim_sleep_until(uint64_t when);
uint64_t sim_copy_ns(uint64_t bytes);
uint64_t sim_kernel_ns(const char *name);

/* ---- per thread ---- */

#define SIM_STACK 128

struct context;
struct stream;

struct sim_thread {
	struct context *current;
	uint64_t serial; /* of it: its place may be another context's by now */
	bool per_thread; /* a call to a _ptsz or _ptds twin is running */
	bool reentering;
	int depth;
	CUstreamCaptureMode capture_mode;
	struct stream *own_stream; /* the per-thread default stream used last */
	uint64_t id;
	struct context *stack[SIM_STACK];
	uint64_t serials[SIM_STACK];
};
extern __thread struct sim_thread sim_thread;

uint64_t sim_thread_id(void);

#endif
