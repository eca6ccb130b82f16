/*
 * identity.h - what the kernel says of this process and of this boot.
 */
#ifndef CUWARD_IDENTITY_H
#define CUWARD_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "cuward/ledger.h"

/* What /proc/self/stat says of this image. False: unreadable, fields are 0, and the name is empty. */
bool identity_read(struct process_identity *who, char comm[16]);

/* The first 8 bytes of the boot id. */
uint64_t identity_boot(void);

#endif
