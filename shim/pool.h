/*
 * pool.h - memory pools: whose memory they hand out, and what they keep.
 */
#ifndef CUWARD_POOL_H
#define CUWARD_POOL_H

#include "driver.h"
#include "grant.h"

/* Device, kind and charge of memory from this pool. */
void pool_describe(CUmemoryPool pool, struct grant_request *request);

/*
 * Where pools are charged as reserved: what they keep beyond what is live counts too. Look again; the
 * driver gives back at synchronisations, trims, and when it likes.
 */
void pool_look(int device);
void pool_look_everywhere(void);

/* Bytes that the pools of this process keep beyond what is live. Asks the driver. */
uint64_t pool_surplus(void);

#endif
