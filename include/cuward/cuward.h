/*
 * cuward.h - what a program may say to cuward about itself.
 *
 * All functions are weak: a program that includes this header and is linked with nothing of ours
 * runs with and without cuward. Test the address before the call:
 *
 *	if (cuward_mark)
 *		cuward_mark("epoch 3");
 */
#ifndef CUWARD_CUWARD_H
#define CUWARD_CUWARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name this moment; the leak verdict `marks` compares two of them. Returns 0, or -1 with errno. */
extern int cuward_mark(const char *name) __attribute__((weak));

/* Add or replace the label KEY in reports and traces. Returns 0, or -1 with errno. */
extern int cuward_label(const char *key, const char *value) __attribute__((weak));

/*
 * Bytes of GPU memory that this process holds now, on all GPUs together, as counted against its limit;
 * and the most it held since cuward_reset_peak(), or since its start.
 */
extern uint64_t cuward_live_bytes(void) __attribute__((weak));
extern uint64_t cuward_peak_bytes(void) __attribute__((weak));
extern void cuward_reset_peak(void) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
