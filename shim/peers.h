/*
 * peers.h - the other processes of this user, as their slots tell; with those of others where all meet.
 */
#ifndef CUWARD_PEERS_H
#define CUWARD_PEERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes that living processes that we can see hold on a device, overhead included; all but the one in
 * slot `self`.
 * 0 where the slots cannot be read. System calls: not on the way of a call.
 */
uint64_t peers_hold(uint32_t slot_device, uint32_t self);

/*
 * The slots file that our slot is in, to ask and to lock; -1, also where its name is another one's
 * by now. Close it: that gives back every lock taken through it.
 */
int peers_open(void);

/*
 * The dead still stand in their slots until somebody needs the room. True: some were there; `self` is
 * our own slot.
 */
bool peers_drop_dead(uint32_t self);

#endif
