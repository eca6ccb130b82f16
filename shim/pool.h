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
/* The same where so much was freed: it is given back, as far as the pools do not keep it. */
void pool_settle(int device, uint64_t freed);
/*
 * Memory will come from this pool, NULL for the device's own. Returns how much of it is charged already,
 * because the pool has it free; from then on as part of the request.
 */
uint64_t pool_reuse(int device, CUmemoryPool pool, uint64_t bytes);
void pool_look_everywhere(void);

/* Bytes that the pools of this process keep beyond what is live. Asks the driver. */
uint64_t pool_surplus(void);

#endif
