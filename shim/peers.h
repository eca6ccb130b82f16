/*
 * peers.h - the other processes of this user, as their slots tell.
 */
#ifndef CUWARD_PEERS_H
#define CUWARD_PEERS_H

#include <stdint.h>

/*
 * Bytes that living processes hold on a device, overhead included; all but the one in slot `self`.
 * 0 where the slots cannot be read. System calls: not on the way of a call.
 */
uint64_t peers_hold(uint32_t slot_device, uint32_t self);

#endif
