/*
 * cuward.h - what a program may say to cuward about itself.
 *
 * Both functions are weak: a program that includes this header and is linked with nothing of ours
 * runs with and without cuward. Test the address before the call:
 *
 *	if (cuward_mark)
 *		cuward_mark("epoch 3");
 */
#ifndef CUWARD_CUWARD_H
#define CUWARD_CUWARD_H

#ifdef __cplusplus
extern "C" {
#endif

/* Name this moment; the leak verdict `marks` compares two of them. Returns 0, or -1 with errno. */
extern int cuward_mark(const char *name) __attribute__((weak));

/* Add or replace the label KEY in reports and traces. Returns 0, or -1 with errno. */
extern int cuward_label(const char *key, const char *value) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
