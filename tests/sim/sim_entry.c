/*
 * sim_entry.c - the exported functions, and what a call does that nobody wrote a behaviour for.
 */
#include "sim.h"

#define FIRST(...) FIRST_(__VA_ARGS__ __VA_OPT__(, ) 0, 0)
#define FIRST_(first, ...) ((uintptr_t)(first))

#define EXPORT(name, params, args) \
	CUresult name params \
	{ \
		CUresult sim_result; \
		if (!unlikely(sim_slow)) \
			return sim_##name args; \
		if (sim_enter(CALL_##name, FIRST args, &sim_result)) \
			sim_result = sim_##name args; \
		sim_leave(CALL_##name, sim_result, __builtin_return_address(0)); \
		return sim_result; \
	}
DRIVER_CALLS(EXPORT)

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define BASE(name, params, args) \
	__attribute__((weak)) CUresult sim_##name params \
	{ \
		return CUDA_ERROR_NOT_SUPPORTED; \
	}
SIM_BASES(BASE)

/* A twin is its base with another default stream; stream_of() looks at the mark left here. */
#define TWIN(name, base, params, args) \
	__attribute__((weak)) CUresult sim_##name params \
	{ \
		bool sim_outer = sim_thread.per_thread; \
		CUresult sim_result; \
		sim_thread.per_thread = true; \
		sim_result = sim_##base args; \
		sim_thread.per_thread = sim_outer; \
		return sim_result; \
	}
SIM_TWINS(TWIN)

#define NAME(name, params, args) #name,
#define NAME_UNDECLARED(symbol, name, variant, version, profiles, before_init) #symbol,
const char *const sim_call_names[] = { DRIVER_CALLS(NAME) SIM_UNDECLARED(NAME_UNDECLARED) };

/* Of an unknown signature all that matters is that there is no argument this could destroy. */
#define EXPORT_UNDECLARED(symbol, name, variant, version, profiles, before_init) \
	CUresult symbol(uintptr_t first_argument) \
	{ \
		CUresult sim_result = CUDA_ERROR_NOT_SUPPORTED; \
		if (!unlikely(sim_slow)) \
			return sim_result; \
		if (sim_enter(CALL_##symbol, first_argument, &sim_result)) \
			sim_result = CUDA_ERROR_NOT_SUPPORTED; \
		sim_leave(CALL_##symbol, sim_result, __builtin_return_address(0)); \
		return sim_result; \
	}
SIM_UNDECLARED(EXPORT_UNDECLARED)
