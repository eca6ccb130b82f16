/*
 * forward.h - the driver's functions that cuda.h does not declare: exported by us too, so that who is
 * linked to them goes where everything else goes, and jumped to without a look at their arguments.
 */
#ifndef CUWARD_FORWARD_H
#define CUWARD_FORWARD_H

/* The number of a forwarded name, -1 for any other text. */
int forward_number(const char *name);

/* What we export under that name. */
void *forward_entry(int forward);

#endif
