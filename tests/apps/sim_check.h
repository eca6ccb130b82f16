/*
 * sim_check.h - for small programs that test the simulated driver: say where it differs, and stop.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

/* Two whole numbers must be equal. */
#define SAME(expression, expected) \
	do { \
		long long got_ = (long long)(expression), want_ = (long long)(expected); \
		if (got_ != want_) { \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, \
				#expression, got_, want_); \
			exit(1); \
		} \
	} while (0)
#define OK(call) SAME(call, CUDA_SUCCESS)
#define TRUE(condition) SAME(!!(condition), 1)

/* A context on the first device. */
static inline CUcontext check_start(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuCtxCreate_v2(&context, 0, 0));
	return context;
}

#endif
