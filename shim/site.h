/*
 * site.h - where in the program a call came from, as a small number.
 */
#ifndef CUWARD_SITE_H
#define CUWARD_SITE_H

#include <stdint.h>

/* The id of the call site with this return address; 0 unknown, or call sites are not wanted. */
uint32_t site_of(const void *caller);

void site_forget(void);

#endif
