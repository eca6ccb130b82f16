/*
 * trace_snapshot.h - a snapshot of a flight recorder, on request.
 */
#ifndef TRACE_SNAPSHOT_H
#define TRACE_SNAPSHOT_H

/* Of the run that this process (a pid) or job is of. Prints where it lies. Returns an exit status. */
int trace_snapshot(const char *name);

#endif
