/*
 * share.h - memory that others see, and how processes see each other: the shared folder, slots.
 *
 * With ledger.c the only place that maps memory. Everything here happens at the first CUDA call of
 * a process, at cuInit, or when a ledger grows; nothing on the way of a call.
 */
#ifndef CUWARD_SHARE_H
#define CUWARD_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuward/ledger.h"

/*
 * Open the folder of shared state (CUWARD_DIR, else $XDG_RUNTIME_DIR/cuward, else
 * /dev/shm/cuward-UID), made 0700 if missing. Returns a descriptor, or -errno with a sentence.
 */
int share_folder(char *why, size_t why_bytes);

/*
 * Open the folder where slots files lie: the administrator's, where all users meet, else ours. `common`
 * tells which. -errno with a sentence.
 */
int share_slots_folder(bool *common, char *why, size_t why_bytes);

/* Are our slots in the administrator's folder? */
bool share_is_common(void);

/* Map a slots file of somebody else, to be read with great care: he may cut it off. NULL on failure. */
const void *share_map_slots(int fd);
void share_unmap_slots(const void *slots);

/* Whatever others remember of our slot, they must look at it again. */
void share_slot_changed(void);

/* Map a file shared; it is absent in forked children and in core dumps. NULL on failure. */
void *share_map(int fd, uint64_t offset, size_t bytes);

/* Private zeroed memory, touched pages only; NULL on failure. */
void *share_private(size_t bytes);

/* Give such memory back. */
void share_private_done(void *memory, size_t bytes);

/* The same for tables that are read at random: in huge pages where there are enough of them. */
void *share_private_large(size_t bytes);

/* Zero this page-aligned memory in any forked child, however it was forked. */
void share_wipe_on_fork(void *memory, size_t bytes);

/* Allocate [offset, offset + bytes) of a file for good. 0 or -errno; never SIGBUS later. */
int share_allocate(int fd, uint64_t offset, uint64_t bytes);

/*
 * Take a slot for the process image of this ledger, find the slot's word of each of its devices
 * (slot_device), and write the slot's number into it. NULL with a sentence if there is none.
 */
struct slot *share_take_slot(struct ledger_header *ledger, char *why, size_t why_bytes);

/* Does the owner of that slot live? fd: the slots file. */
bool share_is_alive(int fd, uint32_t number);

/* Is this file the one that our slot is in? By its name there may be another one by now. */
bool share_is_mapped(int fd);

/* The mapped slots file, its slots right behind the header; NULL without a slot. */
struct slots_header *share_slots(void);

/* An orderly end: the slot is free at once. */
void share_give_back_slot(void);

/* Forget everything, in a forked child whose kernel wipes nothing. */
void share_forget(void);

#endif
