/*
 * admin_dir.h - the folder that the administrator made for all users, where there is one.
 *
 *	RUNDIR/slots    everybody's slots, so that all processes of the machine see each other
 *	RUNDIR/queue    everybody's places in the queue
 *	RUNDIR/reserve  what the administrator keeps for somebody
 *	RUNDIR/turn     a file to take turns with
 *	RUNDIR/trace    while a trace of all users is on: TRACE_FILE of ledger.h
 *
 * tmpfiles.d makes it (cuward.tmpfiles.conf). It is root's, and nobody can remove another's file.
 */
#ifndef CUWARD_ADMIN_DIR_H
#define CUWARD_ADMIN_DIR_H

#ifndef CUWARD_RUNDIR
#define CUWARD_RUNDIR "/run/cuward"
#endif

/* A part of it, open; -1 where there is none or it is not as it must be. */
int admin_dir_open(const char *part);

/* RUNDIR/turn, to be locked with flock; -1. */
int admin_dir_open_turn(void);

/* RUNDIR/trace, which only root can have made; -1. */
int admin_dir_open_trace(void);

#endif
